"""The agent of a box: forks a process for each run, stands between it and the host, and ends it.

Started once per box as ``python3 -I -S <this folder>`` with the box's limits and the number of the
descriptor that is the host's channel as arguments, or ``standard-streams`` where that is its input
and output. It is all that may talk to the host, and nothing
strange ever runs in it: a run is a forked child with a socket pair of its own. The agent checks
sizes, counts calls, collects output up to its cap, and when a run is over kills whatever is left of
it. One run's process is always forked ahead, so that nobody waits for it. As process 1 of its
namespace it inherits the orphans of a run.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time

import guest_files
import guest_guard
import guest_meter
import guest_streams
import guest_wire as wire
from guest_run import Run, describe_status

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    from collections.abc import Iterator

# What code often needs, imported while nobody waits: each run then has it for nothing.
_PRELOAD = (
    "ast collections contextlib traceback linecache inspect typing dataclasses enum datetime "
    "random functools itertools re string textwrap math statistics decimal fractions asyncio "
    "subprocess pathlib tempfile shutil csv copy hashlib base64 urllib.parse uuid html calendar "
    "heapq bisect operator pprint unicodedata zlib zoneinfo tarfile secrets"
)

_TICK_S = 0.2
_FILES = 50_000
"""In a box's folders together. Each costs the kernel 1 KB that counts as nobody's memory."""

_FOR_THE_RUN = (wire.FEED, wire.FINISH, wire.ANSWER)


class Agent:
    """The loop."""

    def __init__(
        self,
        sock: socket.socket | guest_streams.StandardStreams,
        meter: guest_meter.Meter | None = None,
    ) -> None:
        self.host = wire.Channel(sock)
        self.meter = meter
        self.run: Run | None = None
        self.spare: Run | None = None
        self.next_tick = 0.0
        self.file_count = 0
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)
        self.unloaded = _PRELOAD.split()

    def serve(self) -> None:
        """Until the host is gone."""
        number = self.host.sock.fileno()
        while True:
            has_idle_work = not self.run and (self.unloaded or not self.spare)
            wait_ms = 0 if has_idle_work else _TICK_S * 1000 if self.run else None
            events = dict(self.poll.poll(wait_ms))
            if self.run and time.monotonic() > self.next_tick:
                self._tick(self.run)
            elif not self.run and not events:
                self._idle()
            if number in events:
                received = self.host.sock.recv(wire.READ_BYTES)
                if not received:
                    return
                self.host.buffer += received
                self._handle_host()
            if self.run:
                self._handle_run(self.run, events)

    def _idle(self) -> None:
        if self.unloaded:
            with contextlib.suppress(ImportError):
                importlib.import_module(self.unloaded.pop(0))
            if not self.unloaded:
                gc.collect()
                gc.freeze()  # so that no collection in a run writes to what it shares with others
        else:
            self.spare = Run()

    def _handle_host(self) -> None:
        while True:
            head = wire.measure(self.host.buffer, wire.UNLIMITED, wire.UNLIMITED)
            if head is None:
                return
            if head[0] in _FOR_THE_RUN:
                self._pass_on(head[3])
                continue
            kind, number, text, body = wire.take(self.host.buffer, *head)
            if kind == wire.START:
                self._start(text, body)
            elif kind == wire.FILE:
                self._file(number, json.loads(text))
            elif kind == wire.CHUNK:
                raise wire.ProtocolError("a piece of no file")
            elif self.run and kind == wire.CANCEL:
                self._end(self.run, text)

    def _pass_on(self, end: int) -> None:
        if self.run:  # else it was over before this came
            self.run.send(self.host.buffer[:end])
            if self.run.outgoing:
                self.poll.modify(self.run.sock, select.POLLIN | select.POLLOUT)
        del self.host.buffer[:end]

    def _start(self, text: bytes, described: bytes) -> None:
        run, self.spare = self.spare or Run(), None
        run.begin(json.loads(text), text, described)
        self.run = run
        self.poll.register(run.sock, select.POLLIN | (select.POLLOUT if run.outgoing else 0))
        self.poll.register(run.pipe, select.POLLIN)
        self.poll.register(run.process, select.POLLIN)

    def _handle_run(self, run: Run, events: dict[int, int]) -> None:
        if run.sock.fileno() in events:
            self._handle_socket(run, events[run.sock.fileno()])
        if self.run and run.pipe in events and not run.take_output(4):
            self.poll.unregister(run.pipe)
        if self.run and run.process in events:
            self._handle_socket(run, select.POLLIN)  # its last words may still be there
            if self.run:
                self._end(run, None)

    def _handle_socket(self, run: Run, event: int) -> None:
        if event & select.POLLOUT:
            run.flush()
            if not run.outgoing:
                self.poll.modify(run.sock, select.POLLIN)
        try:
            received = run.sock.recv(wire.READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            received = b""
        if not received:
            with contextlib.suppress(KeyError):
                self.poll.unregister(run.sock)
            return
        run.received += received
        try:
            while self.run:
                found = wire.measure(run.received, run.value_limit)
                if found is None:
                    break
                self._forward(run, *found)
        except wire.ProtocolError as error:
            self._end(run, _ended("protocol_error", f"the run sent {error}"))

    def _forward(self, run: Run, kind: int, number: int, text_length: int, end: int) -> None:
        del number
        has_body = wire.HEAD.size + text_length < end
        if kind == wire.CALL and run.calls_left <= 0:
            self._end(run, _ended("too_many_calls", ""))
        elif kind == wire.CALL or (kind == wire.DONE and not has_body and text_length <= 1):
            run.calls_left -= kind == wire.CALL
            self.host.sock.sendall(run.received[:end])
        elif kind == wire.END and not has_body:
            self._end(run, bytes(run.received[wire.HEAD.size : end]), wire.SAID_BY_RUN)
        else:
            raise wire.ProtocolError(f"a frame of kind {kind}")
        del run.received[:end]

    def _end(self, run: Run, text: bytes | None, flags: int = 0) -> None:
        """Kill all but this process and tell the host what became of the run.

        Daemons that it left behind end with it: whatever should outlive a run is a file.
        """
        self.run = None
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        status = self._reap_all(run)
        for number in (run.sock, run.pipe, run.process):
            with contextlib.suppress(KeyError):
                self.poll.unregister(number)
        run.take_output(1024)  # nobody is left who could write: the pipe's own size bounds it
        if text is None:
            starved = self.meter is not None and self.meter.starved()
            text = _STARVED if starved else _ended("died", describe_status(status))
        flags |= wire.TRUNCATED if run.truncated else 0
        self.host.send(wire.RESULT, flags, text, bytes(run.output))
        run.close()

    def _tick(self, run: Run) -> None:
        """Now and then during a run: reap orphans, which count against the box's processes until
        then, and end a run that makes files without end."""
        self.next_tick = time.monotonic() + _TICK_S
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid == run.pid:
                break
            os.waitpid(ended.si_pid, 0)
        before, self.file_count = self.file_count, guest_files.count()
        if self.file_count > _FILES and self.file_count > before:
            self._end(run, _ended("out_of_memory", f"the code made over {_FILES} files"))
        elif self.meter is not None:
            spent, starved = self.meter.look()
            if starved:
                self._end(run, _STARVED)
            elif spent:
                self.host.send(wire.USED, int(min(spent, _TICK_S) * 1e6))

    @staticmethod
    def _reap_all(run: Run) -> int:
        """Wait until nothing else is left in the box; the status of the run's own process."""
        status = 0
        while True:
            try:
                pid, ended = os.waitpid(-1, 0)
            except ChildProcessError:
                return status
            if pid == run.pid:
                status = ended

    def _file(self, number: int, wanted: dict[str, object]) -> None:
        pieces = self._pieces(number) if wanted["operation"] in ("write", "restore") else iter(())
        reply = {}
        try:
            self._file_operation(number, pieces, **wanted)
        except guest_files.FileError as error:
            reply = {"code": error.code, "message": str(error)}
        except MemoryError:
            reply = {"code": "too_large", "message": "the box has not enough memory for this"}
        for _ in pieces:  # an operation that failed has not taken them all
            pass
        self.host.send(wire.FILE_DONE, number, json.dumps(reply).encode("utf-8", "replace"))

    def _file_operation(
        self,
        number: int,
        pieces: Iterator[bytes],
        operation: str,
        path: str = "",
        limit: int = 0,
        mode: int = 0o644,
    ) -> None:
        def send(piece: bytes) -> None:
            self.host.send(wire.CHUNK, number, b"", piece)

        if operation == "read":
            guest_files.read(path, limit, send)
        elif operation == "write":
            guest_files.write(path, pieces, mode)
        elif operation == "export":
            guest_files.export(send)
        else:
            guest_files.restore(pieces)

    def _pieces(self, number: int) -> Iterator[bytes]:
        """The host's pieces up to the empty one. They follow their FILE frame without a gap."""
        while True:
            kind, of, _, body = self.host.receive()
            if kind != wire.CHUNK or of != number:
                raise wire.ProtocolError("a piece of a file was expected")
            if not body:
                return
            yield body


