"""A box whose agent is reached over a channel: the same behind every backend."""

import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import anyio.abc
import msgspec

from nekro_core.sandbox.agent_run import AgentRun
from nekro_core.sandbox.box import (
    BoxFileError,
    BoxLost,
    BoxSpec,
    CallHandler,
    GuestFunction,
    Run,
    RunLimits,
)
from nekro_core.sandbox.channel import Channel
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.uploads import UPLOADS, Uploads
from nekro_core.sandbox.work import (
    CommandResult,
    FilePiece,
    FileStatus,
    FoundPaths,
    Listener,
    Unpacked,
)

_FILE_TIMEOUT_S = 60.0
_PIECE = 256 * 1024


class Processes(Protocol):
    """How a backend ends what runs in a box."""

    def kill(self) -> None:
        """End all of it now, without waiting. May be called twice."""

    async def gone(self) -> None:
        """Wait until nothing of it is left, and free what it used."""


class _FileReply(msgspec.Struct):
    code: str = ""
    message: str = ""


@dataclass(slots=True)
class _FileOperation:
    limit: int
    pieces: list[bytes] = field(default_factory=list)
    received: int = 0
    reply: _FileReply | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


class AgentBox:
    """A `Box` behind an agent's channel, which its backend gives it and whose processes it ends."""

    def __init__(
        self,
        *,
        box_id: str,
        spec: BoxSpec,
        tasks: anyio.abc.TaskGroup,
        uploads: Uploads,
        processes: Processes,
        clock: Callable[[], float] = time.monotonic,
        bounded_by: str = "",
        starved: Callable[[], bool] = lambda: False,
    ) -> None:
        """``starved`` says whether the kernel killed something in the box for memory since it was
        last asked: a run that died then ran out of memory."""
        self.box_id = box_id
        self.spec = spec
        self.bounded_by = bounded_by
        self.ready = anyio.Event()
        self.lost_because = ""
        self.run: AgentRun | None = None
        self._tasks = tasks
        self._uploads = uploads
        self._processes = processes
        self._clock = clock
        self._starved = starved
        self._channel: Channel | None = None
        self._turn = anyio.Semaphore(1)
        self._environment: dict[str, str] = {}
        self._operations: dict[int, _FileOperation] = {}
        self._operation_count = 0
        self._destroyed = False

    def attach(self, channel: Channel) -> None:
        """Give the box its channel, before anything else."""
        self._channel = channel

    @property
    def alive(self) -> bool:
        """Whether it can be used."""
        return self._channel is not None and not self.lost_because

    async def start_run(
        self,
        functions: Sequence[GuestFunction],
        handler: CallHandler,
        limits: RunLimits | None = None,
        *,
        keep_globals: bool = False,
    ) -> Run:
        """Start a run; see `Box.start_run`."""
        if keep_globals:
            raise NotImplementedError("kept globals are being built")
        await self._turn.acquire()
        try:
            channel = self._living()
        except BoxLost:
            self._turn.release()
            raise
        limits = limits or RunLimits()
        run = AgentRun(
            channel=channel,
            names=frozenset(item.names[0] for item in functions),
            handler=handler,
            limits=limits,
            tasks=self._tasks,
            clock=self._clock,
            tear_down=self.lose,
            starved=self._starved,
        )
        bounds = {
            "output": limits.output_bytes,
            "calls": limits.calls,
            "value": limits.value_bytes,
            "environment": self._environment,
        }
        described = [(item.names, item.signature, item.doc) for item in functions]
        channel.send(wire.START, 0, msgspec.json.encode(bounds), msgspec.json.encode(described))
        self.run = run
        return run

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """See `Box.read_file`."""
        return await self._file_operation(
            {"operation": "read", "path": path, "limit": limit}, limit=limit
        )

    async def execute(
        self,
        command: str | Sequence[str],
        *,
        working_dir: str = "/home/user",
        environment: Mapping[str, str] | None = None,
        standard_input: bytes = b"",
        timeout_s: float = 30.0,
        output_bytes: int = 32 * 1024,
        spill_to: str = "",
    ) -> CommandResult:
        """See `Box.execute`."""
        raise NotImplementedError("commands are being built")

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """See `Box.set_environment`."""
        self._environment = dict(variables)

    async def status(self, path: str, *, follow: bool = True) -> FileStatus | None:
        """See `Box.status`."""
        raise NotImplementedError("file pieces are being built")

    async def read_piece(self, path: str, *, offset: int = 0, limit: int) -> FilePiece:
        """See `Box.read_piece`."""
        raise NotImplementedError("file pieces are being built")

    async def write_file(
        self, path: str, data: bytes, *, read_only: bool = False, append: bool = False
    ) -> int:
        """See `Box.write_file`. What goes below ``/app/uploads`` is always read-only inside."""
        if append:
            raise NotImplementedError("file pieces are being built")
        if path == UPLOADS or path.startswith(UPLOADS + "/"):
            self._living()
            await self._uploads.write(path, data)
            return len(data)
        mode = 0o444 if read_only else 0o644
        await self._file_operation({"operation": "write", "path": path, "mode": mode}, data)
        return len(data)

    async def glob(
        self, pattern: str, *, working_dir: str = "/home/user", limit: int = 10_000
    ) -> FoundPaths:
        """See `Box.glob`."""
        raise NotImplementedError("glob is being built")

    def pack(self, path: str, *, recursive: bool = True) -> AsyncGenerator[bytes]:
        """See `Box.pack`."""
        raise NotImplementedError("archives are being built")

    async def unpack(self, path: str, pieces: AsyncIterable[bytes]) -> Unpacked:
        """See `Box.unpack`."""
        raise NotImplementedError("archives are being built")

    async def connect(self, port: int, *, timeout_s: float = 10.0) -> anyio.abc.ByteStream:
        """See `Box.connect`."""
        raise NotImplementedError("connections are being built")

    async def listen(self, port: int) -> Listener:
        """See `Box.listen`."""
        raise NotImplementedError("connections are being built")

    async def export_files(self) -> bytes:
        """See `Box.export_files`."""
        # Headers and padding make an archive larger than what is in it.
        return await self._file_operation(
            {"operation": "export"}, limit=self.spec.disk_bytes * 2 + 64 * 1024 * 1024
        )

    async def import_files(self, archive: bytes) -> None:
        """See `Box.import_files`."""
        await self._file_operation({"operation": "restore"}, archive)

    async def destroy(self) -> None:
        """End every process and free every file."""
        self.lose("it was destroyed")
        if not self._destroyed:
            self._destroyed = True
            with anyio.CancelScope(shield=True):
                await self._processes.gone()

    def lose(self, reason: str) -> None:
        """Mark the box as gone: what waits for it learns that now, its processes end."""
        if self.lost_because:
            return
        self.lost_because = reason
        if self._channel is not None:
            self._channel.close()
        self._processes.kill()
        if self.run is not None:
            self.run.lost(reason)
            self._release_turn()
        for operation in tuple(self._operations.values()):
            operation.done.set()
        self.ready.set()

    def handle(self, frame: wire.Frame) -> None:
        """Take a frame of the agent's."""
        kind, number, text, body = frame
        if kind == wire.READY:
            self.ready.set()
        elif kind in (wire.CHUNK, wire.FILE_DONE):
            self._handle_file(kind, number, text, body)
        elif self.run is not None:
            self.run.handle(kind, number, text, body)
            if kind == wire.RESULT:
                self._release_turn()

    def _release_turn(self) -> None:
        self.run = None
        self._turn.release()

    def _living(self) -> Channel:
        if self._channel is None or self.lost_because:
            raise BoxLost(f"the box is gone: {self.lost_because or 'it never started'}")
        return self._channel

    async def _file_operation(
        self, wanted: dict[str, object], data: bytes | None = None, *, limit: int = 0
    ) -> bytes:
        channel = self._living()
        self._operation_count += 1
        number = self._operation_count
        operation = self._operations[number] = _FileOperation(limit)
        try:
            channel.send(wire.FILE, number, msgspec.json.encode(wanted))
            if data is not None:
                for start in range(0, len(data), _PIECE):
                    channel.send(wire.CHUNK, number, b"", data[start : start + _PIECE])
                channel.send(wire.CHUNK, number)
            with anyio.move_on_after(_FILE_TIMEOUT_S):
                await operation.done.wait()
        finally:
            del self._operations[number]
        if operation.reply is None:
            self.lose(f"a file operation took over {_FILE_TIMEOUT_S:g} s")
            self._living()
        elif operation.reply.code:
            raise BoxFileError(operation.reply.code, operation.reply.message)
        return b"".join(operation.pieces)

    def _handle_file(self, kind: int, number: int, text: bytes, body: bytes) -> None:
        operation = self._operations.get(number)
        if operation is None:
            return
        if kind == wire.FILE_DONE:
            operation.reply = msgspec.json.decode(text, type=_FileReply)
            operation.done.set()
            return
        operation.received += len(body)
        if operation.received > operation.limit:
            self.lose("its agent sent more of a file than was asked for")
        else:
            operation.pieces.append(body)
