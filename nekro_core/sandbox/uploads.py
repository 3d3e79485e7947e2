"""Files below ``/app/uploads``: the host writes them into a box, and the box's code only reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Protocol

from nekro_core.sandbox.box import BoxFileError

UPLOADS = "/app/uploads"


class Uploads(Protocol):
    """Puts files where a guest can read and never write them."""

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file at ``path`` below ``/app/uploads``. Raises `BoxFileError`."""


def upload_parts(path: str) -> tuple[str, ...]:
    """The names on the path from ``/app/uploads`` to ``path``. Raises `BoxFileError`."""
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
    """The limit in bytes of the uploads of all boxes of a backend. Uploads are copies that live as
    long as their box. They are usually in memory: in ``/run``, or in a container's tmpfs."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class BoxUploads:
    """Counts the uploads of one box, against its own ``limit`` and the shared ``room``."""

    def __init__(self, limit: int, room: UploadQuota) -> None:
        self._limit = limit
        self._room = room
        self._sizes: dict[tuple[str, ...], int] = {}
        self._used = 0
        self._freed = False

    @contextmanager
    def growing(self, parts: tuple[str, ...], size: int) -> Iterator[None]:
        """Reserve room for a file, which may replace one of the same name. The room is released if
        the body fails. Raises `BoxFileError` if there is none."""
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
        """Release all room, after the end of the box. May be called again."""
        self._take(-self._used)
        self._sizes.clear()
        self._freed = True

    def _take(self, size: int) -> None:
        if not self._freed:
            self._used += size
            self._room.used += size
