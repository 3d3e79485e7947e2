"""Controls the process of one run from the supervisor: the process, its socket, its output pipe."""

from __future__ import annotations

import _signal
import _socket
import fcntl
import os
import time

import guest_code
import guest_confinement
import guest_wire as wire
from guest_minimal_stdlib import suppress

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 65536
_STOP_S = 1.0
"""Longest wait for a run to stop after SIGSTOP. On a busy machine, the run must wait for a
processor before it can stop. With 12 busy processes on 4 processors, 17 ms were too short in 3 of
147 runs, and the globals of these runs were lost."""
_STOP_YIELDS = 40
"""How many times to yield the processor before sleeping. The shortest sleep takes 0.1 ms, and most
runs stop in much less time."""
_STOP_WAIT_S = 0.00005


class RunProcess:
    """The process of a run. It is usually forked in advance; `begin` starts a run in it.

    If the run keeps its globals, the process is frozen after the run, and `begin` starts the next
    run in it. The constructor raises OSError if the box has reached its limit of processes.
    """

    def __init__(
        self, confinement: guest_confinement.Confinement, known: tuple[bytes, Any]
    ) -> None:
        """The process enters ``confinement``. ``known`` describes the functions that the run most
        likely gets. It has the JSON text from the host, and the decoded value."""
        self.output_limit = self.calls_left = self.value_limit = 0
        self.keeps_globals = self.is_its_own_end = False
        self.output = bytearray()
        self.output_told = 0
        self.truncated = False
        self.received = bytearray()
        self.outgoing = bytearray()
        ours, theirs = _socket.socketpair()
        read_end, write_end = os.pipe()
        try:
            self.pid = confinement.fork()
        except OSError:
            for end in (ours, theirs):
                end.close()
            os.close(read_end)
            os.close(write_end)
            raise
        if self.pid == 0:
            try:
                confinement.enter()
                _become_run(theirs, write_end, known)
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

    def begin(self, settings: dict[str, int], start: bytes) -> None:
        """Set the run's limits, and send ``start``: the START frame and frames that follow it."""
        self.output_limit = settings["output"]
        self.calls_left = settings["calls"]
        self.value_limit = settings["value"]
        self.keeps_globals = bool(settings.get("keep"))
        self.output.clear()
        self.output_told = 0
        self.truncated = False
        self.send(start)

    def send(self, frames: bytes | bytearray) -> None:
        """Send frames without waiting. If the socket does not accept all bytes now, `flush` sends
        the rest later."""
        sent = 0
        if not self.outgoing:
            try:
                sent = self.sock.send(frames)
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                return
        if sent < len(frames):
            self.outgoing += frames[sent:]
            self.flush()

    def flush(self) -> None:
        """Send waiting bytes, as many as the socket accepts now."""
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                del self.outgoing[: self.sock.send(self.outgoing)]

    def take_output(self, pieces: int) -> bool:
        """Read at most ``pieces`` pieces of output. With this limit, a run that prints without end
        cannot block the loop.

        Output beyond the run's limit is read and dropped, so that the run never blocks on a full
        pipe. Return False at the end of the output.
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

    def drain(self) -> None:
        """Discard the bytes that are left in the socket. Children of the run may have sent them.
        The children have ended, and the run itself waits for START, so no more bytes come."""
        self.received.clear()
        with suppress(BlockingIOError):
            while self.sock.recv(_PIECE):
                pass

    def freeze(self) -> bool:
        """Stop the process until `thaw`. Return False if the process does not stop, for example
        because code in the box resumes it.

        After a complete stop, none of its threads can fork.
        """
        tries, deadline = 0, time.monotonic() + _STOP_S
        while time.monotonic() < deadline:
            os.kill(self.pid, _signal.SIGSTOP)
            found = os.waitid(
                os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
            )
            if found is not None:
                return found.si_code == os.CLD_STOPPED
            tries += 1
            if tries < _STOP_YIELDS:
                os.sched_yield()
            else:
                time.sleep(_STOP_WAIT_S)
        return False

    def thaw(self) -> None:
        """Resume the process."""
        os.kill(self.pid, _signal.SIGCONT)

    @property
    def lives(self) -> bool:
        """Return True if the process has not ended."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def close(self) -> None:
        """Close the descriptors."""
        self.sock.close()
        os.close(self.pipe)
        os.close(self.process)


def _become_run(channel: _socket.socket, output: int, known: tuple[bytes, Any]) -> None:
    """In the forked child: close the supervisor's descriptors, then execute runs."""
    os.setsid()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # The channel may have number 3 already, which it must get in the end.
    number = fcntl.fcntl(channel.fileno(), fcntl.F_DUPFD_CLOEXEC, 4)
    os.dup2(number, 3, inheritable=False)
    os.closerange(4, 1024)
    # Make this process not dumpable, like the supervisor. This process calls functions of the host
    # with the rights of the person for whom the run was started. A background command that another
    # person started has the same user id. It must not control this process.
    guest_confinement.set_dumpable(False)
    guest_code.become_run(wire.BlockingChannel(3, 3), known)


def describe_status(status: int) -> str:
    """Describe in words how a process ended."""
    if os.WIFSIGNALED(status):
        import signal

        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"the process was ended by {name}"
    return f"the process ended itself with exit code {os.WEXITSTATUS(status)}"
