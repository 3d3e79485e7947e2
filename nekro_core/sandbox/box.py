"""The contract between a caller that wants code run and a backend that isolates it.

A *backend* makes *boxes*. A box keeps files and executes *runs*, one at a time. A run receives
whole top-level statements as they become known, calls functions of the host, and ends with a
`RunResult`. This file knows nothing of chats. No value from a box is ever unpickled.

Errors::

    NekroError
    └── SandboxError
        ├── BackendUnavailable    this machine cannot make such boxes; says how to mend it
        │   └── BoxesFull         all boxes together use the memory they may; try again later
        ├── ImageUnavailable      no image of that name here; says which there are
        ├── BoxLost               the box died or broke the protocol; its runs end, make another
        ├── BoxFileError          a file operation failed inside the box; has a stable ``code``
        └── BoxConnectionError    nobody listens at that port of the box, or it is taken
"""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import anyio.abc

from nekro_core.sandbox.results import (
    CommandResult,
    FileChanges,
    FileChunk,
    FileStatus,
    GlobResult,
    Listener,
    UnpackResult,
)
from nekro_core.system.errors import NekroError


class SandboxError(NekroError):
    """The root of the errors of this room."""


class BackendUnavailable(SandboxError):
    """The backend cannot work here; the message says why and what to do."""


class BoxesFull(BackendUnavailable):
    """All boxes together use too much memory (`memory_limit`), and no room was free in time."""


class ImageUnavailable(SandboxError):
    """A backend has no image of this name, or could not make it. ``available`` lists its images."""

    def __init__(self, image: str, available: Sequence[str], reason: str = "") -> None:
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"there is no image {image!r} here{why}; there is {', '.join(available) or 'none'}"
        )
        self.image = image
        self.reason = reason
        self.available = tuple(available)


class BoxLost(SandboxError):
    """The box has ended. None of it can be used again."""


