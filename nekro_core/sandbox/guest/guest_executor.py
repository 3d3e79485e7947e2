"""The supervisor's side of the executor, a second process for what takes long or may print without
end.

It is forked off when it is first wanted; what it does is in `guest_executor_loop`. It is of the
guest's user id, so a guest may stop it (the supervisor lets it go on with the next word to it) or
kill it: then its work is lost, and the commands that it had started are ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket

import guest_confinement
import guest_processes
import guest_wire as wire

TYPE_CHECKING = False  # `typing` costs 4 ms of a cold start
if TYPE_CHECKING:
    from guest_confinement import Confinement

_KILLED = "what did this in the box was killed by something in it"


class ExecutorProcess:
    """An executor that lives, and what it was given and has not answered."""

    def __init__(self, confinement: Confinement) -> None:
        """``confinement`` is what its commands enter."""
        ours, theirs = socket.socketpair()
        our_fd_socket, their_fd_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = confinement.fork()
        if self.pid == 0:
            try:
                _become_executor(theirs, their_fd_socket, confinement)
            finally:
                os._exit(70)
        theirs.close()
        their_fd_socket.close()
        ours.setblocking(False)
        self.sock = ours
        self.received = bytearray()
        self.outgoing = bytearray()
        self.pending: set[int] = set()
        self._fd_socket = our_fd_socket

    def give(self, number: int, text: bytes, body: bytes, stream: socket.socket | None) -> None:
        """Hand it some work; its stream goes first, so that it is there when the work is.

        Raises `OSError` where the stream cannot be sent: then the executor has no work either.
        """
        if stream is not None:
            head = wire.DESCRIPTOR_HEAD.pack(number)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # It is being killed, and the host learns that soon.
                guest_confinement.send_descriptor(self._fd_socket, head, stream.fileno())
        self.pending.add(number)
        self.send(wire.frame(wire.WORK, number, text, body))

    def send(self, frame: bytes) -> None:
        """Send it a frame, as far as it takes it now; `flush` sends the rest."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        self.outgoing += frame
        self.flush()

    def flush(self) -> None:
        """Send what it has not taken yet."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                del self.outgoing[: self.sock.send(self.outgoing)]

    def take(self) -> bytes | None:
        """The whole answers that are there, as they go to the host; None once it is gone."""
        try:
            received = self.sock.recv(wire.READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionResetError:
            received = b""
        if not received:
            return None
        self.received += received
        frames = b""
        while True:
            found = wire.measure(self.received, wire.UNLIMITED, wire.UNLIMITED)
            if found is None:
                return frames
            _, number, _, end = found
            self.pending.discard(number)
            frames += self.received[:end]
            del self.received[:end]

    def end_commands(self) -> None:
        """Kill it with all below it."""
        pid = self.pid
        guest_processes.kill(lambda listed: guest_processes.below(listed, pid) | {pid})

    def wait(self) -> None:
        """Until its process is gone, which may have closed its socket and nothing else."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def report_end(self, host: wire.BlockingChannel, because: str) -> None:
        """Pass on the answers that it still gave, say that the others never come, and close."""
        more = True
        while more:
            before = len(self.received)
            answers = self.take() or b""
            host.send_bytes(answers)
            more = bool(answers) or len(self.received) > before
        host.send(wire.EXECUTOR, 0)
        lost = json.dumps({"code": "killed", "message": because or _KILLED}).encode()
        for number in self.pending:
            host.send(wire.WORK_DONE, number, lost)
        self.sock.close()
        self._fd_socket.close()


def _become_executor(
    sock: socket.socket, fd_socket: socket.socket, confinement: Confinement
) -> None:
    """In the forked child: let go of all that is the supervisor's, then serve it."""
    import guest_executor_loop  # what only the executor needs is not imported before

    os.setsid()
    high = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, 8) for one in (sock, fd_socket)]
    for place, number in enumerate(high, start=3):
        os.dup2(number, place, inheritable=False)
    os.closerange(5, 1024)
    guest_executor_loop.Executor(
        wire.BlockingChannel(3, 3), socket.socket(fileno=4), confinement
    ).serve()
