"""The supervisor's side of one run: its process, its socket, and its output pipe."""

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

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    from typing import Any

_PIECE = 65536
_STOP_S = 1.0
"""Time for a run to stop. On a busy machine it waits for a processor first: 17 ms were too short in
3 of 147 runs beside 12 busy processes on 4 processors, and the chat lost its globals."""
_STOP_YIELDS = 40
"""How often to yield the processor before sleeping. The shortest sleep takes 0.1 ms, and most runs
stop long before."""
_STOP_WAIT_S = 0.00005


class RunProcess:
    """The process of a run. It is forked before it is needed, and `begin` starts it.

    A process that keeps its globals is frozen after a run, and `begin` starts the next run in it.
    The constructor raises OSError if the box has no process left.
    """

    def __init__(
        self, confinement: guest_confinement.Confinement, known: tuple[bytes, Any]
    ) -> None:
        """``confinement`` is what it enters. ``known`` are the functions that it most likely gets,
        as the host writes them and decoded."""
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
        """Set the run's limits, and send it its START frame and the frames after it."""
        self.output_limit = settings["output"]
        self.calls_left = settings["calls"]
        self.value_limit = settings["value"]
        self.keeps_globals = bool(settings.get("keep"))
        self.output.clear()
        self.output_told = 0
        self.truncated = False
        self.send(start)

    def send(self, frames: bytes | bytearray) -> None:
        """Send frames, as many bytes as the socket takes now; `flush` sends the rest."""
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
        """Send what the run has not taken yet."""
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                del self.outgoing[: self.sock.send(self.outgoing)]

    def take_output(self, pieces: int) -> bool:
        """Read at most ``pieces`` pieces of output, so that a flood does not hold up the loop.

        Output beyond the cap is dropped, so that the run never blocks on a full pipe. Return False
        at the end of the output.
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
        """Discard what is left in the socket. The run's children, which may have sent it, have
        ended, and the run itself waits for START."""
        self.received.clear()
        with suppress(BlockingIOError):
            while self.sock.recv(_PIECE):
                pass

    def freeze(self) -> bool:
        """Stop the process until `thaw`. Return False if it does not stop; a guest can cause that.

        After a complete stop no thread of it can fork.
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
        """Whether its process has not ended."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def close(self) -> None:
        """Close the descriptors."""
        self.sock.close()
        os.close(self.pipe)
        os.close(self.process)


def _become_run(channel: _socket.socket, output: int, known: tuple[bytes, Any]) -> None:
    """In the forked child: close the supervisor's descriptors, then become the run."""
    os.setsid()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    os.dup2(output, 1)
    os.dup2(output, 2)
    number = fcntl.fcntl(channel.fileno(), fcntl.F_DUPFD_CLOEXEC, 4)  # it may be 3 itself
    os.dup2(number, 3, inheritable=False)
    os.closerange(4, 1024)
    # Not dumpable, like the supervisor. This process calls functions with the rights of the person
    # who asked, and a background command of another turn has the same user id.
    guest_confinement.set_dumpable(False)
    guest_code.become_run(wire.BlockingChannel(3, 3), known)


def describe_status(status: int) -> str:
    """Say in words how a process ended."""
    if os.WIFSIGNALED(status):
        import signal

        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"the process was ended by {name}"
    return f"the process ended itself with exit code {os.WEXITSTATUS(status)}"
