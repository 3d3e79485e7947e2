"""Runs the host's commands in the box: starts them, collects their output, kills them.

Each command has a separate session and is a subreaper: while it runs, orphaned descendants become
its children. So all its descendants, even daemons, can be found and killed. When a command ends by
itself, its background processes continue and become children of the executor.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time

import guest_confinement
import guest_files
import guest_processes

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from guest_confinement import Confinement

_PIECE = 65536
_SPILL_BYTES = 16 * 1024 * 1024
_GRACE_S = 0.05
"""Seconds to wait for more output of descendants after the command's own process has ended."""
_TIMED_OUT = 124


class CapturedOutput:
    """The output of a command on one stream: its beginning, its end, and optionally a file with the
    whole output.

    ``keep`` is the number of bytes of beginning and end together. ``path`` is the path of the file;
    empty for no file. The file is written only if beginning and end do not hold all output. It gets
    at most 16 MiB."""

    def __init__(self, pipe: int, keep: int, path: str) -> None:
        self.pipe = pipe
        self.open = True
        self.head = bytearray()
        self.tail = bytearray()
        self.size = 0
        self.path = ""
        self._spill_to = path
        self._file: Any = None
        self._head_room = keep - keep // 2
        self._tail_room = keep // 2

    def take(self, pieces: int) -> bool:
        """Read at most ``pieces`` pieces of output. Return False after all writers have closed the
        pipe."""
        for _ in range(pieces):
            try:
                piece = os.read(self.pipe, _PIECE)
            except BlockingIOError:
                return True
            if not piece:
                self.open = False
                return False
            self._add(piece)
        return True

    def drop(self) -> bool:
        """Read and discard one piece. Return False after all writers have closed the pipe."""
        try:
            return bool(os.read(self.pipe, _PIECE))
        except BlockingIOError:
            return True

    def settle(self) -> None:
        """Close the file. No more output is collected."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, piece: bytes) -> None:
        before = self.size
        self.size += len(piece)
        if self._spill_to and self.size > self._head_room + self._tail_room:
            self._spill(piece)
        if before < self._head_room:
            taken = self._head_room - before
            self.head += piece[:taken]
            piece = piece[taken:]
        self.tail += piece
        if len(self.tail) > self._tail_room:
            del self.tail[: len(self.tail) - self._tail_room]

    def _spill(self, piece: bytes) -> None:
        try:
            if self._file is None:
                self._file = guest_files.create(self._spill_to)
                self.path = self._spill_to
                guest_files.write_all(self._file.fileno(), self.head + self.tail)
            room = max(_SPILL_BYTES - self._file.tell(), 0)
            guest_files.write_all(self._file.fileno(), piece[:room])
        # The disk may be full, or the file may exist already.
        except (guest_files.FileError, OSError):
            self.settle()
            if self.path:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
            self.path = self._spill_to = ""


class CommandProcess:
    """One command. ``wanted`` is the host's request, ``given`` the standard input. The constructor
    raises `guest_files.FileError` if it cannot fork."""

    def __init__(
        self, number: int, wanted: dict[str, Any], given: bytes, confinement: Confinement
    ) -> None:
        self.number = number
        self.began = time.monotonic()
        self.deadline: float | None = self.began + wanted["timeout"]
        self.timed_out = False
        self.status: int | None = None
        spill = wanted["spill"] and os.path.join(guest_files.HOME, wanted["spill"])
        pipes = [os.pipe() for _ in range(3)]
        try:
            with _standard_input(given) as file:
                files = (file, pipes[0][1], pipes[1][1])
                self.pid = _start(wanted, files, pipes[2][1], confinement)
        except BaseException:
            for pipe, _ in pipes:
                os.close(pipe)
            raise
        finally:
            for _, pipe in pipes:
                os.close(pipe)
        self._complaint = pipes[2][0]
        self.printed = []
        for (pipe, _), name in zip(pipes[:2], ("stdout", "stderr")):  # noqa: B905 - Python 3.9
            os.set_blocking(pipe, False)
            self.printed.append(CapturedOutput(pipe, wanted["output"], spill and f"{spill}.{name}"))

    def stop(self) -> None:
        """Kill the command and all its descendants."""
        self.deadline = None
        pid = self.pid
        if self.status is None:
            guest_processes.kill(lambda listed: guest_processes.below(listed, pid) | {pid})

    def look(self) -> None:
        """Check the deadline. If it has passed and the command still runs, the command has timed
        out and is killed. If it has passed and the command has ended, stop waiting for output of
        its descendants."""
        if self.status is None:
            self.timed_out = True
            self.stop()
        else:
            self.deadline = None

    def ended(self, status: int) -> None:
        """Record that the command's own process has ended."""
        self.status = status
        self.deadline = None if self.timed_out else time.monotonic() + _GRACE_S

    @property
    def over(self) -> bool:
        """Return True if the command's own process has ended and its output is complete or no
        longer awaited."""
        return self.status is not None and (
            self.deadline is None or not any(one.open for one in self.printed)
        )

    def result(self) -> tuple[bytes, bytes]:
        """Return the text and the body of the answer to the host.

        Raises `guest_files.FileError` if the program could not be executed."""
        complaint = os.read(self._complaint, 4096).decode("utf-8", "replace")
        os.close(self._complaint)
        if complaint:
            place, _, number = complaint.rpartition(" ")
            raise guest_files.file_error(place, OSError(int(number), ""))
        told, body = [], bytearray()
        for printed in self.printed:
            if printed.open:
                printed.take(16)
            printed.settle()
            told.append((len(printed.head), len(printed.tail), printed.size, printed.path))
            body += printed.head + printed.tail
        result = {
            "exit_code": _TIMED_OUT if self.timed_out else _exit_code(self.status or 0),
            "timed_out": self.timed_out,
            "seconds": time.monotonic() - self.began,
            "printed": told,
        }
        return json.dumps(result).encode("utf-8", "replace"), bytes(body)


