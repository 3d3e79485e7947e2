"""Copies a plugin's files up to a size limit, and finds changed files by their digests."""

import hashlib
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from nekro_core.system.errors import NekroError
from nekro_core.system.thread_cancellation import stop_if_cancelled

MOST_FILES = 5_000
MOST_BYTES = 200_000_000
"""Maximum size of a plugin in bytes. It is enough for pictures and fonts, but not for neural
networks, which a plugin should download."""
NO_PART = frozenset(
    {".git", ".hg", "__pycache__", ".venv", "venv", "node_modules", ".pytest_cache", ".mypy_cache",
     ".ruff_cache", ".hypothesis", ".idea", ".vscode"}
)  # fmt: skip
"""Names of folders that do not belong to a plugin."""


class FilesRefused(NekroError):
    """A file cannot be used. The text names the file and says why."""


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder. Raises `FilesRefused` for links and special files, and if there
    are more files or bytes than allowed."""
    count = size = 0
    for path in walk(source):
        stop_if_cancelled()
        mode = path.lstat()
        count, size = count + 1, size + mode.st_size
        if count > MOST_FILES or size > MOST_BYTES:
            raise FilesRefused(f"{source}: over {MOST_FILES} files or {MOST_BYTES // 10**6} MB")
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place, follow_symlinks=False)


def digests(plugin: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a plugin, by its path in the plugin's folder. A plugin
    that is a single file has one entry."""
    if plugin.is_file():
        return {plugin.name: _digest(plugin)}
    return {path.relative_to(plugin).as_posix(): _digest(path) for path in walk(plugin)}


def changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Compare two results of `digests`. Returns one line for each difference: ``changed x.py``,
    ``new x.py`` or ``gone x.py``."""
    lines = []
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            word = "gone" if name not in now else "changed" if name in then else "new"
            lines.append(f"{word} {name}")
    return lines


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that belong to the plugin, sorted. Folders such as ``.git`` are
    left out. Raises `FilesRefused`."""
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise FilesRefused(f"{path}: a link; a plugin must contain the file itself")
        if path.name in NO_PART:
            continue
        if stat.S_ISDIR(mode):
            yield from walk(path)
        elif not stat.S_ISREG(mode):
            raise FilesRefused(f"{path}: expected a file or a folder, got a special file")
        elif path.suffix != ".pyc":
            yield path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
