"""Counts and limits the files below ``/app/uploads``. The host writes these files into a box, and
the box's code can only read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Protocol

from nekro_core.sandbox.box import BoxFileError

UPLOADS = "/app/uploads"


class Uploads(Protocol):
    """Writes files to a folder of a box, in which the box's code can read them but not change
    them."""

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file at ``path`` below ``/app/uploads``. Raises `BoxFileError`."""


def upload_parts(path: str) -> tuple[str, ...]:
    """Split ``path`` into its names below ``/app/uploads``. Raises `BoxFileError`."""
    parts = PurePosixPath(path).relative_to(UPLOADS).parts
    if (
        not parts
        or ".." in parts
        or "\0" in path
        or any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts)
    ):
        raise BoxFileError("invalid_input", f"not a path below {UPLOADS}: {path[:200]!r}")
    return parts


class UploadQuota:
    """The limit in bytes of the uploads of all boxes of a backend. An upload is a copy that is
    deleted with its box. Usually it is in memory: in ``/run`` of the host (jail), or in a tmpfs of
    the container (docker)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class BoxUploads:
    """Counts the bytes of one box's uploads. ``limit`` is the maximum for this box in bytes.
    ``room`` counts the uploads of all boxes and has the maximum for all of them together."""

    def __init__(self, limit: int, room: UploadQuota) -> None:
        self._limit = limit
        self._room = room
        self._sizes: dict[tuple[str, ...], int] = {}
        self._used = 0
        self._freed = False

    @contextmanager
    def growing(self, parts: tuple[str, ...], size: int) -> Iterator[None]:
        """Reserve ``size`` bytes for the file with the path ``parts``, which may replace a file. If
        the ``with`` block fails, the bytes are free again. Raises `BoxFileError` if a limit is
        reached."""
        before = self._sizes.get(parts, 0)
        more = size - before
        if self._used + more > self._limit:
            raise BoxFileError("too_large", f"uploads of a box hold {self._limit} bytes at most")
        if self._room.used + max(more, 0) > self._room.limit:
            raise BoxFileError(
                "limit",
                f"{size} bytes: the uploads of all boxes together hold {self._room.limit} bytes at "
                f"most, {self._room.used} are there (NEKRO_SANDBOX__UPLOADS_MB)",
            )
        self._take(more)
        self._sizes[parts] = size
        try:
            yield
        except BaseException:
            self._sizes[parts] = before
            self._take(-more)
            raise

    def free(self) -> None:
        """Release all bytes of this box, after its end. May be called twice."""
        self._take(-self._used)
        self._sizes.clear()
        self._freed = True

    def _take(self, size: int) -> None:
        if not self._freed:
            self._used += size
            self._room.used += size
