"""Builds the two filters of system calls for boxes, as BPF programs.

`build_filter` is for all processes of a box; bubblewrap installs it (``--seccomp``). It allows the
calls in `jail_allowed_calls`, and six more calls if one of their arguments is allowed. Calls that
only the administrator of a machine needs fail with ``EPERM``. All other calls, including calls that
only later kernels have, fail with ``ENOSYS``, so that libraries use an older call. For example,
glibc uses ``clone`` instead of ``clone3``, and a filter can read the flags of ``clone``.

`build_buffer_filter` is a second filter, only for runs and commands; `guest.guest_confinement`
installs it inside the box. It keeps the memory of sockets and pipes within the amount that
`guest.guest_socket_memory` counts. The supervisor and its executor do not have this filter, because
they send archives with ``sendfile`` and large buffers. With these, an archive is sent at 1,000 MB/s
instead of 500 MB/s.

`nekro_core.system.confinement.bpf` makes the instructions.
"""

import errno
from dataclasses import dataclass

from nekro_core.system.confinement.bpf import (
    ALLOW,
    ANY_BIT,
    EQUAL,
    ERRNO,
    GIVE,
    LOAD,
    MACHINES,
    argument,
    choose,
    deny,
    only,
    op,
    program,
)
from nekro_core.system.confinement.jail_allowed_calls import allowed_numbers

__all__ = ["MACHINES", "build_buffer_filter", "build_filter"]

# Each entry has a name, the number on x86_64 and the number on aarch64. None means that the kernel
# for that processor never had the call.
_NOT_PERMITTED: tuple[tuple[str, int | None, int | None], ...] = (
    ("mount", 165, 40),
    ("umount2", 166, 39),
    ("pivot_root", 155, 41),
    ("chroot", 161, 51),
    ("unshare", 272, 97),
    ("setns", 308, 268),
    ("ptrace", 101, 117),
    ("process_vm_readv", 310, 270),
    ("process_vm_writev", 311, 271),
    ("pidfd_getfd", 438, 438),
    ("kcmp", 312, 272),
    ("process_madvise", 440, 440),
    ("bpf", 321, 280),
    ("keyctl", 250, 219),
    ("add_key", 248, 217),
    ("request_key", 249, 218),
    ("kexec_load", 246, 104),
    ("kexec_file_load", 320, 294),
    ("init_module", 175, 105),
    ("finit_module", 313, 273),
    ("delete_module", 176, 106),
    ("reboot", 169, 142),
    ("swapon", 167, 224),
    ("swapoff", 168, 225),
    ("sethostname", 170, 161),
    ("setdomainname", 171, 162),
    ("syslog", 103, 116),
    ("acct", 163, 89),
    ("quotactl", 179, 60),
    ("quotactl_fd", 443, 443),
    ("nfsservctl", 180, 42),
    ("iopl", 172, None),
    ("ioperm", 173, None),
    ("modify_ldt", 154, None),
    ("settimeofday", 164, 170),
    ("clock_settime", 227, 112),
    ("clock_adjtime", 305, 266),
    ("adjtimex", 159, 171),
    ("lookup_dcookie", 212, 18),
    ("mknod", 133, None),
    ("vhangup", 153, 58),
    ("fanotify_init", 300, 262),
)

_CLONE_NEW = 0x7E020000  # These are all CLONE_NEW* flags that clone() accepts.
# These are AF_UNIX, AF_INET and AF_INET6. A network namespace confines their sockets.
_FAMILIES = (1, 2, 10)
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PERSONALITY_QUERY = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int
    clone: int
    socket: int
    socketpair: int
    ioctl: int
    personality: int
    prlimit64: int


_MACHINES = {
    "x86_64": _Machine(
        1, clone=56, socket=41, socketpair=53, ioctl=16, personality=135, prlimit64=302
    ),
    "aarch64": _Machine(
        2, clone=220, socket=198, socketpair=199, ioctl=29, personality=92, prlimit64=261
    ),
}


def build_filter(machine: str, *, watches: bool = True) -> bytes:
    """Return the program for a processor. ``watches`` allows inotify.

    Raises `KeyError` if ``machine`` is not in `MACHINES`.
    """
    known = _MACHINES[machine]
    blocks = {
        number: deny() for row in _NOT_PERMITTED if isinstance(number := row[known.column], int)
    }
    for number in allowed_numbers(machine, watches=watches):
        blocks[number] = [op(GIVE, ALLOW)]
    blocks[known.clone] = argument(0, [op(ANY_BIT, _CLONE_NEW, 0, 1), *deny()])
    for number in (known.socket, known.socketpair):
        blocks[number] = argument(0, only(_FAMILIES, errno.EAFNOSUPPORT))
    terminal = [op(EQUAL, _TIOCSTI, 1, 0), op(EQUAL, _TIOCLINUX, 0, 1), *deny()]
    blocks[known.ioctl] = argument(1, terminal)
    blocks[known.personality] = argument(0, only((0, _PERSONALITY_QUERY), errno.EPERM))
    # The argument 0 means the calling process. The call is refused for other processes, because a
    # run must not change the limits of the supervisor, which has the same user id.
    blocks[known.prlimit64] = argument(0, only((0,), errno.EPERM))
    return program(machine, choose(blocks, deny(errno.ENOSYS)))


_SOL_SOCKET = 1
# These are SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE and SO_RCVBUFFORCE.
_BUFFER_SIZES = (7, 8, 32, 33)
_SETSOCKOPT = (54, 208)

# Calls that put pages of files or memory into pipes and sockets without copying, for x86_64 and
# aarch64. While one byte of a page waits in a pipe or socket, the whole page stays in memory, but
# the kernel counts only that byte.
_LENDING = {"splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75), "sendfile": (40, 71)}


def build_buffer_filter(machine: str) -> bytes:
    """Return the filter's program for a processor.

    A call that sets the size of a socket's buffer succeeds without effect. The kernel does the same
    for a size above its limit. The calls in `_LENDING` fail with ``EINVAL``, so that programs read
    and write instead. Raises `KeyError` if ``machine`` is not in `MACHINES`.
    """
    column = {name: place for place, name in enumerate(MACHINES)}[machine]
    rules: list[bytes] = []
    for numbers in _LENDING.values():
        rules += [op(EQUAL, numbers[column], 0, 1), op(GIVE, ERRNO | errno.EINVAL)]
    last = len(_BUFFER_SIZES) - 1
    sizes = [
        op(EQUAL, value, last - place, 1 if place == last else 0)
        for place, value in enumerate(_BUFFER_SIZES)
    ]
    body = [op(LOAD, 16 + 8 * 2), *sizes, op(GIVE, ERRNO | 0)]
    body = [op(LOAD, 16 + 8), op(EQUAL, _SOL_SOCKET, 0, len(body)), *body, op(GIVE, ALLOW)]
    rules += [op(EQUAL, _SETSOCKOPT[column], 0, len(body)), *body]
    return program(machine, rules, otherwise=ALLOW)
