"""Prints `deploy/seccomp.json`, the system calls that the bot's container may make:

    .venv/bin/python scripts/seccomp_profile.py >deploy/seccomp.json

The calls are those of the boxes (`nekro_core/system/confinement/jail_allowed_calls.py`) and those
that the bot and bubblewrap need in addition. Docker's own filter refuses bubblewrap's calls to
processes without ``CAP_SYS_ADMIN``. Code in a box cannot make them: each box has a filter of its
own.
"""

import json
import sys
from collections.abc import Sequence

from nekro_core.system.confinement.jail_allowed_calls import allowed_names

OF_BUBBLEWRAP = ("clone", "clone3", "mount", "pivot_root", "sethostname", "umount2", "unshare")
"""Calls that make namespaces and mounts. A user namespace limits them to what is inside of it."""
OF_THE_BOT = (
    # Making processes and sockets; the filter of boxes allows these with certain arguments only.
    *("ioctl", "prctl", "prlimit64", "socket", "socketpair"),
    # Anonymous files: arguments of boxes, models in memory.
    "memfd_create",
    # Shared memory and semaphores of libraries that compute.
    *("shmat", "shmctl", "shmdt", "shmget", "semctl", "semget", "semop", "semtimedop"),
    # Memory on several processors' nodes: llama.cpp asks for it.
    *("get_mempolicy", "mbind", "set_mempolicy"),
    # Reading and writing without waiting.
    *("io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit"),
    # Named pipes on x86-64.
    "mknod",
)
PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
"""The personalities that change only how a process sees its machine, and the question for the
present one. Others make attacks easier, for example by fixed addresses."""
ENOSYS = 38


def profile() -> dict[str, object]:
    """Return the profile in the form of Docker, Podman and Kubernetes."""
    names = {*allowed_names(watches=True), *OF_BUBBLEWRAP, *OF_THE_BOT}
    return {
        # Libraries use an older call if they learn that a call does not exist.
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
