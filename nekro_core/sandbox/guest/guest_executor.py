"""Controls the executor from the supervisor. The executor is a second process for commands, globs
and archives, which may take long or print without end.

The supervisor forks the executor when it is first needed. The executor runs `guest_executor_loop`.
The executor has the guest's user id, so code in the box can stop or kill it. The supervisor sends
SIGCONT with each frame, which resumes a stopped executor. If code in the box kills the executor,
its work is lost, and the supervisor kills its commands.
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

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from guest_confinement import Confinement

_KILLED = "what did this in the box was killed by something in it"


class ExecutorProcess:
    """A running executor, and the numbers of the requests that it has not answered yet."""

    def __init__(self, confinement: Confinement) -> None:
        """Commands of the executor enter ``confinement``."""
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
        """Send work to the executor. If the work has a stream (a socket), the stream is sent first.

        Raises `OSError` if the stream cannot be sent. The work is then not sent.
        """
        if stream is not None:
            head = wire.DESCRIPTOR_HEAD.pack(number)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # The executor was killed. `report_end` will tell the host.
                guest_confinement.send_descriptor(self._fd_socket, head, stream.fileno())
        self.pending.add(number)
        self.send(wire.frame(wire.WORK, number, text, body))

    def send(self, frame: bytes) -> None:
        """Send a frame without waiting. If the socket does not accept all bytes now, `flush` sends
        the rest later."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        self.outgoing += frame
        self.flush()

    def flush(self) -> None:
        """Send waiting bytes, as many as the socket accepts now."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                del self.outgoing[: self.sock.send(self.outgoing)]

    def take(self) -> bytes | None:
        """Receive bytes. Return the answers that are complete now, as frames for the host, or None
        if the executor has ended."""
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
        """Kill the executor and all its descendants."""
        pid = self.pid
        guest_processes.kill(lambda listed: guest_processes.below(listed, pid) | {pid})

    def wait(self) -> None:
        """Kill the executor and wait for its end. Killing is needed, because an executor whose
        socket is closed may still run."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def report_end(self, host: wire.BlockingChannel, because: str) -> None:
        """Forward the last answers to the host, send an error for all work without an answer, and
        close the sockets."""
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
    """In the forked child: close the supervisor's descriptors, then run the executor's loop."""
    import guest_executor_loop  # Only the executor needs this module, so it is imported here.

    os.setsid()
    high = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, 8) for one in (sock, fd_socket)]
    for place, number in enumerate(high, start=3):
        os.dup2(number, place, inheritable=False)
    os.closerange(5, 1024)
    guest_executor_loop.Executor(
        wire.BlockingChannel(3, 3), socket.socket(fileno=4), confinement
    ).serve()
