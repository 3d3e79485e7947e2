"""Prints `deploy/seccomp.json`, the system calls that the bot's container may make:

    .venv/bin/python scripts/seccomp_profile.py >deploy/seccomp.json

These are the system calls that boxes may make
(`nekro_core/system/confinement/jail_allowed_calls.py`), and the calls that the bot and bubblewrap
need in addition. Docker's own filter would refuse the calls of bubblewrap, because the bot does not
have ``CAP_SYS_ADMIN``. Code in a box still cannot make the calls of bubblewrap, because each box
has a filter of its own.
"""

import json
import sys
from collections.abc import Sequence

from nekro_core.system.confinement.jail_allowed_calls import allowed_names

OF_BUBBLEWRAP = ("clone", "clone3", "mount", "pivot_root", "sethostname", "umount2", "unshare")
"""Calls with which bubblewrap makes namespaces and mounts. In a user namespace, these calls can
change only what belongs to this namespace."""
OF_THE_BOT = (
    # Making processes and sockets. The filter of boxes allows some of these calls too, but only
    # with certain arguments.
    *("ioctl", "prctl", "prlimit64", "socket", "socketpair"),
    # Files in memory: for arguments of boxes, and for models.
    "memfd_create",
    # Shared memory and semaphores, which libraries for computing use.
    *("shmat", "shmctl", "shmdt", "shmget", "semctl", "semget", "semop", "semtimedop"),
    # Choosing the NUMA node of memory, which llama.cpp does.
    *("get_mempolicy", "mbind", "set_mempolicy"),
    # Asynchronous reading and writing.
    *("io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit"),
    # Named pipes on x86-64.
    "mknod",
)
PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
"""The allowed arguments of the call ``personality``: the personalities that change only how a
process sees its machine, and 0xFFFFFFFF, which returns the present personality. Other personalities
make attacks easier, for example because they load programs at fixed addresses."""
ENOSYS = 38


def profile() -> dict[str, object]:
    """Return the profile in the form of Docker, Podman and Kubernetes."""
    names = {*allowed_names(watches=True), *OF_BUBBLEWRAP, *OF_THE_BOT}
    return {
        # A call that is not allowed fails with ENOSYS ("does not exist"). Then libraries use an
        # older call instead.
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": [_allowed(sorted(names - {"personality"})), *map(_personality, PERSONALITIES)],
    }


def _allowed(names: Sequence[str], **more: object) -> dict[str, object]:
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", **more}


def _personality(value: int) -> dict[str, object]:
    return _allowed(["personality"], args=[{"index": 0, "value": value, "op": "SCMP_CMP_EQ"}])


if __name__ == "__main__":
    json.dump(profile(), sys.stdout, indent=1)
    sys.stdout.write("\n")
