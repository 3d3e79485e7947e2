"""Sends requests for commands, globs and archives. The supervisor passes them to its executor, a
process in the box."""

import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence

import anyio
import anyio.abc
import msgspec

from nekro_core.sandbox.box import BoxFileError
from nekro_core.sandbox.link.archive_stream import ArchiveStream, send
from nekro_core.sandbox.link.requests import BoxRequest, BoxRequests, RequestKilled
from nekro_core.sandbox.link.streams import BoxStreams
from nekro_core.sandbox.results import (
    CommandOutput,
    CommandResult,
    GlobResult,
    SkippedPath,
    UnpackResult,
)

_GRACE_S = 15.0
"""Seconds after a command's timeout in which the executor must kill the command's processes and
answer. They suffice even on a busy machine."""
_GLOB_S = 60.0
_ANSWER_S = 60.0
"""Longest wait, in seconds, for the beginning of an archive, and for the answer at its end. The
wait for its pieces has another limit (see the module `archive_stream`)."""
_KILLED = 137
_PATH_LIMIT = 4096


class _Command(msgspec.Struct):
    exit_code: int
    timed_out: bool
    seconds: float
    printed: tuple[tuple[int, int, int, str], tuple[int, int, int, str]]


class _Found(msgspec.Struct):
    truncated: bool


class _Unpacked(msgspec.Struct):
    path: str
    bytes: int
    files: int


class BoxWork:
    """Makes the requests to one box that may take long. They are for commands, searches for files,
    packing and unpacking."""

    def __init__(self, requests: BoxRequests, streams: BoxStreams) -> None:
        self._requests = requests
        self._streams = streams

    async def execute(
        self,
        command: str | Sequence[str],
        *,
        working_dir: str,
        environment: Mapping[str, str],
        standard_input: bytes,
        timeout_s: float,
        output_bytes: int,
        spill_to: str,
    ) -> CommandResult:
        """See `Box.execute`."""
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        _refuse_strange((*words, working_dir, spill_to, *environment, *environment.values()))
        if not words or not words[0] or any("=" in name or not name for name in environment):
            raise BoxFileError(
                "invalid_input", "a program or a variable's name is empty or has '='"
            )
        if not 0 < timeout_s < math.inf or output_bytes < 0:
            raise BoxFileError("invalid_input", "timeout_s and output_bytes must be valid limits")
        wanted = {
            "operation": "execute",
            "command": words,
            "directory": working_dir,
            "environment": dict(environment),
            "timeout": timeout_s,
            "output": output_bytes,
            "spill": spill_to,
        }
        request = self._requests.begin()
        try:
            self._requests.send_work(request, wanted, standard_input)
            await self._requests.wait(request, timeout_s + _GRACE_S)
            return self._result(request)
        except RequestKilled as error:
            why = f"{error}\n".encode()
            return CommandResult(exit_code=_KILLED, stderr=CommandOutput(head=why, size=len(why)))
        finally:
            self._requests.end(request)

    async def glob(self, pattern: str, *, working_dir: str, limit: int) -> GlobResult:
        """See `Box.glob`."""
        wanted = {
            "operation": "glob",
            "pattern": pattern,
            "directory": working_dir,
            "limit": limit,
        }
        request = self._requests.begin()
        try:
            self._requests.send_work(request, wanted)
            await self._requests.wait(request, _GLOB_S)
            found = self._requests.read(request, _Found)
            paths = self._read_body(request, list[str])
        finally:
            self._requests.end(request)
        return GlobResult(paths=tuple(paths[:limit]), truncated=found.truncated)

    def pack(self, path: str, *, recursive: bool) -> AsyncGenerator[bytes]:
        """See `Box.pack`."""
        return ArchiveStream(lambda: self._packing(path, recursive=recursive))

    async def unpack(self, path: str, pieces: AsyncIterable[bytes]) -> UnpackResult:
        """See `Box.unpack`."""
        async with self._streaming({"operation": "unpack", "path": path}) as (request, stream):
            if isinstance(pieces, ArchiveStream):
                await pieces.send_to(stream)
            else:
                async for piece in pieces:
                    if not await send(stream, piece):
                        break  # The answer says why the box accepts no more.
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.send_eof()
            await self._requests.wait(request, _ANSWER_S)
            done = self._requests.read(request, _Unpacked)
            skipped = self._read_body(request, list[tuple[str, str]])
        return UnpackResult(
            path=done.path,
            bytes=done.bytes,
            files=done.files,
            skipped=tuple(SkippedPath(path=path, reason=reason) for path, reason in skipped),
        )

    @contextlib.asynccontextmanager
    async def _packing(self, path: str, *, recursive: bool) -> AsyncGenerator[anyio.abc.ByteStream]:
        wanted: dict[str, object] = {"operation": "pack", "path": path, "recursive": recursive}
        async with self._streaming(wanted) as (request, stream):
            yield stream
            await self._requests.wait(request, _ANSWER_S)
            self._requests.read(request, _Nothing)

    @contextlib.asynccontextmanager
    async def _streaming(
        self, wanted: dict[str, object]
    ) -> AsyncGenerator[tuple[BoxRequest, anyio.abc.ByteStream]]:
        number = self._requests.next_number()
        with self._streams.expect_stream(number):
            request = self._requests.begin(number=number)
            try:
                self._requests.send_work(request, wanted)
                async with await self._streams.opened(number, "the archive", _ANSWER_S) as stream:
                    yield request, stream
            finally:
                self._requests.end(request)

    def _result(self, request: BoxRequest) -> CommandResult:
        reply = self._requests.read(request, _Command)
        outputs = []
        start = 0
        for head, tail, size, path in reply.printed:
            middle, end = start + head, start + head + tail
            if min(head, tail, size) < 0 or end > len(request.body) or len(path) > _PATH_LIMIT:
                raise self._requests.broken()
            kept = request.body[start:middle], request.body[middle:end]
            outputs.append(CommandOutput(head=kept[0], tail=kept[1], size=size, path=path))
            start = end
        return CommandResult(
            exit_code=reply.exit_code,
            stdout=outputs[0],
            stderr=outputs[1],
            timed_out=reply.timed_out,
            seconds=reply.seconds,
        )

    def _read_body(self, request: BoxRequest, kind: type) -> list:  # type: ignore[type-arg]
        try:
            return msgspec.json.decode(request.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._requests.broken() from error


class _Nothing(msgspec.Struct):
    """An empty answer, which confirms the end of the work."""


def _refuse_strange(texts: Sequence[str]) -> None:
    """Refuse texts with a NUL character, which no system call accepts. The caller thus gets a clear
    message."""
    for text in texts:
        if "\0" in text:
            raise BoxFileError("invalid_input", f"a NUL character in {text[:80]!r}")
