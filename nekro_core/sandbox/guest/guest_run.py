"""The agent's side of one run: a process, its socket, and the pipe that it prints into."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket

import guest_code
import guest_guard
import guest_wire as wire

_PIECE = 65536


class Run:
    """Forked before it is needed, started by `begin`, and then the only one in its box."""

    def __init__(self) -> None:
        self.output_limit = self.calls_left = self.value_limit = 0
        self.output = bytearray()
        self.truncated = False
        self.received = bytearray()
        self.outgoing = bytearray()
        ours, theirs = socket.socketpair()
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _become_run(theirs, write_end)
            except BaseException as error:
                os.write(1, f"the run's process failed: {error!r}\n".encode("utf-8", "replace"))
            finally:
                os._exit(70)
        theirs.close()
        os.close(write_end)
        ours.setblocking(False)
        os.set_blocking(read_end, False)
        self.sock, self.pipe = ours, read_end
        self.process = os.pidfd_open(self.pid)

    def begin(self, settings: dict[str, int], text: bytes, described: bytes) -> None:
        """Give it its limits and functions; source may follow at once."""
        self.output_limit = settings["output"]
        self.calls_left = settings["calls"]
        self.value_limit = settings["value"]
        self.send(wire.frame(wire.START, 0, text, described))

    def send(self, frame: bytes | bytearray) -> None:
        """Send it a frame, as far as it takes it now; `flush` sends the rest."""
        self.outgoing += frame
        self.flush()

    def flush(self) -> None:
        """Send what the run has not taken yet."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                del self.outgoing[: self.sock.send(self.outgoing)]

    def take_output(self, pieces: int) -> bool:
        """Take what was printed, at most so many pieces: a flood must let the others have a turn.

        Beyond the cap it is dropped, so that whoever prints never waits. False after the last.
        """
        for _ in range(pieces):
            try:
                piece = os.read(self.pipe, _PIECE)
            except BlockingIOError:
                return True
            if not piece:
                return False
            room = self.output_limit - len(self.output)
            self.truncated = self.truncated or len(piece) > room
            self.output += piece[: max(room, 0)]
        return True

    def close(self) -> None:
        """Give back the descriptors."""
        self.sock.close()
        os.close(self.pipe)
        os.close(self.process)


def _become_run(channel: socket.socket, output: int) -> None:
    """In the forked child: let go of all that is the agent's, then be the run."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(output, 1)
    os.dup2(output, 2)
    number = fcntl.fcntl(channel.fileno(), fcntl.F_DUPFD_CLOEXEC, 4)  # it may be 3 itself
    os.dup2(number, 3, inheritable=False)
    os.closerange(4, 1024)
    guest_guard.set_dumpable(True)
    guest_code.become_run(wire.Channel(socket.socket(fileno=3)))


def describe_status(status: int) -> str:
    """How a process ended, in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"the process was ended by {name}"
    return f"the process ended itself with exit code {os.WEXITSTATUS(status)}"
