"""A chat's files on the host, for plugins that work with paths of the host.

The folder ``data/plugin_files/<chat>/shared`` has copies of the box's files that a plugin requested
with `BoxFileSystem.get_file`, and files that a plugin put there for the box. The box never writes
there, so it cannot place a symbolic link that the host would follow. `SharedFolderQuota` limits the
folder's size. The folder ``uploads`` has the files that the chat received.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from stat import S_ISDIR

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.binding import current_owner
from nekro_core.plugins.authoring.call import CallFiles, texts_of
from nekro_core.plugins.authoring.limits import SHARED_BYTES
from nekro_core.plugins.authoring.made_files import is_made_now
from nekro_core.tools.outcome import InvalidValue, ToolFailure

MOST_ENTRIES = 4096
"""Maximum number of files and folders in a shared folder. Listing that many takes about 10 ms."""
IN_USE_S = 600.0
"""A file that is younger than this many seconds is not deleted, because the call that made it may
still need it. With the default settings, no call takes longer."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    size: int
    changed: float
    is_folder: bool


@dataclass(frozen=True, slots=True)
class SharedFolderQuota:
    """The size limit of one chat's shared folder. The folder holds copies of files of the box, so
    the oldest files are deleted to make room. Files younger than `IN_USE_S` are not deleted; if
    only such files remain and a new file does not fit, the new file is refused.

    Plugins write into the folder directly, so during a call the folder may exceed the limit by the
    size of the files that the call writes.
    """

    folder: Path
    most_bytes: int = SHARED_BYTES
    most_entries: int = MOST_ENTRIES

    def make(self, wanted: int = 0) -> None:
        """Make room for a file of ``wanted`` bytes. Blocks. Raises `ToolFailure`."""
        entries = sorted(_entries(self.folder), key=lambda each: each.changed)
        held, number = sum(each.size for each in entries), len(entries)
        for each in entries:
            if self._fits(held + wanted, number + bool(wanted)):
                return
            if each.changed < time.time() - IN_USE_S and _removed(each):
                held, number = held - each.size, number - 1
        if not self._fits(held + wanted, number + bool(wanted)):
            raise ToolFailure(
                f"this chat's shared folder holds {held} bytes in {number} files and folders"
                f"{f', and {wanted} bytes more are wanted' if wanted else ''}: at most "
                f"{self.most_bytes} bytes in {self.most_entries} are kept. Use smaller files, or "
                "wait ten minutes; the operator may raise NEKRO_PLUGIN__SHARED_BYTES"
            )

    def clear(self, made: Iterator[Path]) -> None:
        """Bring the folder back within its limit. If deleting old files is not enough, delete the
        files that the call made. Blocks. Raises `ToolFailure` if those were deleted."""
        try:
            self.make()
        except ToolFailure:
            for path in made:
                with suppress(OSError):
                    path.unlink()
            raise

    def _fits(self, held: int, number: int) -> bool:
        return held <= self.most_bytes and number <= self.most_entries


def _entries(folder: Path) -> Iterator[_Entry]:
    for inner, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(inner, name)
            with suppress(FileNotFoundError):
                facts = path.lstat()
                is_folder = S_ISDIR(facts.st_mode)
                yield _Entry(path, 0 if is_folder else facts.st_size, facts.st_mtime, is_folder)


def _removed(entry: _Entry) -> bool:
    try:
        entry.path.rmdir() if entry.is_folder else entry.path.unlink()
    except OSError:  # the folder is not empty, or another process has deleted the entry
        return not entry.path.exists()
    return True


HOME = "/home/user"
SHARED = "/app/shared"
UPLOADS = "/app/uploads"

_KEPT_BACK = ("config.yaml", "config.json", ".env")
"""Files of a plugin that `HostFiles.own_file` never returns, since they may contain API keys for
other services."""
_KEPT_BACK_ENDINGS = (".db", ".sqlite", ".sqlite3")

_CLOCK_S = 0.01
"""The time of a new file may be too early by this many seconds, because the kernel takes it from
its last timer tick."""


