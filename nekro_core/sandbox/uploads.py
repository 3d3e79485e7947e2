"""What the host puts into a box for reading only: the files below ``/app/uploads``."""

from pathlib import PurePosixPath
from typing import Protocol

from nekro_core.sandbox.box import BoxFileError

UPLOADS = "/app/uploads"


class Uploads(Protocol):
    """How a backend puts files where a guest can read and never write them."""

    async def write(self, path: str, data: bytes) -> None:
        """Replace the file at ``path`` below ``/app/uploads``. Raises `BoxFileError`."""


def upload_parts(path: str) -> tuple[str, ...]:
    """The names on the way from ``/app/uploads`` to ``path``. Raises `BoxFileError`."""
    parts = PurePosixPath(path).relative_to(UPLOADS).parts
    if (
        not parts
        or ".." in parts
        or "\0" in path
        or any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts)
    ):
        raise BoxFileError("invalid_input", f"not a path below {UPLOADS}: {path[:200]!r}")
    return parts
