"""Controls a box through the channel to its supervisor."""

import socket
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import anyio
import anyio.abc
import msgspec

from nekro_core.sandbox.box import (
    BoxConnectionError,
    BoxFileError,
    BoxLost,
    BoxSpec,
    CallHandler,
    GuestFunction,
    GuestValue,
    Run,
    RunLimits,
    StopReason,
)
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.box_run import BoxRun
from nekro_core.sandbox.link.channel import Channel
from nekro_core.sandbox.link.fd_passing import DescriptorReceiver
from nekro_core.sandbox.link.requests import BoxRequests
from nekro_core.sandbox.link.streams import BoxStreams
from nekro_core.sandbox.link.work import BoxWork
from nekro_core.sandbox.link.worker_pool import WorkerPool
from nekro_core.sandbox.memory_limit import MemoryLimit
from nekro_core.sandbox.results import (
    CommandResult,
    FileChanges,
    FileChunk,
    FileStatus,
    GlobResult,
    Listener,
    UnpackResult,
)
from nekro_core.sandbox.uploads import UPLOADS, Uploads

_FILE_TIMEOUT_S = 60.0
_OPEN_TIMEOUT_S = 10.0
_UNTOLD_BYTES = 8 * 1024 * 1024
"""The assumed memory of a box, in bytes, until its supervisor reports the real number."""
_FAR = 2**62
"""An offset beyond the end of any file."""

_OF_A_RUN = frozenset((wire.CALL, wire.DONE, wire.RESULT, wire.USED, wire.PRINTED))
_OF_A_REQUEST = frozenset((wire.CHUNK, wire.FILE_DONE, wire.WORK_DONE))
_OF_A_STREAM = frozenset((wire.OPENED, wire.ACCEPTED, wire.DATA, wire.CREDIT, wire.CLOSE))

_Kind = TypeVar("_Kind")


class BoxProcesses(Protocol):
    """The processes of a box. Each backend has a class that can end them."""

    def kill(self) -> None:
        """Kill all processes, without waiting for their end. May be called twice."""

    async def gone(self) -> None:
        """Kill all processes, wait until they have ended, and free what the box used."""


class _Ready(msgspec.Struct):
    fd_socket: bool = False
    packages: bool = False


class _Changes(msgspec.Struct):
    state: str
    whole: bool
    removed: tuple[str, ...]
    entries: int


def _described(item: GuestFunction | GuestValue) -> tuple[Sequence[str], str | None, str]:
    """Return names, signature and doc of a function. For a value, the signature is None, and the
    value is in place of the doc."""
    if isinstance(item, GuestValue):
        return (item.name,), None, item.value
    return item.names, item.signature, item.doc


