"""Stores the uploads of one box in a folder on the host, which the box sees read-only."""

import os
import secrets
import shutil
from pathlib import Path

from nekro_core.sandbox.box import BoxFileError
from nekro_core.sandbox.uploads import BoxUploads, upload_parts


class UploadsFolder:
    """The uploads folder of one box. `upload_parts` checks the names in a path. No other check of a
    path is needed, because code in the box cannot make links in this folder."""

    def __init__(self, path: Path, held: BoxUploads) -> None:
        self._path = path
        self._held = held

    @classmethod
    def make(cls, path: Path, *, group: int | None, held: BoxUploads) -> "UploadsFolder":
        """Make the folder. If ``group`` is set, only this group and the bot may read it. ``held``
        limits its size."""
        path.mkdir(mode=0o750)
        if group is not None:
            os.chown(path, -1, group)
        path.chmod(0o750)
        return cls(path, held)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file; see `Uploads.write`."""
        parts = upload_parts(path)
        target = self._path.joinpath(*parts)
        try:
            with self._held.growing(parts, len(data)):
                if target.is_dir():
                    raise BoxFileError("is_a_directory", f"{path} is a folder")
                self._make_folders(parts[:-1])
                _replace(target, data)
        except (NotADirectoryError, FileExistsError) as error:
            raise BoxFileError("invalid_input", f"a part of {path} is a file") from error
        except OSError as error:
            raise BoxFileError("too_large", f"{path}: {os.strerror(error.errno or 0)}") from error

    def _make_folders(self, parts: tuple[str, ...]) -> None:
        folder = self._path
        for part in parts:
            folder /= part
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # The umask of this process may have removed permissions.

    def remove(self) -> None:
        """Delete the folder with its files."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._held.free()


def _replace(target: Path, data: bytes) -> None:
    """Replace a file in one step. If the write fails, for example because the disk is full, the
    partial file is deleted. Raises `OSError`."""
    temporary = target.with_name(f".{secrets.token_hex(8)}")
    try:
        temporary.write_bytes(data)
        temporary.chmod(0o444)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
