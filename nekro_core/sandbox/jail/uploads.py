"""The uploads of one box: a folder of the host's that the box sees read-only."""

import os
import secrets
import shutil
from pathlib import Path

from nekro_core.sandbox.box import BoxFileError
from nekro_core.sandbox.uploads import upload_parts


class UploadsFolder:
    """Nothing inside a box can write here, so plain paths are safe once their names are."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit

    @classmethod
    def make(cls, path: Path, *, group: int | None, limit: int) -> "UploadsFolder":
        """Make the folder; with ``group``, that group and nobody else may read it."""
        path.mkdir(mode=0o750)
        if group is not None:
            os.chown(path, -1, group)
        path.chmod(0o750)
        return cls(path, limit)

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file; see `Uploads.write`."""
        parts = upload_parts(path)
        target = self._path.joinpath(*parts)
        try:
            old = target.stat().st_size if target.is_file() else 0
            if self._used() - old + len(data) > self._limit:
                raise BoxFileError(
                    "too_large", f"uploads of a box hold {self._limit} bytes at most"
                )
            if target.is_dir():
                raise BoxFileError("is_a_directory", f"{path} is a folder")
            self._make_folders(parts[:-1])
            temporary = target.with_name(f".{secrets.token_hex(8)}")
            temporary.write_bytes(data)
            temporary.chmod(0o444)
            temporary.replace(target)
        except (NotADirectoryError, FileExistsError) as error:
            raise BoxFileError("invalid_input", f"a part of {path} is a file") from error
        except OSError as error:
            raise BoxFileError("too_large", f"{path}: {os.strerror(error.errno or 0)}") from error

    def _make_folders(self, parts: tuple[str, ...]) -> None:
        folder = self._path
        for part in parts:
            folder /= part
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)  # the umask of the process is for its own files

    def remove(self) -> None:
        """Delete it with all that is in it."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _used(self) -> int:
        return sum(file.stat().st_size for file in self._path.rglob("*") if file.is_file())
