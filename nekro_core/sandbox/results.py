"""The values that a box returns for commands, files, archives and connections."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import anyio.abc


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """The output of a command on one stream: all of it, or its beginning and its end."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    """How many bytes the command had printed when it ended."""
    path: str = ""
    """The file in the box with the full output, if a part is left out here."""

    @property
    def truncated(self) -> bool:
        """Return True if output is left out between ``head`` and ``tail``."""
        return self.size > len(self.head) + len(self.tail)

    @property
    def text(self) -> str:
        """The output as text. Bytes that are not valid UTF-8 are replaced. If output is left out, a
        line in the middle says how much."""
        if not self.truncated:
            return (self.head + self.tail).decode("utf-8", "replace")
        left_out = self.size - len(self.head) - len(self.tail)
        where = f", all of it is in {self.path}" if self.path else ""
        between = f"\n... {left_out} bytes left out{where} ...\n"
        return f"{_text(self.head)}{between}{_text(self.tail)}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. ``exit_code`` is 128+N if signal N ended the command, and 124 after a
    timeout."""

    exit_code: int
    stdout: CommandOutput = CommandOutput()
    stderr: CommandOutput = CommandOutput()
    timed_out: bool = False
    seconds: float = 0.0


class FileKind(StrEnum):
    """The kind of a file."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"
    """A FIFO, a socket, a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """The metadata of a file. ``modified`` is in seconds since 1970."""

    kind: FileKind
    size: int
    mode: int
    """The file's permission bits."""
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk:
    """Some bytes of a file, and the size of the whole file."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobResult:
    """The paths that match a pattern, sorted. ``truncated`` says that more paths match."""

    paths: tuple[str, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPath:
    """A path that was not copied from one box to another, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackResult:
    """What `Box.unpack` wrote into a box."""

    path: str
    """The absolute path of the unpacked file or folder in the box."""
    bytes: int
    """The size of all regular files together, in bytes."""
    files: int
    """Number of regular files."""
    skipped: tuple[SkippedPath, ...] = ()
    """The paths that were not copied, at most the first thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The difference between a box's home folder and an earlier state. ``archive`` is for
    `Box.import_files`. It has all files if ``whole`` is true, and otherwise the new and changed
    files. It is empty if ``entries`` is 0. ``removed`` has the paths that were deleted. ``state``
    is the name of the folder's present state."""

    state: str
    whole: bool
    removed: tuple[str, ...] = ()
    entries: int = 0
    archive: bytes = b""


class Listener(Protocol):
    """Accepts connections that code in a box opens. The listener ends with the box."""

    async def accept(self) -> anyio.abc.ByteStream:
        """Wait for the next connection. Raises `anyio.ClosedResourceError` after the listener was
        closed or the box ended."""

    async def aclose(self) -> None:
        """Stop listening. Accepted connections stay open. May be called twice."""
