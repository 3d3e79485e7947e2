"""The filter of system calls that every box gets: a BPF program for bubblewrap's ``--seccomp``.

Allowed is what `allowed_calls` names; six calls are looked at more closely, by an argument. What is
known to be for whoever runs a machine fails with ``EPERM``, "you may not". All the rest, and every
number that a later kernel may give a meaning to, fails with ``ENOSYS``, "this kernel has none", so
that libraries fall back: glibc from ``clone3`` to ``clone``, where the flags can be read. The
instructions: `nekro_core.system.confinement.bpf`.
"""

import errno
from dataclasses import dataclass

from nekro_core.system.confinement.bpf import (
    ALLOW,
    ANY_BIT,
    EQUAL,
    GIVE,
    MACHINES,
    argument,
    choose,
    deny,
    only,
    op,
    program,
)
from nekro_core.system.confinement.jail_allowed_calls import allowed_numbers

__all__ = ["MACHINES", "build_filter"]

# Named, x86_64, aarch64. None: this processor's kernel never had it.
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

_CLONE_NEW = 0x7E020000  # every CLONE_NEW* flag that clone() can carry
_FAMILIES = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6: the network namespace confines these
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
    """The program for a processor; ``watches`` says whether inotify is allowed.

    Raises `KeyError` for a ``machine`` that is not in `MACHINES`.
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
    # A process may bound itself, not the agent, which has the same user id.
    blocks[known.prlimit64] = argument(0, only((0,), errno.EPERM))
    return program(machine, choose(blocks, deny(errno.ENOSYS)))
