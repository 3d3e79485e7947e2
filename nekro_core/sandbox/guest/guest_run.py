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
"""For a run to stop. On a busy machine it waits for a processor first: 17 ms were too short in 3 of
147 runs beside 12 busy processes on 4 processors, and the chat lost its globals."""
_STOP_YIELDS = 40
"""How often to let others have the processor before sleeping. The shortest sleep takes 0.1 ms, and
most runs have stopped long before."""
_STOP_WAIT_S = 0.00005


class RunProcess:
    """Forked before it is needed, started by `begin`, and then the only one in its box. Raises
    OSError where the box has no process left.

    One that keeps its globals is frozen when a run is over, and begins again.
    """

    def __init__(
        self, confinement: guest_confinement.Confinement, known: tuple[bytes, Any]
    ) -> None:
        """``confinement`` is what it enters, ``known`` are the
        functions that it is most likely given, as the host writes them and read."""
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
        """Give it its limits, and its START with what follows."""
        self.output_limit = settings["output"]
        self.calls_left = settings["calls"]
        self.value_limit = settings["value"]
        self.keeps_globals = bool(settings.get("keep"))
        self.output.clear()
        self.output_told = 0
        self.truncated = False
        self.send(start)

    def send(self, frames: bytes | bytearray) -> None:
        """Send it frames, as far as it takes them now; `flush` sends the rest."""
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

    def drain(self) -> None:
        """Forget what children of it have sent: nobody else is left, and it waits to be started."""
        self.received.clear()
        with suppress(BlockingIOError):
            while self.sock.recv(_PIECE):
                pass

    def freeze(self) -> bool:
        """Stop it until it is wanted again; False if it does not stop, which a guest could see to.

        Waiting for the stop to be complete is what makes sure that no thread of it forks any more.
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
        """Let it go on."""
        os.kill(self.pid, _signal.SIGCONT)

    @property
    def lives(self) -> bool:
        """Whether its process has not ended."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def close(self) -> None:
        """Give back the descriptors."""
        self.sock.close()
        os.close(self.pipe)
        os.close(self.process)


def _become_run(channel: _socket.socket, output: int, known: tuple[bytes, Any]) -> None:
    """In the forked child: let go of all that is the supervisor's, then be the run."""
    os.setsid()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    os.dup2(output, 1)
    os.dup2(output, 2)
    number = fcntl.fcntl(channel.fileno(), fcntl.F_DUPFD_CLOEXEC, 4)  # it may be 3 itself
    os.dup2(number, 3, inheritable=False)
    os.closerange(4, 1024)
    # Not dumpable, as the supervisor: this process calls functions with the rights of who asked,
    # and a command that another turn left in the background has the same user id.
    guest_confinement.set_dumpable(False)
    guest_code.become_run(wire.BlockingChannel(3, 3), known)


def describe_status(status: int) -> str:
    """How a process ended, in words."""
    if os.WIFSIGNALED(status):
        import signal

        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"the process was ended by {name}"
    return f"the process ended itself with exit code {os.WEXITSTATUS(status)}"
