"""Runs the executor's loop. It executes commands as child processes, and globs and archives in
threads.

The executor is a subreaper: background processes of commands that have ended become its children.
A process of a run cannot become a descendant of the executor. So at the end of a run, all
descendants of the executor are known to belong to commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import threading
import time

import guest_confinement
import guest_files
import guest_glob
import guest_pack
import guest_unpack
import guest_wire as wire
from guest_commands import CapturedOutput, CommandProcess

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from guest_confinement import Confinement

_STACK = 512 * 1024
_REST_S = 0.02
"""Seconds between two reads of a background process's output. This output is discarded."""


class Executor:
    """The state and the loop of the executor's process."""

    def __init__(
        self, supervisor: wire.BlockingChannel, fd_socket: socket.socket, confinement: Confinement
    ) -> None:
        self._supervisor = supervisor
        self._fd_socket = fd_socket
        self._confinement = confinement
        self._sending = threading.Lock()
        self._commands: dict[int, CommandProcess] = {}
        self._printing: dict[int, tuple[CommandProcess, CapturedOutput]] = {}
        self._background: dict[int, CapturedOutput] = {}
        self._resting: list[tuple[float, int]] = []
        self._streams: dict[int, socket.socket | None] = {}
        self._poll = select.poll()

    def serve(self) -> None:
        """Handle events until the supervisor closes the channel."""
        guest_confinement.adopt_orphans()
        threading.stack_size(_STACK)
        woken, waker = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll.register(self._supervisor.incoming, select.POLLIN)
        self._poll.register(woken, select.POLLIN)
        while True:
            for number, _ in self._poll.poll(self._wait_ms()):
                if number == self._supervisor.incoming:
                    if not self._supervisor.read():
                        return
                    self._take_frames()
                elif number == woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 4096)
                    self._reap()
                else:
                    self._printed(number)
            self._check_deadlines()

    def _take_frames(self) -> None:
        while True:
            found = wire.split(self._supervisor.buffer, wire.UNLIMITED, wire.UNLIMITED)
            if found is None:
                return
            kind, number, text, body = found
            if kind == wire.STOP:
                self._stop(number)
                continue
            try:
                self._begin(number, json.loads(text), body)
            except guest_files.FileError as error:
                self._refuse(number, error)

    def _begin(self, number: int, wanted: dict[str, Any], body: bytes) -> None:
        operation = wanted.pop("operation")
        if operation == "execute":
            command = self._commands[number] = CommandProcess(
                number, wanted, body, self._confinement
            )
            for printed in command.printed:
                self._printing[printed.pipe] = (command, printed)
                self._poll.register(printed.pipe, select.POLLIN)
            return
        stream = self._receive_stream() if operation in ("pack", "unpack") else None
        self._streams[number] = stream
        try:
            threading.Thread(
                target=self._work, args=(number, operation, wanted, stream), daemon=True
            ).start()
        # The box has reached its limit of processes, which counts threads too.
        except RuntimeError as error:
            self._close_stream(number)
            raise guest_files.FileError("limit", "the box has no thread left") from error

    def _receive_stream(self) -> socket.socket:
        """Receive the stream of the work that begins. The supervisor sends a stream through the
        descriptor socket before it sends the work."""
        _, numbers, _, _ = socket.recv_fds(self._fd_socket, wire.DESCRIPTOR_HEAD.size, 1)
        return socket.socket(fileno=numbers[0])

    def _work(
        self, number: int, operation: str, wanted: dict[str, Any], stream: socket.socket | None
    ) -> None:
        """Do the work and send the answer. This method runs in a thread."""
        try:
            if stream is None:
                reply, body = guest_glob.find(**wanted)
            elif operation == "pack":
                reply, body = guest_pack.pack(stream, **wanted)
            else:
                reply, body = guest_unpack.unpack(stream, **wanted)
            self._answer(number, reply, body)
        except guest_files.FileError as error:
            self._refuse(number, error)
        except OSError as error:
            self._refuse(number, guest_files.file_error(wanted.get("path", operation), error))
        except MemoryError:
            refused = guest_files.FileError("too_large", "the box has not enough memory for this")
            self._refuse(number, refused)
        finally:
            self._close_stream(number)

    def _close_stream(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.close()

    def _answer(self, number: int, reply: dict[str, Any], body: bytes = b"") -> None:
        text = json.dumps(reply).encode("utf-8", "replace")
        with self._sending:
            self._supervisor.send(wire.WORK_DONE, number, text, body)

    def _refuse(self, number: int, error: guest_files.FileError) -> None:
        self._answer(number, {"code": error.code, "message": str(error)})

    def _stop(self, number: int) -> None:
        command, stream = self._commands.get(number), self._streams.get(number)
        if command is not None:
            command.stop()
        elif stream is not None:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def _reap(self) -> None:
        by_pid = {command.pid: command for command in self._commands.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                command = by_pid[pid]
                command.ended(status)
                for printed in command.printed:
                    if printed.open and not printed.take(16):
                        self._forget(printed.pipe)

    def _printed(self, pipe: int) -> None:
        if pipe in self._printing:
            if not self._printing[pipe][1].take(4):
                self._forget(pipe)
        elif pipe in self._background:
            self._poll.unregister(pipe)
            if self._background[pipe].drop():
                self._resting.append((time.monotonic() + _REST_S, pipe))
            else:
                del self._background[pipe]
                os.close(pipe)

    def _forget(self, pipe: int) -> None:
        del self._printing[pipe]
        self._poll.unregister(pipe)
        os.close(pipe)

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        while self._resting and self._resting[0][0] <= now:
            self._poll.register(self._resting.pop(0)[1], select.POLLIN)
        for command in tuple(self._commands.values()):
            if command.deadline is not None and command.deadline <= now:
                command.look()
            if command.over:
                self._tell(command)

    def _tell(self, command: CommandProcess) -> None:
        del self._commands[command.number]
        try:
            text, body = command.result()
        except guest_files.FileError as error:
            self._refuse(command.number, error)
        else:
            with self._sending:
                self._supervisor.send(wire.WORK_DONE, command.number, text, body)
        for printed in command.printed:
            if printed.pipe in self._printing:  # A background process still has the pipe open.
                del self._printing[printed.pipe]
                self._background[printed.pipe] = printed

    def _wait_ms(self) -> float | None:
        moments = [moment for moment, _ in self._resting[:1]]
        moments += [one.deadline for one in self._commands.values() if one.deadline is not None]
        if not moments:
            return None
        return max(min(moments) - time.monotonic(), 0) * 1000 + 1
