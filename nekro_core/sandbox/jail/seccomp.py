"""The filter of system calls that every box gets: a BPF program for bubblewrap's ``--seccomp``.

What a namespace already confines stays allowed; denied is what reaches around one, what has been
the way into kernels, and memory that no limit counts. ``EPERM`` says "you may not"; ``ENOSYS`` says
"this kernel has none", so that libraries fall back (glibc from ``clone3`` to ``clone``, where the
flags can be read). The instructions, and where the numbers are from: `nekro_core.system_calls`.
"""

import errno
from dataclasses import dataclass

from nekro_core.system_calls import (
    ALLOW,
    ANY_BIT,
    EQUAL,
    ERRNO,
    GIVE,
    MACHINES,
    check_argument,
    deny,
    only,
    op,
    program,
)

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

_NOT_THERE: tuple[tuple[str, int | None, int | None], ...] = (
    ("clone3", 435, 435),
    ("fsopen", 430, 430),
    ("fsmount", 432, 432),
    ("fsconfig", 431, 431),
    ("fspick", 433, 433),
    ("move_mount", 429, 429),
    ("open_tree", 428, 428),
    ("mount_setattr", 442, 442),
    ("perf_event_open", 298, 241),
    ("userfaultfd", 323, 282),
    ("io_uring_setup", 425, 425),
    ("io_uring_enter", 426, 426),
    ("io_uring_register", 427, 427),
    ("open_by_handle_at", 304, 265),
    ("name_to_handle_at", 303, 264),
    # Memory that stays when nobody has it mapped: no limit of ours would count it.
    ("memfd_create", 319, 279),
    ("memfd_secret", 447, 447),
    ("shmget", 29, 194),
    ("msgget", 68, 186),
    ("semget", 64, 190),
    ("mq_open", 240, 180),
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


def build_filter(machine: str) -> bytes:
    """The program for a processor. Raises `KeyError` for one that is not in `MACHINES`."""
    known = _MACHINES[machine]
    rules: list[bytes] = []
    for table, error in ((_NOT_PERMITTED, errno.EPERM), (_NOT_THERE, errno.ENOSYS)):
        for row in table:
            number = row[known.column]
            if isinstance(number, int):
                rules += [op(EQUAL, number, 0, 1), op(GIVE, ERRNO | error)]
    rules += check_argument(known.clone, 0, [op(ANY_BIT, _CLONE_NEW, 0, 1), *deny()])
    for number in (known.socket, known.socketpair):
        rules += check_argument(number, 0, only(_FAMILIES, errno.EAFNOSUPPORT))
    terminal = [op(EQUAL, _TIOCSTI, 1, 0), op(EQUAL, _TIOCLINUX, 0, 1), *deny()]
    rules += check_argument(known.ioctl, 1, terminal)
    rules += check_argument(known.personality, 0, only((0, _PERSONALITY_QUERY), errno.EPERM))
    # A process may bound itself, not the agent, which has the same user id.
    rules += check_argument(known.prlimit64, 0, only((0,), errno.EPERM))
    return program(machine, rules, otherwise=ALLOW)
