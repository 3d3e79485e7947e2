"""Runs the supervisor's loop. It handles frames of the host, the run and the executor. While the
box is idle, it frees memory and prepares the next run."""

from __future__ import annotations

import _signal
import _socket
import gc
import select
import time

import guest_confinement
import guest_wire as wire
from guest_minimal_stdlib import dumps, loads, suppress
from guest_runs import TICK_S, RunManager, TooManyFiles
from guest_streams import StreamRelay

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import guest_changes
    import guest_meter
    from guest_executor import ExecutorProcess

# Modules that code often needs. They are imported while the box is idle, so that each run has them.
_PRELOAD = (
    "collections contextlib functools enum re json random math datetime string textwrap itertools "
    "linecache traceback ast guest_files guest_idle_memory"
)
"""These modules need 2.5 MB in each box. The other modules that code may need are not imported in
advance: they would take 8 MB more (`asyncio` with `ssl` alone takes 3 MB), and would save at most
20 ms in runs that use them."""
_LET_GO_MS = 500
"""Milliseconds without an event after which a box frees memory."""
_LOOK_MS = 5000
"""Milliseconds between two measurements of the memory of a box with background commands."""

_FOR_THE_RUN = (wire.FEED, wire.FINISH, wire.ANSWER, wire.UNWIND)
_STREAM_BUFFER = 1024 * 1024
_TAKING = ("write", "append", "restore")
_FOR_A_STREAM = (wire.DATA, wire.CREDIT, wire.CLOSE)