class HostFiles:
    """One chat's folders on the host."""

    def __init__(
        self,
        data_dir: Path,
        chat: ChatKey,
        owner: str,
        call: CallFiles,
        most_bytes: int = SHARED_BYTES,
    ) -> None:
        self.shared = data_dir / "plugin_files" / chat.file_name / "shared"
        self.room = SharedFolderQuota(self.shared, most_bytes)
        self.uploads = data_dir / "uploads" / chat.file_name
        self.call = call
        self._data_dir = data_dir
        self._owner = owner

    def host_path(self, path: str) -> tuple[Path, str]:
        """Map a path of the box to the path of its copy on the host, and to the path in the box
        that the copy is read from. The second path is empty for received files, which are already
        on the host. Raises `ValueError` for a path outside of the box's folders."""
        text = PurePosixPath(path.strip())
        root, parts = HOME, list(text.parts)
        if text.is_absolute():
            root = next((each for each in (HOME, SHARED, UPLOADS) if text.is_relative_to(each)), "")
            if not root:
                raise InvalidValue(
                    f"{path!r}: expected a path below {SHARED}, {HOME} or {UPLOADS}, or a relative "
                    "one"
                )
            parts = list(text.relative_to(root).parts)
        if ".." in parts or any("\0" in part or len(part.encode()) > 255 for part in parts):
            raise InvalidValue(
                f"{path!r}: a path of the box has no '..' and no name over 255 bytes"
            )
        if root == UPLOADS:
            return self.uploads.joinpath(*parts), ""
        return self.shared.joinpath(*parts), "/".join((HOME, *parts))

    def box_path(self, path: Path) -> str:
        """Get the box path of a file in these folders; empty for any other file."""
        real = path.resolve()
        for folder, root in ((self.shared, SHARED), (self.uploads, UPLOADS)):
            if real.is_relative_to(folder.resolve()):
                return "/".join((root, *real.relative_to(folder.resolve()).parts))
        return ""

    def new_shared(self) -> Iterator[Path]:
        """Yield the files that the plugin put into ``shared`` during this call and that are not in
        the box yet."""
        for folder, _, names in os.walk(self.shared):
            for name in names:
                path = Path(folder, name)
                fresh = path.lstat().st_mtime >= self.call.began - _CLOCK_S
                if fresh and path not in self.call.handed_in and not path.is_symlink():
                    yield path

    def own_file(self, text: str) -> Path | None:
        """Get the plugin's own file on the host that a text names; None if the text does not name
        such a file.

        An absolute path into the chat's folders is always allowed. Any other text that is part of
        the call's arguments is refused. The last part of the path may still be a name that the
        model chose and that the plugin has joined with a folder. So only two kinds of files are
        allowed: files of the plugin's data folder and package, except configurations and databases;
        and files that the plugin made during this call (see
        `nekro_core.plugins.authoring.made_files`). A relative path is allowed only for the second
        kind; all other relative paths are paths of the box.
        """
        if not text or "\0" in text or len(text) > 4096:
            return None
        path = Path(text)
        try:
            real = path.resolve(strict=True)
        except OSError:
            return None
        if not real.is_file():
            return None
        if path.is_absolute() and self.box_path(real):
            return real
        if any(text in said for said in texts_of(self.call)):
            return None
        return real if self._is_own(real, text) else None

    def is_given_path(self, path: Path) -> bool:
        """Return True if a path consists only of text of the model or of a person. Such a path
        means a file of the box. For a path in this chat's folders on the host, return False."""
        if self.box_path(path):
            return False
        text = str(path)
        return any(
            text == str(PurePosixPath(said.strip())) or (path.is_absolute() and text in said)
            for said in texts_of(self.call)
        )

    def _is_own(self, real: Path, text: str) -> bool:
        name = real.name.lower()
        if name in _KEPT_BACK or name.endswith(_KEPT_BACK_ENDINGS):
            return False
        owner = current_owner()
        item = owner.item.partition("/")[2] if owner else ""
        folders = [self._data_dir / "plugins" / item] if item else []
        if self._owner:
            folders.append(self._data_dir / "plugin_data" / self._owner)
        if text.startswith("/") and any(
            real.is_relative_to(folder.resolve()) for folder in folders
        ):
            return True
        return is_made_now(real, text, self._data_dir, self.call.began)