class BoxConnection:
    """A `Box` that sends requests to its supervisor over a channel. All backends use this class.

    The backend makes the channel, and passes the `BoxProcesses` with which this class ends the box.
    """

    def __init__(
        self,
        *,
        box_id: str,
        spec: BoxSpec,
        workers: WorkerPool,
        uploads: Uploads,
        processes: BoxProcesses,
        clock: Callable[[], float] = time.monotonic,
        bounded_by: str = "",
        starved: Callable[[], bool] = lambda: False,
        total: MemoryLimit | None = None,
        outside_bytes: int = 0,
    ) -> None:
        """``starved`` returns whether the kernel killed a process of the box for lack of memory
        since the last call of ``starved``. If a run dies and ``starved`` returns true, the run ran
        out of memory. New work waits until ``total``, the limit of all boxes together, admits it.
        ``outside_bytes`` is the memory of processes that run outside the box but only for it. The
        supervisor cannot measure them."""
        self.used_bytes = 0
        """How many bytes the processes and files used together at the last measurement."""
        self.box_id = box_id
        self.spec = spec
        self.bounded_by = bounded_by
        self.idle_bytes = _UNTOLD_BYTES + outside_bytes
        self.ready = anyio.Event()
        self.has_packages = False
        """Whether the shared packages (`SharedPackages`) were there when the box was ready."""
        self.lost_reason = ""
        self.run: BoxRun | None = None
        self.executor_pid = 0
        """The id, inside the box, of the process that runs commands; 0 if there is none. Commands
        and their background processes are its descendants."""
        self._workers = workers
        self._uploads = uploads
        self._processes = processes
        self._clock = clock
        self._starved = starved
        self._total = total
        self._outside_bytes = outside_bytes
        self._channel: Channel | None = None
        self._fd_socket: DescriptorReceiver | None = None
        self._requests = BoxRequests(self, self.lose)
        self._streams = BoxStreams(self, self.lose)
        self._work = BoxWork(self._requests, self._streams)
        # With `fast_acquire`, `start_run` does not yield to the event loop if no run is active.
        self._turn = anyio.Semaphore(1, fast_acquire=True)
        self._environment: dict[str, str] = {}
        self._functions: tuple[GuestFunction | GuestValue, ...] = ()
        self._names: frozenset[str] = frozenset()
        self._kept = False
        """Whether the interpreter of the last run is kept for the next run. It still has the
        functions of the last run."""
        self._destroyed = False

    def receive_descriptors(self, fd_socket: socket.socket) -> None:
        """Receive connections as descriptors from ``fd_socket``. The supervisor has the other end
        of this socket, and knows it as FD_SOCKET (`guest.guest_main`). Without this call, the data
        of connections are relayed over the channel.

        Call this before `attach`. When the supervisor is ready, it reports whether it has such a
        socket. If the report contradicts this call, the box is lost.
        """
        self._fd_socket = DescriptorReceiver(fd_socket, self._streams.take, self.lose)

    def attach(self, channel: Channel) -> None:
        """Set the channel of the box. Call this before the box is used."""
        self._channel = channel

    def send(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send a frame to the supervisor. Does nothing before `attach`."""
        if self._channel is not None:
            self._channel.send(kind, number, text, body)

    @property
    def alive(self) -> bool:
        """Return True if the box can be used."""
        return self._channel is not None and not self.lost_reason

    @property
    def busy(self) -> bool:
        """Return True if code may run in the box: a run, a command, or a background process of a
        command."""
        return self.run is not None or self.executor_pid != 0

    def stop_commands(self) -> None:
        """Kill all commands, and the background processes of earlier commands.

        This may be called several times. Each STOP frame contains the id of the executor that is
        known now, so the frame does not kill the commands of a later executor.
        """
        self.send(wire.STOP, 0, str(self.executor_pid).encode())

    def end_work(self, because: str) -> None:
        """See `MeasuredBox.end_work`."""
        if self.run is not None:
            self.run.stop(StopReason.OUT_OF_MEMORY, because)
        self.stop_commands()

    async def start_run(
        self,
        functions: Sequence[GuestFunction | GuestValue],
        handler: CallHandler,
        limits: RunLimits | None = None,
        *,
        keep_globals: bool = False,
    ) -> Run:
        """Start a run; see `Box.start_run`."""
        if self._total is not None:
            await self._total.admit(self)
        await self._turn.acquire()
        try:
            channel = self._living()
        except BoxLost:
            self._turn.release()
            raise
        limits = limits or RunLimits()
        bounds = {
            "output": limits.output_bytes,
            "calls": limits.calls,
            "value": limits.value_bytes,
            "environment": self._environment,
            "keep": keep_globals,
        }
        told = self._encode_functions(tuple(functions))
        # `send_soon` sends all frames of one cycle of the event loop in one write. If the caller
        # calls `Run.feed` in this cycle, the START frame and the source are sent together.
        same = 0 if told else wire.SAME_FUNCTIONS
        channel.send_soon(wire.START, same, msgspec.json.encode(bounds), told)
        run = BoxRun(
            channel=channel,
            names=self._names,
            handler=handler,
            limits=limits,
            keeps_globals=keep_globals,
            workers=self._workers,
            clock=self._clock,
            tear_down=self.lose,
            starved=self._starved,
        )
        self.run = run
        self._workers.ready()
        return run

    def _encode_functions(self, functions: tuple[GuestFunction | GuestValue, ...]) -> bytes:
        """Encode the functions and values for the supervisor. The result is empty if the kept
        interpreter has the same functions and values already."""
        known, self._kept = self._kept, False
        if known and functions == self._functions:
            return b""
        self._functions = functions
        self._names = frozenset(
            item.names[0] for item in functions if isinstance(item, GuestFunction)
        )
        return msgspec.json.encode([*map(_described, functions)])

    def drop_globals(self) -> None:
        """See `Box.drop_globals`."""
        self._kept = False
        if self.alive:
            self.send(wire.DROP)

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
        if self._total is not None:
            await self._total.admit(self)
        return await self._work.execute(
            command,
            working_dir=working_dir,
            environment=self._environment | dict(environment or {}),
            standard_input=standard_input,
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            spill_to=spill_to,
        )

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """See `Box.set_environment`."""
        self._environment = dict(variables)

    async def status(self, path: str, *, follow: bool = True) -> FileStatus | None:
        """See `Box.status`."""
        found, _ = await self._file({"operation": "status", "path": path, "follow": follow})
        return self._convert(found, FileStatus | None)  # type: ignore[arg-type]

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """See `Box.read_file`."""
        wanted: dict[str, object] = {"operation": "read", "path": path, "limit": limit}
        return (await self._file(wanted, limit=limit))[1]

    async def read_piece(self, path: str, *, offset: int = 0, limit: int) -> FileChunk:
        """See `Box.read_piece`."""
        if offset < 0 or limit < 0:
            raise BoxFileError("invalid_input", "offset and limit must not be negative")
        wanted: dict[str, object] = {
            "operation": "piece",
            "path": path,
            "offset": min(offset, _FAR),
            "limit": limit,
        }
        size, data = await self._file(wanted, limit=limit)
        return FileChunk(data=data, size=self._convert(size, int))

    async def write_file(
        self, path: str, data: bytes, *, read_only: bool = False, append: bool = False
    ) -> int:
        """See `Box.write_file`. Files below ``/app/uploads`` are read-only for code in the box."""
        if path == UPLOADS or path.startswith(UPLOADS + "/"):
            self._living()
            if append:
                raise BoxFileError("permission_denied", f"data cannot be appended to {path}")
            await self._uploads.write(path, data)
            return len(data)
        operation = "append" if append else "write"
        mode = 0o444 if read_only else 0o644
        size, _ = await self._file({"operation": operation, "path": path, "mode": mode}, data)
        return self._convert(size, int)

    async def glob(
        self, pattern: str, *, working_dir: str = "/home/user", limit: int = 10_000
    ) -> GlobResult:
        """See `Box.glob`."""
        return await self._work.glob(pattern, working_dir=working_dir, limit=limit)

    def pack(self, path: str, *, recursive: bool = True) -> AsyncGenerator[bytes]:
        """See `Box.pack`."""
        return self._work.pack(path, recursive=recursive)

    async def unpack(self, path: str, pieces: AsyncIterable[bytes]) -> UnpackResult:
        """See `Box.unpack`."""
        return await self._work.unpack(path, pieces)

    async def connect(self, port: int, *, timeout_s: float = 10.0) -> anyio.abc.ByteStream:
        """See `Box.connect`."""
        self._living()
        _check_port(port)
        return await self._streams.connect(self._requests.next_number(), port, timeout_s)

    async def listen(self, port: int) -> Listener:
        """See `Box.listen`."""
        self._living()
        _check_port(port)
        return await self._streams.listen(self._requests.next_number(), port, _OPEN_TIMEOUT_S)

    async def export_files(self) -> bytes:
        """See `Box.export_files`."""
        limit = self._archive_limit
        return (await self._file({"operation": "export", "limit": limit}, limit=limit))[1]

    async def export_changes(self, since: str = "") -> FileChanges:
        """See `Box.export_changes`."""
        limit = self._archive_limit
        wanted: dict[str, object] = {"operation": "changes", "since": since, "limit": limit}
        told, archive = await self._file(wanted, limit=limit)
        answer = self._convert(told, _Changes)
        return FileChanges(
            state=answer.state,
            whole=answer.whole,
            removed=answer.removed,
            entries=answer.entries,
            archive=archive,
        )

    async def note_files(self) -> str:
        """See `Box.note_files`."""
        told, _ = await self._file({"operation": "note"})
        return self._convert(told, _Changes).state

    @property
    def _archive_limit(self) -> int:
        """Return the largest size of an archive in bytes. An archive is larger than its files,
        because it also has headers and padding."""
        return self.spec.disk_bytes * 2 + 64 * 1024 * 1024

    async def import_files(self, archive: bytes) -> None:
        """See `Box.import_files`."""
        await self._file({"operation": "restore"}, archive)

    async def destroy(self) -> None:
        """See `Box.destroy`."""
        self.lose("it was destroyed")
        if not self._destroyed:
            self._destroyed = True
            with anyio.CancelScope(shield=True):
                await self._processes.gone()

    def lose(self, reason: str) -> None:
        """Mark the box as lost, kill its processes, and end all runs, requests and streams."""
        if self.lost_reason:
            return
        self.lost_reason = reason
        if self._channel is not None:
            self._channel.close()
        self._processes.kill()
        if self.run is not None:
            self.run.lost(reason)
            self._release_turn()
        if self._fd_socket is not None:
            self._fd_socket.close()
        self._requests.close(reason)
        self._streams.close()
        self.ready.set()

    def handle(self, frame: wire.Frame) -> None:
        """Handle a frame from the supervisor. If the frame is invalid, the box is lost."""
        kind, number, text, body = frame
        try:
            if kind == wire.USED and text:
                self.used_bytes = max(int(text), 0)
            if kind in _OF_A_RUN:
                if self.run is not None:
                    self.run.handle(kind, number, text, body)
                    if kind == wire.RESULT:
                        self._kept = bool(number & wire.KEPT)
                        self._release_turn()
            elif kind in _OF_A_REQUEST:
                self._requests.handle(kind, number, text, body)
            elif kind in _OF_A_STREAM:
                self._streams.handle(kind, number, text, body)
            elif kind == wire.MEMORY:
                self.idle_bytes = number * 1024 + self._outside_bytes
            elif kind == wire.READY:
                self._handle_ready(text)
            elif kind == wire.EXECUTOR:
                self.executor_pid = number
                # This call only resets what `_starved` returns. Otherwise earlier kills would count
                # as kills in later runs.
                self._starved()
            elif kind == wire.ENDING:
                self.lose(text.decode("utf-8", "replace") or "its supervisor ended")
            else:
                raise ValueError(f"a frame of kind {kind}")  # noqa: TRY301 - handled below
        except ValueError as error:
            self.lose(f"its supervisor broke the protocol: {error}")

    def _handle_ready(self, text: bytes) -> None:
        told = msgspec.json.decode(text, type=_Ready)
        self.has_packages = told.packages
        if told.fd_socket != (self._fd_socket is not None):
            self.lose("its supervisor and its backend do not agree on the descriptor socket")
        self.ready.set()

    def _release_turn(self) -> None:
        self.run = None
        self._turn.release()

    def _living(self) -> Channel:
        if self._channel is None or self.lost_reason:
            raise BoxLost(f"the box is gone: {self.lost_reason or 'it never started'}")
        return self._channel

    async def _file(
        self, wanted: dict[str, object], data: bytes | None = None, *, limit: int = 0
    ) -> tuple[Any, bytes]:
        return await self._requests.file(wanted, data, limit=limit, timeout_s=_FILE_TIMEOUT_S)

    def _convert(self, value: Any, kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._requests.broken() from error


def _check_port(port: int) -> None:
    if not 1 <= port <= 65535:
        raise BoxConnectionError(f"{port} is not a port: expected a number from 1 to 65535")