class Supervisor:
    """The supervisor's loop and its state."""

    def __init__(
        self,
        host: wire.BlockingChannel,
        limits: dict[str, Any],
        confinement: guest_confinement.Confinement,
        fd_socket: _socket.socket | None = None,
        meter: guest_meter.ResourceMeter | None = None,
    ) -> None:
        self.host = host
        self.limits = limits
        self.fd_socket = fd_socket
        self.restarted = bool(limits.get("restarted"))
        """Whether this process has replaced an earlier supervisor of the box (to use less memory),
        and no run has started since."""
        self.used = False
        """Whether the host has used the box since this process began."""
        self.slim = self.restarted
        """If true, no process is forked in advance for the next run."""
        self.told = False
        """Whether the host knows how much memory the idle box uses since its last use."""
        self.look_at = 0.0
        """When to measure the memory of a box with background commands again, on the monotonic
        clock."""
        self.changes: guest_changes.FileChangeTracker | None = None
        self.poll = select.poll()
        self.poll.register(host.incoming, select.POLLIN)
        self.confinement = confinement
        self.runs = RunManager(host, self.poll, meter, self.confinement)
        self.streams = StreamRelay(host, self.poll, fd_socket)
        self.unloaded = _PRELOAD.split() + limits.get("preload", "").split()

    def serve(self) -> None:
        """Handle events until the host closes the channel."""
        runs, incoming = self.runs, self.host.incoming
        while True:
            events = dict(self.poll.poll(TICK_S * 1000)) if runs.current else self._wait_idle()
            if incoming in events:
                if not self.host.read():
                    return
                self._handle_host()
            if runs.current:
                runs.handle(runs.current, events)
            if runs.executor and runs.executor.sock.fileno() in events:
                self._handle_executor(runs.executor, events)
            self.streams.handle(events)
            # `tick` is called after the frames are handled, so that it does not delay them.
            if runs.current or runs.executor:
                runs.tick()

    def _wait_idle(self) -> dict[int, int]:
        """Wait for events while no run is active. If there is no event, do one piece of idle
        work."""
        runs = self.runs
        has_spare = self.slim or runs.spare or runs.kept or runs.fork_failed
        has_idle_work = not self.restarted and (self.unloaded or not has_spare)
        patience = self._poll_timeout_ms()
        events = dict(self.poll.poll(0 if has_idle_work else patience))
        if events:
            self.told = False
            self.look_at = time.monotonic() + _LET_GO_MS / 1000
        elif has_idle_work:
            self._idle()
        elif runs.executor and time.monotonic() < self.look_at:
            pass  # It is too early to measure the memory again.
        elif not self.told or runs.executor:
            self._let_go()
        else:
            self._restart()
        return events

    def _idle(self) -> None:
        if self.unloaded:
            with suppress(ImportError):
                __import__(self.unloaded.pop(0))
            if not self.unloaded:
                gc.collect()
                # After this, garbage collections in a run do not write to the pages that the run
                # shares with the supervisor.
                gc.freeze()
        else:
            self.runs.fork_ahead()

    def _poll_timeout_ms(self) -> float | None:
        """Return how long to wait for an event before the next idle work. Idle work is to count the
        box's files while commands may run (`RunManager.tick`), to free memory, or to restart the
        supervisor's process. Return None if no idle work is left."""
        if self.runs.executor:
            return TICK_S * 1000
        if not self.told:
            return _LET_GO_MS
        goes_on = self.runs.kept or self.streams.busy or self.runs.promised
        if self.restarted or not self.used or goes_on or not self.limits.get("restart_after"):
            return None
        return self.limits["restart_after"] * 1000

    def _let_go(self) -> None:
        """Free memory, and report to the host how much is still used. A box that was never used
        keeps its spare process for its first use."""
        import guest_idle_memory

        runs = self.runs
        if self.used:
            self.slim = True
            runs.dismiss_spare()
        runs.stop_idle_executor()
        if not self.told:
            guest_idle_memory.trim()
        self.told = True
        self.look_at = time.monotonic() + _LOOK_MS / 1000
        self.host.send(wire.MEMORY, guest_idle_memory.idle_memory_kb())

    def _restart(self) -> None:
        self.runs.dismiss_spare()
        # If the restart fails, it is tried again only after the next use of the box.
        self.used = False
        if not self.host.buffer:
            import guest_idle_memory

            guest_idle_memory.restart_supervisor(self.limits, self.host, self.fd_socket)

    def _handle_host(self) -> None:
        buffer = self.host.buffer
        while True:
            head = wire.measure(buffer, wire.UNLIMITED, wire.UNLIMITED)
            if head is None:
                return
            if head[0] in _FOR_THE_RUN:
                self.runs.pass_on(self._take_for_the_run())
                continue
            kind, number, text, body = wire.take(buffer, *head)
            self.used = True
            if kind == wire.START:
                self.restarted = self.slim = False
                self.runs.start(number, text, body, self._take_for_the_run())
            elif kind == wire.CANCEL:
                if self.runs.current:
                    self.runs.end(self.runs.current, text)
            elif kind == wire.DROP:
                self.runs.drop_frozen()
                self.slim = True  # The host sends this when it expects no run soon.
            elif kind == wire.FILE:
                self._file(number, loads(text))
            elif kind == wire.WORK:
                self._work(number, text, body)
            elif kind == wire.STOP:
                self._stop(number, text)
            elif kind == wire.OPEN:
                self.streams.open(number, loads(text))
            elif kind in _FOR_A_STREAM:
                self.streams.take(kind, number, text, body)
            else:
                raise wire.ProtocolError(f"a frame of kind {kind} out of place")

    def _take_for_the_run(self) -> bytearray:
        """Remove all frames for the run from the beginning of the buffer, without decoding them.
        They are sent together, so that the run wakes only once."""
        buffer, end = self.host.buffer, 0
        while True:
            head = wire.measure(buffer, wire.UNLIMITED, wire.UNLIMITED, end)
            if head is None or head[0] not in _FOR_THE_RUN:
                break
            end = head[3]
        taken = buffer[:end]
        del buffer[:end]
        return taken

    def _work(self, number: int, text: bytes, body: bytes) -> None:
        """Send work to the executor. If the work has a stream, give the stream's other end to the
        host."""
        try:
            executor = self.runs.executor or self._start_executor()
        except OSError:
            self._refuse(number, "limit", "the box has no process left for this")
            return
        stream = None
        if loads(text)["operation"] in ("pack", "unpack"):
            import socket

            stream, ours = socket.socketpair()
            for end in (stream, ours):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _STREAM_BUFFER)
            self.streams.give(number, ours)
        try:
            executor.give(number, text, body, stream)
        except OSError as error:
            self._refuse(number, "limit", f"the box could not pass a stream on: {error.strerror}")
        finally:
            if stream is not None:
                stream.close()
        self._watch_executor(executor)

    def _start_executor(self) -> ExecutorProcess:
        # It is imported here, because the import takes 3 ms and many boxes run no command.
        from guest_executor import ExecutorProcess

        executor = self.runs.executor = ExecutorProcess(self.confinement)
        self.host.send(wire.EXECUTOR, executor.pid)
        return executor

    def _stop(self, number: int, text: bytes) -> None:
        """Stop one piece of work. With ``number`` 0, kill the executor, all commands and their
        background processes."""
        executor = self.runs.executor
        if executor is None:
            return
        if number:
            executor.send(wire.frame(wire.STOP, number))
            self._watch_executor(executor)
        elif int(text) == executor.pid:  # If the ids differ, the host meant an earlier executor.
            self.runs.end_commands()

    def _watch_executor(self, executor: ExecutorProcess) -> None:
        waits = select.POLLOUT if executor.outgoing else 0
        self.poll.register(executor.sock, select.POLLIN | waits)

    def _handle_executor(self, executor: ExecutorProcess, events: dict[int, int]) -> None:
        if events[executor.sock.fileno()] & select.POLLOUT:
            executor.flush()
        answers = executor.take()
        if answers is None:
            self.runs.reap_executor()
            return
        if answers:
            self.host.send_bytes(answers)
        self._watch_executor(executor)

    def _refuse(self, number: int, code: str, message: str) -> None:
        text = dumps({"code": code, "message": message})
        self.host.send(wire.WORK_DONE, number, text.encode())

    def _file(self, number: int, wanted: dict[str, Any]) -> None:
        import guest_files

        operation = wanted.pop("operation")
        pieces = self._pieces(number) if operation in _TAKING else iter(())
        reply: dict[str, Any] = {}
        try:
            reply["value"] = self._file_operation(number, pieces, operation, **wanted)
        except guest_files.FileError as error:
            reply = {"code": error.code, "message": str(error)}
        except MemoryError:
            reply = {"code": "too_large", "message": "the box has not enough memory for this"}
        for _ in pieces:  # This reads the pieces that a failed operation has not read.
            pass
        self.host.send(wire.FILE_DONE, number, dumps(reply).encode("utf-8", "replace"))

    def _file_operation(
        self, number: int, pieces: Iterator[bytes], operation: str, **wanted: Any
    ) -> Any:
        def send(piece: bytes) -> None:
            self.host.send(wire.CHUNK, number, b"", piece)

        if operation in ("export", "restore"):
            import guest_tar

            if operation == "export":
                return guest_tar.export(send, **wanted)
            return guest_tar.restore(pieces)
        if operation in ("changes", "note"):
            if self.changes is None:
                import guest_changes

                self.changes = guest_changes.FileChangeTracker()
            if operation == "note":
                return self.changes.note()
            return self.changes.send(send=send, **wanted)
        import guest_files

        if operation == "read":
            return guest_files.read(send=send, **wanted)
        if operation == "piece":
            return guest_files.read_piece(send=send, **wanted)
        if operation == "status":
            return guest_files.status(**wanted)
        if operation == "append":
            return guest_files.append(pieces=pieces, **wanted)
        return guest_files.write(pieces=pieces, **wanted)

    def _pieces(self, number: int) -> Iterator[bytes]:
        """Yield the pieces of a file from the host, until an empty piece. The host sends no other
        frames between them."""
        while True:
            kind, of, _, body = self.host.receive()
            if kind != wire.CHUNK or of != number:
                raise wire.ProtocolError("a piece of a file was expected")
            if not body:
                return
            yield body


def serve(
    limits: dict[str, Any], host: wire.BlockingChannel, fd_socket: int | None, score: int
) -> None:
    """Run the supervisor until the host closes the channel."""
    # The kernel delivers a signal from inside the box to process 1 only if process 1 has a handler
    # for it. Python itself installs a handler for SIGINT.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    meter = None
    if limits.get("metered"):
        import guest_meter

        meter = guest_meter.ResourceMeter(limits["memory"])
    opened = None if fd_socket is None else _socket.socket(fileno=fd_socket)
    confinement = guest_confinement.Confinement(limits, score)
    supervisor = Supervisor(host, limits, confinement, opened, meter)
    try:
        supervisor.serve()
    except TooManyFiles:
        host.send(wire.ENDING, 0, b"it had too many files")
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # The host has closed the channel.
