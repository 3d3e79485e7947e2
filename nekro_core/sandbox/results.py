"""The values that a box returns for commands, files, archives and connections."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import anyio.abc


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """What a command printed on one stream: all of it, or its beginning and its end."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    """Bytes printed in all, until the command's result."""
    path: str = ""
    """Of the file in the box that has the full text, where something is left out here."""

    @property
    def truncated(self) -> bool:
        """Whether something is left out between ``head`` and ``tail``."""
        return self.size > len(self.head) + len(self.tail)

    @property
    def text(self) -> str:
        """Decoded with replacement; a line of our own stands for what is left out."""
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
    """How a command ended. ``exit_code`` is 128+N where signal N ended it, 124 after a timeout."""

    exit_code: int
    stdout: CommandOutput = CommandOutput()
    stderr: CommandOutput = CommandOutput()
    timed_out: bool = False
    seconds: float = 0.0


class FileKind(StrEnum):
    """What sort of file it is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"
    """A FIFO, a socket, a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What is known of a file without reading it. ``modified`` is in seconds since 1970."""

    kind: FileKind
    size: int
    mode: int
    """Its permission bits."""
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk:
    """Some bytes of a file, and the size of the whole."""

    data: bytes
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobResult:
    """What a pattern matched, sorted; ``truncated`` where there are more."""

    paths: tuple[str, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPath:
    """Something that was not carried from one box to another, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackResult:
    """What was put into a box."""

    path: str
    """Where it is now, from the root of the box."""
    bytes: int
    """Of the regular files together."""
    files: int
    """Regular files."""
    skipped: tuple[SkippedPath, ...] = ()
    """At most the first thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """What differs in a box's home folder from an earlier state. ``archive`` is for
    `Box.import_files`; it holds everything where ``whole``, else what is new or different, and
    nothing where there are no ``entries``. ``removed`` are paths that are gone. ``state`` names
    the state in which the folder is now."""

    state: str
    whole: bool
    removed: tuple[str, ...] = ()
    entries: int = 0
    archive: bytes = b""


class Listener(Protocol):
    """Connections that come out of a box. It ends with the box."""

    async def accept(self) -> anyio.abc.ByteStream:
        """The next one. Raises `anyio.ClosedResourceError` once the listener or box is closed."""

    async def aclose(self) -> None:
        """Listen no more; connections that were accepted stay. May be called twice."""