class BoxFileError(SandboxError):
    """A file operation failed inside the box, because of what the caller asked for.

    ``code`` is one of ``not_found, is_a_directory, permission_denied, too_large, invalid_input,
    limit``. ``limit`` means that the box has no process or memory left for the operation.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BoxConnectionError(SandboxError, ConnectionRefusedError):
    """No connection: no program listens at this port inside the box, or the port is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Bounds of one run. Waiting for source or for the host's tools counts against none of them."""

    seconds: float = 60.0
    """Wall time in which the guest's code runs."""
    output_bytes: int = 256 * 1024
    """Bound of stdout and stderr together. The rest is dropped and the result is marked."""
    calls: int = 1000
    """Tool calls. One call more ends the run."""
    value_bytes: int = 16 * 1024 * 1024
    """Bound of one argument list, and of one result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFunction:
    """A host function as the guest sees it.

    ``names`` are the names it is bound to, plain or dotted (``send_image``, ``chat.send_image``).
    Its calls are reported under the first. ``help()`` shows ``signature`` and ``doc``. The host
    validates arguments itself.
    """

    names: tuple[str, ...]
    signature: str = "(*args, **kwargs)"
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCall:
    """A guest's call of a host function. Arguments are plain data: None, bool, int, float, str,
    bytes, list and dict with text keys."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallReturn:
    """Answer to a call: the guest's expression has this value. The value may be anything that
    pickles. An object whose class the guest cannot import arrives as a plain view of its data.

    ``shown`` says whether the value is printed if it is the reply's last expression. With
    ``checkpoint`` it is never printed, and the output before the call is excluded from
    `RunResult.fresh_output`."""

    value: Any
    shown: bool = True
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Answer to a call: the guest sees a ``ToolError`` with this message. ``checkpoint`` is as in
    `CallReturn`."""

    message: str
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class EndRun:
    """Answer to a call: the run is over, even if its code tries to go on. In a run that keeps its
    globals, the call raises an exception. If this ends the code in time, the next run continues
    with these globals."""


Answer = CallReturn | CallFailure | EndRun
CallHandler = Callable[[GuestCall], Awaitable[Answer]]


class StopReason(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    ERROR = "error"
    """The code did not catch an exception; ``RunResult.error`` is the traceback."""
    ENDED_BY_CALL = "ended_by_call"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    TOO_MANY_CALLS = "too_many_calls"
    PROTOCOL_ERROR = "protocol_error"
    DIED = "died"
    """The process ended by itself, by a signal or ``os._exit``; ``RunResult.error`` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The outcome of a run.

    ``output`` is stdout and stderr interleaved, decoded with replacement. It ends with the value of
    the reply's last expression, as in a notebook. ``error`` is one sentence, or the traceback of
    the guest's own lines, numbered as in the whole reply. ``statements`` counts the statements that
    ran to their end. ``seconds`` is the guest's own time.
    """

    stop: StopReason
    output: str = ""
    output_truncated: bool = False
    fresh_output: str = ""
    """The output after the last call that was answered with a checkpoint, or all output."""
    error: str = ""
    statements: int = 0
    calls: int = 0
    seconds: float = 0.0
    globals_kept: bool = False
    """Whether the next run that keeps globals finds the globals of this one."""


class Run(Protocol):
    """One execution of one reply's code, fed as it arrives."""

    async def feed(self, source: str, line: int) -> None:
        """Send whole top-level statements. ``line`` is the number of their first line in the reply.

        Returns when they are sent, which is before they have run. Does nothing after the end of the
        run, so a caller need not race with the end.
        """

    async def finish(self) -> RunResult:
        """Say that no more source comes, and wait for the end. May be awaited again."""

    async def wait(self) -> RunResult:
        """Wait for the end without saying that the source is complete."""

    async def cancel(self) -> RunResult:
        """End the run now, usually within 0.1 s. No part of it continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpec:
    """What kind of box to make. ``template`` names an image, which says what is installed in the
    box (`Backend.images`)."""

    template: str = "python"
    memory_bytes: int = 512 * 1024 * 1024
    disk_bytes: int = 256 * 1024 * 1024
    processes: int = 64


class Box(Protocol):
    """An isolated place to run code and keep files. Its working directory is ``/home/user``."""

    box_id: str
    bounded_by: str
    """What enforces its limits on memory and processes, in words: the kernel, or a watchdog."""

    @property
    def alive(self) -> bool:
        """Whether it can be used."""

    @property
    def idle_bytes(self) -> int:
        """The memory of its processes and files when it was last measured while idle; an estimate
        before the first measurement. A page that several boxes map counts proportionally."""

    async def start_run(
        self,
        functions: Sequence[GuestFunction],
        handler: CallHandler,
        limits: RunLimits | None = None,
        *,
        keep_globals: bool = False,
    ) -> Run:
        """Start a run in a forked child with clean globals. A second run waits for the first.

        With ``keep_globals`` the run continues in the interpreter of the last such run of this box,
        like a notebook's next cell. Between runs this interpreter is suspended. `drop_globals` ends
        it. Its globals are lost if the run had to be killed. They are kept after ``FINISHED``,
        ``ERROR`` and, in most cases, ``ENDED_BY_CALL`` (`RunResult.globals_kept`). When a run is
        over, all processes that it started are killed. Those that commands started live on. Raises
        `BoxesFull` and `BoxLost`.
        """

    def drop_globals(self) -> None:
        """End the interpreter that keeps globals, if there is one. Never waits."""

    async def execute(
        self,
        command: str | Sequence[str],
        *,
        working_dir: str = "/home/user",
        environment: Mapping[str, str] | None = None,
        standard_input: bytes = b"",
        timeout_s: float = 30.0,
        output_bytes: int = 32 * 1024,
        spill_to: str = "",
    ) -> CommandResult:
        """Run a command: a text through ``/bin/sh -c``, or a sequence of program and arguments.

        Any number of commands may run at once, also during a run and from the handler of one of its
        calls. ``environment`` is added to the box's own. ``working_dir`` is entered by ``chdir``,
        not by the shell. The call returns when the command's own process has ended and its output
        until then is read. A process that it left in the background (``server &``) does not delay
        the return. That process lives on through later commands and runs, and ends with the box;
        its later output is dropped. After ``timeout_s``, or when the caller is cancelled, the
        command and its descendants are killed, daemons too. A timeout gives ``exit_code`` 124 and
        ``timed_out``.

        At most ``output_bytes`` are kept of stdout, and as many of stderr. Of a longer stream, half
        of these bytes come from its beginning and half from its end. If ``spill_to`` is given, a
        stream with more is written in full (up to 16 MiB) to the file ``spill_to`` plus ``.stdout``
        or ``.stderr``. Its folder is made.

        Raises `BoxFileError` if the command did not start: ``not_found`` and ``invalid_input`` for
        the working folder or the program of a sequence, ``permission_denied``, ``too_large``,
        ``limit``. Raises `BoxesFull` and `BoxLost`.
        """

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """Set the variables that later runs and commands get besides the box's own.

        They replace those of an earlier call. Running code keeps its environment.
        """

    async def status(self, path: str, *, follow: bool = True) -> FileStatus | None:
        """The status of the file at ``path``, or None if there is none. ``follow`` says whether to
        follow a link at its end.

        Raises `BoxFileError` for a path outside the box's own folders, and `BoxLost`.
        """

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """The bytes of a regular file, resolved inside the box.

        Raises `BoxFileError` (``too_large`` above ``limit`` bytes) and `BoxLost`.
        """

    async def read_piece(self, path: str, *, offset: int = 0, limit: int) -> FileChunk:
        """Read at most ``limit`` bytes of a regular file from ``offset`` on, and its whole size.

        No other part of the file is read. An offset beyond the end gives no bytes and no error. A
        file that is not regular is an error at once. Raises `BoxFileError` and `BoxLost`.
        """

    async def write_file(
        self, path: str, data: bytes, *, read_only: bool = False, append: bool = False
    ) -> int:
        """Replace a file in one step, or append to it in one write. Returns its new size.

        Parents are made. Concurrent appends lose nothing. Nothing can be appended below
        ``/app/uploads``. Raises `BoxFileError` and `BoxLost`.
        """

    async def glob(
        self, pattern: str, *, working_dir: str = "/home/user", limit: int = 10_000
    ) -> GlobResult:
        """The files and folders that match, relative to ``working_dir`` and sorted.

        ``*`` and ``?`` and ``[...]`` stay within one name, ``**`` is any number of folders. Hidden
        names match only if the pattern names the dot. Folders behind links are entered only if the
        beginning of the pattern names them. An absolute pattern gives absolute paths. No match is
        not an error. At most ``limit`` paths are returned. Raises `BoxFileError` (``not_found`` for
        the working folder, ``invalid_input`` for an invalid pattern, ``permission_denied`` outside
        the box's own folders) and `BoxLost`.
        """

    def pack(self, path: str, *, recursive: bool = True) -> AsyncGenerator[bytes]:
        """Pack a file, or a folder with everything below it, as pieces for `unpack` of any box.

        Pieces are made as they are read, so the archive is never in memory as a whole. Use
        `contextlib.aclosing` to close it early. It contains regular files and folders with mode and
        time, and links that stay inside the packed folder. Everything else is left out and listed
        in `UnpackResult.skipped`. The pieces come from inside a box, so only `unpack` may read
        them. At the first piece it raises `BoxFileError` (``is_a_directory`` for a folder without
        ``recursive``), and `BoxLost`.
        """

    async def unpack(self, path: str, pieces: AsyncIterable[bytes]) -> UnpackResult:
        """Unpack the pieces of `pack` under the final name ``path``. Parents are made.

        If a file is unpacked and ``path`` is a folder, the file goes into it under its own name. A
        folder's files go into an existing folder, where each replaces the file of its name.
        Everything is received beside the target and then renamed, so a failure on the way leaves
        nothing behind. Owners and set-id bits are dropped. Raises `BoxFileError` (``too_large`` for
        more than the box's disk or 100,000 entries, ``is_a_directory`` for a file in a folder's
        place, ``invalid_input`` for pieces that are not such an archive), any error of ``pieces``,
        and `BoxLost`.
        """

    async def connect(self, port: int, *, timeout_s: float = 10.0) -> anyio.abc.ByteStream:
        """Connect to ``127.0.0.1:port`` inside the box. The connection ends with the box.

        The interface is the same for a connection that is passed to the host and for one that is
        relayed over the box's channel. A relayed one has a bounded window, so it does not delay the
        tool calls on that channel. Raises `BoxConnectionError` and `BoxLost`.
        """

    async def listen(self, port: int) -> Listener:
        """Have the host answer the box's ``127.0.0.1:port``. The listener ends with the box.

        Through it, code in the box reaches only what the host does with these connections. Raises
        `BoxConnectionError` and `BoxLost`.
        """

    async def export_files(self) -> bytes:
        """``/home/user`` as an uncompressed tar archive, for `import_files` after a restart."""

    async def export_changes(self, since: str = "") -> FileChanges:
        """What changed under ``/home/user`` since the state that an earlier answer named.

        The answer holds everything if ``since`` is empty or is not the last state that was named.
        So a caller that could not store an answer passes the state it knew before. It then gets
        everything. Raises `BoxFileError`, `BoxLost`.
        """

    async def note_files(self) -> str:
        """Name the present state without sending files: the caller has these files already."""

    async def import_files(self, archive: bytes) -> None:
        """Restore the regular files and folders of such an archive, and links that lead into
        ``/home/user`` or to the image's own programs."""

    async def destroy(self) -> None:
        """End every process and free every file. May be called twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding of a self-check: what was tried, whether it held, what was seen, the remedy."""

    name: str
    ok: bool
    seen: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """Whether a backend may be used on this machine. All checks must pass."""

    backend: str
    checks: tuple[Check, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every check passed, and there was at least one."""
        return bool(self.checks) and all(check.ok for check in self.checks)


class Backend(Protocol):
    """Makes boxes. Its owner opens and closes it; closing destroys its boxes."""

    name: str

    async def self_check(self) -> SelfCheck:
        """Start a box and read from inside what confines it. A failed check raises no error."""

    async def images(self) -> tuple[str, ...]:
        """The possible values of `BoxSpec.template`, sorted. Some are prepared at their first use.

        ``python`` is always one of them. A name with a version (``python:3.11``, ``node:22``) is
        listed only if exactly this version is available.
        """

    async def create(self, spec: BoxSpec) -> Box:
        """Make a new box. Raises `BackendUnavailable` (and its subclass `BoxesFull`), and
        `ImageUnavailable` for a template that this backend does not have."""

    @property
    def crowded(self) -> bool:
        """Whether boxes that are not in use should end, to make room (`memory_limit`)."""

    async def aclose(self) -> None:
        """Destroy every box of this backend."""
