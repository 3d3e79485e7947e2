"""Finds a Python for boxes. The user of the boxes must be able to read it and its whole standard
library."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROBE = """
import asyncio, ctypes, json, os, pickle, resource, sys, sysconfig, tarfile
paths = sysconfig.get_paths()
hidden = {paths["purelib"], paths["platlib"], *(p for p in sys.path if p.endswith("-packages"))}
version = "%d.%d" % sys.version_info[:2]
for root in {"/usr", "/usr/local", sys.base_prefix}:
    for name in ("python3", "python" + version):
        hidden |= {"%s/lib/%s/%s-packages" % (root, name, kind) for kind in ("site", "dist")}
print(json.dumps({
    "version": list(sys.version_info[:2]),
    "release": "%d.%d.%d" % sys.version_info[:3],
    "prefix": sys.base_prefix,
    "executable": os.path.realpath(sys.executable),
    "hidden": sorted(filter(os.path.isdir, hidden)),
}))
"""

_OLDEST = (3, 9)
_SYSTEM = (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The user of a process. ``uid`` is the user id, or None if the bot is not root: then the
    process has the same user as the bot."""

    uid: int | None = None

    def popen_arguments(self) -> dict[str, object]:
        """Return arguments for `subprocess.Popen`. With them, a new process starts as this user."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": ()}

    def words(self, dropper: str) -> tuple[str, ...]:
        """Return the words to put before a command, so that the program ``dropper`` (see
        `find_dropper`) runs the command as this user."""
        uid = str(self.uid)
        return (dropper, "--reuid", uid, "--regid", uid, "--clear-groups")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python for boxes. ``hidden`` has its folders of installed packages, which boxes must not
    see."""

    executable: str
    prefix: str
    version: tuple[int, int]
    release: str
    """The version with all three numbers."""
    hidden: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InterpreterSearch:
    """The Python that was found, and why other candidates were refused."""

    found: Interpreter | None
    refused: tuple[str, ...]


def candidates(wanted: Path | None) -> Iterable[Path]:
    """Return the paths to try, best first. If the operator has set ``wanted``, it is the only path.
    Otherwise the system's Python comes first, then the bot's."""
    if wanted is not None:
        yield wanted
        return
    yield from _SYSTEM
    yield Path(sys.base_prefix) / "bin" / "python3"


def find_interpreter(wanted: Path | None, identity: ProcessIdentity) -> InterpreterSearch:
    """Run each candidate as the boxes' user, and return the first that works. Blocks for about
    0.1 s."""
    refused: list[str] = []
    for path in candidates(wanted):
        try:
            done = subprocess.run(  # type: ignore[call-overload]  # noqa: S603 - fixed words
                [path, "-I", "-S", "-c", _PROBE],
                capture_output=True,
                timeout=20,
                check=True,
                env={"LANG": "C.UTF-8"},
                cwd="/",
                **identity.popen_arguments(),
            )
            found = json.loads(done.stdout)
        except subprocess.CalledProcessError as error:
            refused.append(f"{path}: {error.stderr.decode(errors='replace').strip()[-200:]}")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            refused.append(f"{path}: {error}")
        else:
            version = (found["version"][0], found["version"][1])
            if version >= _OLDEST:
                chosen = Interpreter(
                    executable=found["executable"],
                    prefix=found["prefix"],
                    version=version,
                    release=found["release"],
                    hidden=tuple(found["hidden"]),
                )
                return InterpreterSearch(chosen, tuple(refused))
            refused.append(f"{path}: Python {version[0]}.{version[1]} is older than 3.9")
    return InterpreterSearch(None, tuple(refused))


def find_dropper(identity: ProcessIdentity) -> str:
    """Find a program that changes its user and then executes a command: util-linux's ``setpriv``.

    `subprocess` can change the user too, but then it uses fork, which blocks a process of 300 MB
    for 10 ms. With such a program `subprocess` can use vfork, which takes 0.4 ms for any size. The
    result is empty if ``identity`` is the bot's user, or if there is no suitable program (busybox's
    ``setpriv`` is not suitable).
    """
    found = shutil.which("setpriv", path="/usr/bin:/bin:/usr/sbin:/sbin")
    if identity.uid is None or found is None:
        return ""
    words = (*identity.words(found), found, "--dump")
    tried = subprocess.run(words, capture_output=True, check=False, timeout=20)  # noqa: S603 - fixed words
    return (
        found if tried.returncode == 0 and f"uid: {identity.uid}" in tried.stdout.decode() else ""
    )


def is_root() -> bool:
    """Return True if this process runs as root. Then boxes must get other user ids."""
    return os.geteuid() == 0