def _exit_code(status: int) -> int:
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


@contextlib.contextmanager
def _standard_input(given: bytes) -> Any:
    """Write the standard input of a command to a temporary file, and open this file for reading.

    A file is used instead of a pipe for two reasons. A pipe would have to be filled in pieces while
    the command runs. And the command would not see the end of the input while another process has
    the pipe open."""
    if not given:
        with open(os.devnull, "rb") as file:
            yield file.fileno()
        return
    try:
        with tempfile.TemporaryFile(dir="/tmp", buffering=0) as file:
            guest_files.write_all(file.fileno(), given)
            file.seek(0)
            yield file.fileno()
    except OSError as error:
        raise guest_files.file_error("the standard input", error) from error


def _start(
    wanted: dict[str, Any], files: Sequence[int], complaint: int, confinement: Confinement
) -> int:
    """Fork, and execute the command in the child. If that fails, the child writes the path and the
    error number to ``complaint``."""
    environment = {**os.environ, **wanted["environment"]}
    directory = os.path.join(guest_files.HOME, wanted["directory"])
    words = wanted["command"]
    try:
        pid = os.fork()
    except OSError as error:
        raise guest_files.FileError("limit", "the box has no process left for this") from error
    if pid:
        return pid
    place = directory
    try:
        os.setsid()
        confinement.enter()
        for number, file in enumerate(files):
            os.dup2(file, number)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.chdir(directory)
        environment["PWD"] = directory
        guest_confinement.adopt_orphans()
        place = words[0]
        os.execvpe(words[0], words, environment)  # noqa: S606 - the shell is the caller's choice
    except BaseException as error:
        number = getattr(error, "errno", None) or 22
        os.write(complaint, f"{place} {number}".encode("utf-8", "replace")[-4096:])
    finally:
        os._exit(127)
