"""Becomes an ordinary user who can reach this interpreter and this checkout, and runs a command.

Root starts this program with the arguments of `become`, followed by the command. If the interpreter
or the checkout is below a folder that only root may enter, the program mounts an open folder over
that one. The open folder contains only the interpreter and the checkout. The mounts are in a mount
namespace that only this program and its command see.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

UID = 50_000 + os.getpid() % 10_000
"""Each test process uses another user id. The kernel limits some resources for each user, so two
suites with one user would share these limits."""


def become(uid: int = UID) -> list[str]:
    """The arguments that must be before a command, so that ``uid`` runs it."""
    return ["unshare", "-m", sys.executable, __file__, str(uid)]


def closed_above(path: Path) -> Path | None:
    """The topmost folder on the way to ``path`` that others may not enter."""
    for folder in [*reversed(path.parents), path]:
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def main(uid: int, command: list[str]) -> None:
    os.umask(0o022)  # another user must read the files made here
    checkout = Path(__file__).resolve().parents[2]
    stage = Path(tempfile.mkdtemp())
    hidden: list[tuple[Path, Path, Path]] = []
    for number, path in enumerate((Path(sys.base_prefix), Path(sys.prefix), checkout)):
        cover = closed_above(path)
        if cover is not None:
            kept = stage / str(number)
            kept.mkdir()
            mount("--bind", path, kept)
            hidden.append((cover, path, kept))
    for cover in {cover for cover, _, _ in hidden}:
        mount("-t", "tmpfs", "-o", "mode=755", "none", cover)
    for _, path, kept in hidden:
        path.mkdir(parents=True, exist_ok=True)
        mount("--bind", kept, path)
    home = tempfile.mkdtemp()
    os.chown(home, uid, uid)
    os.chdir(checkout)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