def _ended(stop: str, error: str) -> bytes:
    return json.dumps({"stop": stop, "error": error}).encode("utf-8", "replace")


_STARVED = _ended("out_of_memory", "the code used more memory than its box has")


def _open_host(argument: str) -> socket.socket | guest_streams.StandardStreams:
    if argument == "standard-streams":
        return guest_streams.StandardStreams()
    sock = socket.socket(fileno=int(argument))
    sock.set_inheritable(False)
    return sock


def main() -> None:
    """Serve the host on what the second argument names."""
    limits = json.loads(sys.argv[1])
    guest_guard.give_way(limits.get("nice", 0))  # its file is not ours once we are not dumpable
    guest_guard.set_dumpable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the only signal that Python would act on
    os.umask(0o022)
    guest_guard.set_limits(limits["memory"], limits["processes"])
    if limits.get("packages"):
        sys.path.append(limits["packages"])
    meter = guest_meter.Meter(limits["memory"]) if limits.get("metered") else None
    agent = Agent(_open_host(sys.argv[2]), meter)
    agent.unloaded += limits.get("preload", "").split()
    ready = {"python": ".".join(map(str, sys.version_info[:3]))}
    agent.host.send(wire.READY, 1, json.dumps(ready).encode())
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        agent.serve()


main()
