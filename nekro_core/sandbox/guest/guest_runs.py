"""Starts runs, one after another, forwards their calls, enforces their limits and ends them."""

from __future__ import annotations

import os
import select
import time
from _signal import SIGKILL

import guest_processes
import guest_wire as wire
from guest_minimal_stdlib import dumps, loads, suppress
from guest_run import RunProcess, describe_status

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import guest_confinement
    import guest_meter
    from guest_executor import ExecutorProcess

TICK_S = 0.2
_SOON_S = 0.02
_FILES = 50_000
"""Maximum number of files in all folders of a box together. If there are more, the run and all
commands are ended. For each file the kernel needs 1 KB, which it does not count as memory of any
process."""
_MOST_FILES = 100_000
"""If a box still has more files than this after the run and the commands were ended, the box
ends."""
_DEATH_S = 0.0002
_KEEP_TRIES = 5
_FORK_TRIES = 50


class TooManyFiles(Exception):
    """The box has so many files that the box must end to free their memory."""


class RunManager:
    """Manages the processes of runs: at most one that executes a run (`current`), one that was
    forked in advance (`spare`), and one that is frozen with its globals (`kept`)."""

    def __init__(
        self,
        host: wire.BlockingChannel,
        poll: Any,
        meter: guest_meter.ResourceMeter | None,
        confinement: guest_confinement.Confinement,
    ) -> None:
        self.current: RunProcess | None = None
        self.spare: RunProcess | None = None
        self.kept: RunProcess | None = None
        self.executor: ExecutorProcess | None = None
        self.fork_failed = False
        self.promised = False
        """Whether the host may start the next run without sending its functions."""
        self._known: tuple[bytes, Any] = (b"", None)
        """The functions of the last run: the JSON text from the host, and the decoded value. The
        next run most likely gets the same functions, so its process is forked with them."""
        self._host = host
        self._poll = poll
        self._meter = meter
        self._confinement = confinement
        self._next_tick = 0.0
        self._file_count: int | None = None
        """The number of files at the last count. None from the start of a run until the first
        count."""

    def start(self, number: int, text: bytes, described: bytes, then: bytearray) -> None:
        """Start the next run. ``number`` is 0 or `SAME_FUNCTIONS`, ``text`` has the run's settings
        as JSON, ``described`` its functions as JSON. ``then`` has the frames for this run that
        arrived together with its START."""
        settings = loads(text)
        self._file_count = None  # Files that exist already do not count for this run.
        same = number & wire.SAME_FUNCTIONS
        self.promised = False
        run = self._take_frozen() if settings.get("keep") else None
        frozen = run is not None
        if run is None:
            run = self._take_spare() or self._fork_or_end_commands()
        if run is None:
            self._host.send(wire.RESULT, 0, _ended("died", "the box has no process for a run"))
            return
        if self._meter is not None and self.executor:
            # This call only resets the meter. Otherwise processes of commands that were killed
            # before this run began would count as killed in this run.
            self._meter.starved()
        self.fork_failed = False
        if same and not frozen:  # The frozen process, which has the functions, was killed.
            same, described = 0, self._known[0]
        elif not same and described != self._known[0]:
            self._known = (described, None)
        run.begin(settings, wire.frame(wire.START, same, text, described) + then)
        if frozen:
            # The process finds the START in its socket when it runs again.
            run.thaw()
        self.current = run
        self._poll.register(run.sock, select.POLLIN | (select.POLLOUT if run.outgoing else 0))
        self._poll.register(run.pipe, select.POLLIN)
        self._poll.register(run.process, select.POLLIN)

    def fork_ahead(self) -> None:
        """Fork a process for the next run. If that fails because the box has reached its limit of
        processes, `start` tries again."""
        self.reap_orphans()
        described, functions = self._known
        if described and functions is None:
            self._known = (described, loads(described))
        try:
            self.spare = RunProcess(self._confinement, self._known)
        except OSError:
            self.fork_failed = True

    def pass_on(self, frames: bytearray) -> None:
        """Send frames from the host to the run."""
        run = self.current
        if run:  # If there is no run, it ended before these frames arrived.
            run.send(frames)
            if run.outgoing:
                self._poll.modify(run.sock, select.POLLIN | select.POLLOUT)

    def handle(self, run: RunProcess, events: dict[int, int]) -> None:
        """Handle the run's frames, its output, and the end of its process. ``events`` has the
        events of `select.poll` by descriptor."""
        if run.sock.fileno() in events:
            self._handle_socket(run, events[run.sock.fileno()])
        if self.current and run.pipe in events and not run.take_output(4):
            self._poll.unregister(run.pipe)
        if self.current and run.process in events:
            # The process has ended, and its socket may have unread frames.
            self._handle_socket(run, select.POLLIN)
            if self.current:
                self.end(run, None)

    def tick(self) -> None:
        """Reap orphans, count files and measure memory. Called often while a run or command may be
        active; does nothing if the last interval has not ended yet.

        An orphan that has ended counts against the box's limit of processes until it is reaped.
        Runs and commands that make too many files are ended. Raises `TooManyFiles`."""
        now = time.monotonic()
        if now < self._next_tick:
            return
        self.reap_orphans()
        self._bound_files()
        self._next_tick = now + (_SOON_S if (self._file_count or 0) > _FILES // 2 else TICK_S)
        if self._meter is not None:
            self._measure(self._meter)

    def _bound_files(self) -> None:
        """If the box has too many files, and more than at the last count, end the run and all
        commands. All are ended because it is unknown which of them made the files."""
        import guest_files

        before, self._file_count = self._file_count, guest_files.count()
        if before is not None and self._file_count > max(before, _FILES):
            if self.current:
                told = f"the code made over {_FILES} files"
                self.end(self.current, _ended("out_of_memory", told))
            if self.executor:
                self.end_commands(f"it was stopped: the box has over {_FILES} files")
            # The run and the commands made more files until they ended.
            self._file_count = guest_files.count()
        if self._file_count > _MOST_FILES:
            raise TooManyFiles

    def end(self, run: RunProcess, text: bytes | None, flags: int = 0) -> None:
        """End the run and send the host its result. ``text`` is the result as JSON, and ``flags``
        is `SAID_BY_RUN` if the run wrote it. Without ``text``, the result is made from the exit
        status of the run's process.

        Daemons that the run started are killed too: only files outlive a run, and globals if they
        are kept. Background processes of commands are descendants of the executor and continue.
        """
        self.current = None
        kept = bool(flags & wire.SAID_BY_RUN) and run.keeps_globals and self._keep(run)
        status = 0 if kept else self._end_all(run)
        for number in (run.sock, run.pipe, run.process):
            with suppress(KeyError):
                self._poll.unregister(number)
        # This reads the rest of the output. No process writes to the pipe any more.
        run.take_output(1024)
        # `starved` is always called, because the call resets the meter's count. Otherwise kills in
        # this run would count as kills in the next run.
        starved = self._meter is not None and self._meter.starved()
        if text is None:
            text = _STARVED if starved else _ended("died", describe_status(status))
        if self._meter is not None:
            self._report_usage(self._meter)
        self.promised = kept
        flags |= (wire.TRUNCATED if run.truncated else 0) | (wire.KEPT if kept else 0)
        self._host.send(wire.RESULT, flags, text, bytes(run.output))
        if not kept:
            run.close()

    def kill_foreign_processes(self, run: RunProcess | None = None) -> bool:
        """Kill all processes of the box except these: the supervisor, the executor and its
        descendants, ``run``, the spare process and the frozen process.

        Return whether there were such processes.
        """
        own = {os.getpid()} | self._own(run)
        executor = self.executor.pid if self.executor else 0

        def strangers(listed: guest_processes.Table) -> set[int]:
            spared = guest_processes.below(listed, executor) | {executor} if executor else set()
            return set(listed) - own - spared

        found = False
        while guest_processes.kill(strangers):
            found = True
            time.sleep(_DEATH_S)
        self.reap_orphans()
        return found

    def _own(self, run: RunProcess | None) -> set[int]:
        return {one.pid for one in (run, self.spare, self.kept, self.executor) if one}

    def stop_idle_executor(self) -> None:
        """End the executor if it has no work and no command has a background process. The next
        command starts another executor."""
        executor = self.executor
        if executor is None or executor.pending:
            return
        if not guest_processes.below(guest_processes.table(), executor.pid):
            self.reap_executor()

    def end_commands(self, because: str = "") -> None:
        """Kill the executor and all its descendants, and wait for the end of the executor. Without
        this wait, the host's next request could be sent to the killed executor and be lost.
        ``because`` is the reason that the callers of the ended work read; empty for a general
        one."""
        if self.executor:
            self.executor.end_commands()
            self.reap_executor(because)

    def reap_executor(self, because: str = "") -> None:
        """Kill the executor, wait for its end, kill the processes that it left behind, and answer
        the host's pending requests with an error, which says ``because`` if it is not empty."""
        executor, self.executor = self.executor, None
        if executor is None:
            return
        self._poll.unregister(executor.sock)
        executor.wait()
        if not self.current:  # If a run is active, its end kills these processes.
            self.kill_foreign_processes()
        executor.report_end(self._host, because)

    def reap_orphans(self) -> None:
        """Reap children that have ended, except the current run and the executor. Other methods
        wait for these two."""
        waited_for = {one.pid for one in (self.current, self.executor) if one}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid in waited_for:  # `waitid` would return this process again and again.
                self._reap_behind(waited_for)
                return
            self._reap(ended.si_pid)

    def _reap_behind(self, waited_for: set[int]) -> None:
        me = os.getpid()
        for pid, (parent, state) in guest_processes.table().items():
            if parent == me and state == b"Z" and pid not in waited_for:
                self._reap(pid)

    def _reap(self, pid: int) -> None:
        os.waitpid(pid, 0)
        if self.kept and self.kept.pid == pid:
            self.kept = self.kept.close()
        elif self.spare and self.spare.pid == pid:
            self.spare = self.spare.close()

    def _measure(self, meter: guest_meter.ResourceMeter) -> None:
        import guest_meter

        run, executor = self.current, self.executor
        spent, over = meter.look(executor.pid if executor else 0)
        if run and over == guest_meter.MemoryOverrun.RUN:
            self.end(run, _STARVED)
        else:
            self._report_usage(meter, int(min(spent, TICK_S) * 1e6))
        if over == guest_meter.MemoryOverrun.COMMANDS or (over and not run):
            self.end_commands()

    def _report_usage(self, meter: guest_meter.ResourceMeter, spent: int = 0) -> None:
        self._host.send(wire.USED, spent, str(meter.used()).encode())

    def _handle_socket(self, run: RunProcess, event: int) -> None:
        if event & select.POLLOUT:
            run.flush()
            if not run.outgoing:
                self._poll.modify(run.sock, select.POLLIN)
        try:
            received = run.sock.recv(wire.READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            received = b""
        if not received:
            with suppress(KeyError):
                self._poll.unregister(run.sock)
            return
        run.received += received
        try:
            while self.current:
                found = wire.measure(run.received, run.value_limit)
                if found is None:
                    break
                self._forward(run, *found)
        except wire.ProtocolError as error:
            self.end(run, _ended("protocol_error", f"the run sent {error}"))

    def _forward(self, run: RunProcess, kind: int, number: int, text_length: int, end: int) -> None:
        has_body = wire.HEAD.size + text_length < end
        if kind == wire.CALL and run.calls_left <= 0:
            self.end(run, _ended("too_many_calls", ""))
        elif kind == wire.CALL:
            run.calls_left -= 1
            self._host.send_bytes(self._printed(run) + run.received[:end])
        elif kind == wire.DONE and not has_body and text_length <= 1:
            self._host.send_bytes(run.received[:end])
        elif kind == wire.END and not has_body:
            run.is_its_own_end = number == run.pid
            self.end(run, bytes(run.received[wire.HEAD.size : end]), wire.SAID_BY_RUN)
        else:
            raise wire.ProtocolError(f"a frame of kind {kind}")
        del run.received[:end]

    @staticmethod
    def _printed(run: RunProcess) -> bytes:
        """Make the PRINTED frame that is sent before a CALL. Empty if the run printed nothing since
        the last CALL."""
        # The run has flushed its output. Two pieces are enough, because a pipe holds at most two.
        run.take_output(2)
        if len(run.output) == run.output_told:
            return b""
        run.output_told = len(run.output)
        return wire.frame(wire.PRINTED, run.output_told)

    def _keep(self, run: RunProcess) -> bool:
        """Freeze the run's process with its globals, and kill all other processes of the run.

        Return False if that is impossible, for example if a forked child sent the END frame: then
        the run's own process may still execute code.
        """
        if not run.is_its_own_end:
            return False
        for _ in range(_KEEP_TRIES):
            if not run.freeze():
                return False
            # Another process of the run may have resumed the frozen process with SIGCONT. If so, it
            # is frozen again.
            if guest_processes.alone(run.pid, self._own(run)) or not self.kill_foreign_processes(
                run
            ):
                run.drain()
                self.kept = run
                return True
        return False

    def _take_frozen(self) -> RunProcess | None:
        run, self.kept = self.kept, None
        if run is not None and not run.lives:
            run = self._reap_run(run)
        return run

    def _take_spare(self) -> RunProcess | None:
        run, self.spare = self.spare, None
        if run is not None and not run.lives:  # A command may have killed it.
            run = self._reap_run(run)
        return run

    def _fork_or_end_commands(self) -> RunProcess | None:
        """Fork a run's process. If that fails because the box has reached its limit of processes,
        kill all commands and try again."""
        for _ in range(_FORK_TRIES):
            with suppress(OSError):
                return RunProcess(self._confinement, self._known)
            self.end_commands()
            self.kill_foreign_processes()
            time.sleep(_DEATH_S)
        return None

    def drop_frozen(self) -> None:
        """Kill the process that is frozen with its globals."""
        self.promised = False
        run, self.kept = self.kept, None
        if run is not None:
            os.kill(run.pid, SIGKILL)
            self._reap_run(run)

    def dismiss_spare(self) -> None:
        """Kill the process that was forked in advance, and reap orphans."""
        run, self.spare = self.spare, None
        if run is not None:
            os.kill(run.pid, SIGKILL)
            self._reap_run(run)
        self.reap_orphans()

    @staticmethod
    def _reap_run(run: RunProcess) -> None:
        os.waitpid(run.pid, 0)
        run.close()

    def _end_all(self, run: RunProcess) -> int:
        """Kill all processes of the run. Return the exit status of its main process."""
        if self.executor is None and self.kept is None and self.spare is None:
            with suppress(ProcessLookupError):
                os.kill(-1, SIGKILL)
            return self._reap_all(run)
        with suppress(ProcessLookupError):
            os.kill(run.pid, SIGKILL)
        _, status = os.waitpid(run.pid, 0)
        self.kill_foreign_processes()
        if self.kept and not self.kept.freeze():
            os.kill(self.kept.pid, SIGKILL)
            self.kept = self._reap_run(self.kept)
        return status

    @staticmethod
    def _reap_all(run: RunProcess) -> int:
        """Wait for children and reap them until the supervisor has none. Return the exit status of
        the run's main process."""
        status = 0
        while True:
            try:
                pid, ended = os.waitpid(-1, 0)
            except ChildProcessError:
                return status
            if pid == run.pid:
                status = ended


def _ended(stop: str, error: str) -> bytes:
    return dumps({"stop": stop, "error": error}).encode("utf-8", "replace")


_STARVED = _ended("out_of_memory", "the code used more memory than its box has")
