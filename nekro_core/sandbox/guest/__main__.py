"""The agent of a box: forks a process for each run, stands between it and the host, and ends it.

Started once per box as ``python3 -I -S <this folder>`` with the box's limits and the number of the
descriptor that is the host's channel as arguments. It is all that may talk to the host, and nothing strange ever runs in
it: a run is a forked child with a socket pair of its own. The agent checks sizes, counts calls,
collects output up to its cap, and when a run is over kills whatever is left of it.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys

sys.dont_write_bytecode = True

import guest_code
import guest_files
import guest_guard
import guest_wire as wire

_PRELOAD = (
    "asyncio collections contextlib copy csv dataclasses datetime decimal enum fractions functools hashlib "
    "itertools math pathlib random re statistics string subprocess tempfile textwrap time typing urllib.parse "
    "uuid zlib base64 html calendar heapq bisect operator pprint shutil unicodedata zoneinfo"
).split()


class Run:
    """The agent's side of one run: a process, its socket, and the pipe that it prints into."""

    def __init__(self, settings, described, guard):
        self.output_limit = settings["output"]
        self.calls_left = settings["calls"]
        self.value_limit = settings["value"]
        self.output = bytearray()
        self.truncated = False
        self.received = bytearray()
        self.outgoing = bytearray()
        self.ended = None
        ours, theirs = socket.socketpair()
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._become_run(theirs, write_end, settings, described, guard)
            finally:
                os._exit(70)
        theirs.close()
        os.close(write_end)
        ours.setblocking(False)
        os.set_blocking(read_end, False)
        self.sock, self.pipe = ours, read_end
        self.process = os.pidfd_open(self.pid)

    @staticmethod
    def _become_run(channel, output, settings, described, guard):
        gc.unfreeze()
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(output, 1)
        os.dup2(output, 2)
        number = fcntl.fcntl(channel.fileno(), fcntl.F_DUPFD_CLOEXEC, 4)  # it may be 3 itself
        os.dup2(number, 3, inheritable=False)
        os.closerange(4, 1024)
        guest_guard.set_dumpable(True)
        guest_guard.install_filter(guard)
        sock = socket.socket(fileno=3)
        guest_code.become_run(wire.Channel(sock), settings, described)

    def take_output(self, pieces):
        """Take what was printed, at most so many pieces: a flood must let the others have a turn.

        Beyond the cap it is dropped, so that whoever prints never waits. False after the last.
        """
        for _ in range(pieces):
            try:
                piece = os.read(self.pipe, 65536)
            except BlockingIOError:
                return True
            if not piece:
                return False
            room = self.output_limit - len(self.output)
            self.truncated = self.truncated or len(piece) > room
            self.output += piece[: max(room, 0)]
        return True

    def flush(self):
        """Send what the run has not taken yet."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                del self.outgoing[: self.sock.send(self.outgoing)]

    def close(self):
        """Give back the descriptors."""
        self.sock.close()
        os.close(self.pipe)
        os.close(self.process)


class Agent:
    """The loop."""

    def __init__(self, sock):
        self.host = wire.Channel(sock)
        self.run = None
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)
        self.unloaded = list(_PRELOAD)
        self.guard = guest_guard.signal_filter(guest_guard.machine(), os.getpid())

    def serve(self):
        """Until the host is gone."""
        number = self.host.sock.fileno()
        while True:
            events = dict(self.poll.poll(0 if self.unloaded and not self.run else None))
            if not events:
                self._load_one()
            if number in events:
                received = self.host.sock.recv(262144)
                if not received:
                    return
                self.host.buffer += received
                self._handle_host()
            if self.run:
                self._handle_run(events)

    def _load_one(self):
        """Import in idle time what code often needs: each run then has it for nothing."""
        name = self.unloaded.pop(0)
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
        if not self.unloaded:
            gc.collect()
            gc.freeze()

    def _handle_host(self):
        while True:
            found = wire.split(self.host.buffer, 0xFFFFFFFF, 0xFFFFFFFF)
            if found is None:
                return
            kind, number, text, body = found
            if kind == wire.START:
                self._start(json.loads(text), body)
            elif kind == wire.FILE:
                self._file(number, json.loads(text))
            elif kind == wire.CANCEL:
                if self.run:
                    self._end(**json.loads(text))
            elif kind == wire.CHUNK:
                continue  # of a file operation that failed before it took them all
            elif self.run:
                self.run.outgoing += wire.frame(kind, number, text, body)
                self.run.flush()
                if self.run.outgoing:
                    self.poll.modify(self.run.sock, select.POLLIN | select.POLLOUT)

    def _start(self, settings, described):
        self.run = Run(settings, described, self.guard)
        for number in (self.run.sock, self.run.pipe, self.run.process):
            self.poll.register(number, select.POLLIN)

    def _handle_run(self, events):
        run = self.run
        if run.sock.fileno() in events:
            self._handle_socket(run, events[run.sock.fileno()])
        if self.run and run.pipe in events and not run.take_output(4):
            self.poll.unregister(run.pipe)
        if self.run and run.process in events:
            self._handle_socket(run, select.POLLIN)  # its last words may still be there
            if self.run:
                self._end("died", "")

    def _handle_socket(self, run, event):
        if event & select.POLLOUT:
            run.flush()
            if not run.outgoing:
                self.poll.modify(run.sock, select.POLLIN)
        try:
            received = run.sock.recv(262144)
        except BlockingIOError:
            return
        except ConnectionResetError:
            received = b""
        if not received:
            self.poll.unregister(run.sock)
            run.sock.setblocking(False)
            return
        run.received += received
        try:
            while self.run:
                found = wire.split(run.received, run.value_limit)
                if found is None:
                    break
                self._forward(run, *found)
        except wire.ProtocolError as error:
            self._end("protocol_error", "the run sent %s" % error)

    def _forward(self, run, kind, number, text, body):
        if kind == wire.CALL:
            run.calls_left -= 1
            if run.calls_left < 0:
                self._end("too_many_calls", "")
            else:
                self.host.send(kind, number, text, body)
        elif kind == wire.DONE and not body and len(text) <= 1:
            self.host.send(kind, number, text)
        elif kind == wire.END and not body:
            self._end(None, "", text)
        else:
            raise wire.ProtocolError("a frame of kind %d" % kind)

    def _end(self, stop, error, text=None):
        """Kill all but this process and tell the host what became of the run."""
        run, self.run = self.run, None
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        status = os.waitpid(run.pid, 0)[1]
        for number in (run.sock, run.pipe, run.process):
            with contextlib.suppress(KeyError, ValueError):
                self.poll.unregister(number)
        run.take_output(1024)  # nobody is left who could write: the pipe's own size bounds it
        if stop == "died":
            error = _described(status)
        if text is None:
            text = json.dumps({"stop": stop, "error": error}).encode()
        flags = int(run.truncated) | wire.SAID_BY_RUN * (stop is None)
        self.host.send(wire.RESULT, flags, text, bytes(run.output))
        run.close()

    def _file(self, number, wanted):
        try:
            self._file_operation(number, **wanted)
        except guest_files.FileError as error:
            reply = {"code": error.code, "message": str(error)}
        except MemoryError:
            reply = {"code": "too_large", "message": "the box has not enough memory for this"}
        else:
            reply = {}
        self.host.send(wire.FILE_DONE, number, json.dumps(reply).encode("utf-8", "replace"))

    def _file_operation(self, number, operation, path="", limit=0, mode=0o644):
        def send(piece):
            self.host.send(wire.CHUNK, number, b"", piece)

        if operation == "read":
            guest_files.read(path, limit, send)
        elif operation == "export":
            guest_files.export(send)
        else:
            pieces = self._pieces(number)
            try:
                if operation == "write":
                    guest_files.write(path, pieces, mode)
                else:
                    guest_files.restore(pieces)
            finally:
                for _ in pieces:  # an operation that failed has not taken them all
                    pass

    def _pieces(self, number):
        """The host's pieces up to the empty one. They follow their FILE frame without a gap."""
        while True:
            kind, of, _, body = self.host.receive()
            if kind != wire.CHUNK or of != number:
                raise wire.ProtocolError("a piece of a file was expected")
            if not body:
                return
            yield body


def _described(status):
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "signal %d" % number
        return "the process was ended by %s" % name
    return "the process ended itself with exit code %d" % os.WEXITSTATUS(status)


def main():
    """Serve the host on the descriptor that is named by the second argument."""
    limits = json.loads(sys.argv[1])
    guest_guard.set_dumpable(False)
    with contextlib.suppress(PermissionError):  # a session's leader leads its group already
        os.setpgid(0, 0)
    os.umask(0o022)
    guest_guard.set_limits(limits["memory"], limits["processes"])
    sock = socket.socket(fileno=int(sys.argv[2]))
    sock.set_inheritable(False)
    agent = Agent(sock)
    agent.host.send(wire.READY, 1, json.dumps({"python": sys.version.split()[0]}).encode())
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        agent.serve()


main()
