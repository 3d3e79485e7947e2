"""The contract between a caller that wants code run and a backend that isolates it.

A *backend* makes *boxes*; a box keeps files and executes *runs*, one at a time. A run is fed whole
top-level statements while they become known, calls functions of the host, and ends with a
`RunResult`. Nothing here knows of chats, and no value that a box sends is ever unpickled.

Errors::

    NekroError
    └── SandboxError
        ├── BackendUnavailable    this machine cannot make such boxes; says how to mend it
        │   └── BoxesFull         all boxes together have what they may; later there is room again
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
    """The root of what this room raises."""


class BackendUnavailable(SandboxError):
    """The machinery cannot work here; the message says why and what to do."""


class BoxesFull(BackendUnavailable):
    """All boxes together use what they may (`memory_limit`): no room came in time."""


class ImageUnavailable(SandboxError):
    """A backend has no image of this name, or could not make it; ``available`` are those it has."""

    def __init__(self, image: str, available: Sequence[str], reason: str = "") -> None:
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"there is no image {image!r} here{why}; there is {', '.join(available) or 'none'}"
        )
        self.image = image
        self.reason = reason
        self.available = tuple(available)


class BoxLost(SandboxError):
    """The box is gone. Nothing of it can be used again."""


class BoxFileError(SandboxError):
    """A file operation failed inside the box, for a reason of the caller's.

    ``code`` is one of ``not_found, is_a_directory, permission_denied, too_large, invalid_input,
    limit`` (the last: the box has no process or memory left for it).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BoxConnectionError(SandboxError, ConnectionRefusedError):
    """No connection: nobody listens at that port inside the box, or somebody does already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Bounds of one run. Waiting for source and for the host's tools counts against none."""

    seconds: float = 60.0
    """Wall time in which code of the guest runs."""
    output_bytes: int = 256 * 1024
    """Of stdout and stderr together; the rest is dropped and the result marked."""
    calls: int = 1000
    """Tool calls. One more ends the run."""
    value_bytes: int = 16 * 1024 * 1024
    """Of one argument list or one result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFunction:
    """A host function as the guest sees it.

    ``names`` are the dotted or plain names it is bound to (``send_image``, ``chat.send_image``);
    the first is the one its calls are reported under. ``signature`` and ``doc`` are what
    ``help()`` shows; the host validates arguments itself.
    """

    names: tuple[str, ...]
    signature: str = "(*args, **kwargs)"
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCall:
    """The guest called a host function. Arguments are plain data: None, bool, int, float, str,
    bytes, list and dict with text keys."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallReturn:
    """Answer to a call: the guest's expression has this value. May be anything that pickles; what
    the guest cannot import arrives as a plain view of its data.

    ``shown`` is whether it is printed where the reply's last expression has it. With ``checkpoint``
    it is not, and what was printed before the call is told apart (`RunResult.fresh_output`)."""

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
    """Answer to a call: the run is over, whatever its code does to go on. One that keeps its
    globals has a moment to leave its statement by an exception; the next run goes on with them."""


Answer = CallReturn | CallFailure | EndRun
CallHandler = Callable[[GuestCall], Awaitable[Answer]]


class StopReason(StrEnum):
    """Why a run is over."""

    FINISHED = "finished"
    ERROR = "error"
    """An exception that the code did not catch; ``RunResult.error`` is its traceback."""
    ENDED_BY_CALL = "ended_by_call"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    TOO_MANY_CALLS = "too_many_calls"
    PROTOCOL_ERROR = "protocol_error"
    DIED = "died"
    """The process ended by itself: a signal, ``os._exit``; ``RunResult.error`` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What became of a run.

    ``output`` is stdout and stderr interleaved, decoded with replacement, and at its end the value
    of the reply's last expression as a notebook shows it. ``error`` is the traceback of the guest's
    own lines, numbered as in the whole reply, or one sentence. ``statements`` counts those that ran
    to their end, ``seconds`` is the guest's own time.
    """

    stop: StopReason
    output: str = ""
    output_truncated: bool = False
    fresh_output: str = ""
    """What of it was printed after the last call that was answered with a checkpoint; all of it
    where none was."""
    error: str = ""
    statements: int = 0
    calls: int = 0
    seconds: float = 0.0
    globals_kept: bool = False
    """Whether the next run that keeps globals finds those of this one."""


class Run(Protocol):
    """One execution of one reply's code, fed as it arrives."""

    async def feed(self, source: str, line: int) -> None:
        """Hand over whole top-level statements whose first line is number ``line`` of the reply.

        Returns once they are on their way, not when they ran. After the run is over it does
        nothing, so a feeder need not race with the end.
        """

    async def finish(self) -> RunResult:
        """Say that no more source comes; wait for the end. May be awaited again."""

    async def wait(self) -> RunResult:
        """Wait for the end without saying that the source is complete."""

    async def cancel(self) -> RunResult:
        """End the run now (at most 0.1 s); nothing of it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpec:
    """What sort of box. ``template`` is the name of an image: what is installed in it
    (`Backend.images`)."""

    template: str = "python"
    memory_bytes: int = 512 * 1024 * 1024
    disk_bytes: int = 256 * 1024 * 1024
    processes: int = 64


class Box(Protocol):
    """An isolated place to run code and keep files. Its working directory is ``/home/user``."""

    box_id: str
    bounded_by: str
    """What keeps it within its memory and processes, in words: the kernel, or a watchdog."""

    @property
    def alive(self) -> bool:
        """Whether it can be used."""

    @property
    def idle_bytes(self) -> int:
        """The memory of its processes and its files as measured when it was last idle; before
        that an estimate. A page that several boxes map counts by its share."""

    async def start_run(
        self,
        functions: Sequence[GuestFunction],
        handler: CallHandler,
        limits: RunLimits | None = None,
        *,
        keep_globals: bool = False,
    ) -> Run:
        """Start a run in a forked child with clean globals. One at a time; a second one waits.

        With ``keep_globals`` the run goes on in the interpreter of the last such run of this box,
        like a notebook's next cell; between runs that interpreter is stopped and does nothing,
        until `drop_globals`. Its globals are lost where the run had to be killed: they are kept
        with the ends ``FINISHED``, ``ERROR`` and, in most cases, ``ENDED_BY_CALL``
        (`RunResult.globals_kept`).
        When a run is over no other process of it is left; those of commands live on.
        Raises `BoxesFull` and `BoxLost`.
        """

    def drop_globals(self) -> None:
        """End the interpreter that was kept with its globals, if there is one. Never waits."""

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
        """Run a command: a text through ``/bin/sh -c``, a sequence as the program and its words.

        Any number at once, also while a run runs code and from the handler of a call of that
        run. ``environment`` is added to the box's own; ``working_dir`` is entered by ``chdir``
        and not by the shell. It returns when the command's own process has ended and what was
        printed until then is read: what it left in the background (``server &``) does not hold it,
        keeps running through later commands and runs, and ends with the box; what it prints later
        is dropped. After ``timeout_s`` the command and everything below it is killed, daemons
        too (``exit_code`` 124, ``timed_out``); so it is when the caller is cancelled.

        ``output_bytes`` bounds what is kept of stdout and of stderr, each: the first and the last
        half of it. A stream with more is written in full (up to 16 MiB) to the file ``spill_to``
        plus ``.stdout`` or ``.stderr``, if ``spill_to`` is given; its folder is made.

        Raises `BoxFileError` where the command did not start: ``not_found`` and ``invalid_input``
        for the working folder or the program of a sequence, ``permission_denied``, ``too_large``,
        ``limit``; `BoxesFull` and `BoxLost`.
        """

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """What later runs and commands find in their environment besides the box's own.

        Those that were there before are replaced. What already runs keeps what it has.
        """

    async def status(self, path: str, *, follow: bool = True) -> FileStatus | None:
        """What is at ``path``; None where nothing is. A link at its end is followed or not.

        Raises `BoxFileError` for a path that leaves the box's own folders, and `BoxLost`.
        """

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """The bytes of a regular file, resolved inside the box.

        Raises `BoxFileError` (``too_large`` above ``limit`` bytes) and `BoxLost`.
        """

    async def read_piece(self, path: str, *, offset: int = 0, limit: int) -> FileChunk:
        """At most ``limit`` bytes of a regular file from ``offset`` on, and its whole size.

        Nothing else of the file is read. Beyond the end there are no bytes and no error. What is no
        regular file is an error at once. Raises `BoxFileError` and `BoxLost`.
        """

    async def write_file(
        self, path: str, data: bytes, *, read_only: bool = False, append: bool = False
    ) -> int:
        """Replace a file in one step, or add to its end in one write; give its size after that.

        Parents are made. Two that append at once lose nothing. Nothing can be added below
        ``/app/uploads``. Raises `BoxFileError` and `BoxLost`.
        """

    async def glob(
        self, pattern: str, *, working_dir: str = "/home/user", limit: int = 10_000
    ) -> GlobResult:
        """The files and folders that match, relative to ``working_dir`` and sorted.

        ``*`` and ``?`` and ``[...]`` stay within one name, ``**`` is any number of folders; hidden
        names match only where the pattern names the dot; folders behind links are entered only
        where the beginning of the pattern names them. A pattern that is absolute gives absolute
        paths. No match is no error. At most ``limit`` paths. Raises `BoxFileError` (``not_found``
        for the working folder, ``invalid_input`` for a pattern that is none, ``permission_denied``
        outside the box's own folders) and `BoxLost`.
        """

    def pack(self, path: str, *, recursive: bool = True) -> AsyncGenerator[bytes]:
        """A file, or a folder with all below it, as pieces for `unpack` of any box.

        Made as they are taken, never held as a whole; close it early with `contextlib.aclosing`.
        Carried: regular files and folders with mode and time, links that stay inside of what is
        packed. All else is left out and named by `UnpackResult.skipped`. The pieces come from
        inside a box: nothing but `unpack` may read them. Raises, at the first piece, `BoxFileError`
        (``is_a_directory`` for a folder without ``recursive``), and `BoxLost`.
        """

    async def unpack(self, path: str, pieces: AsyncIterable[bytes]) -> UnpackResult:
        """Put there what `pack` gave, under the final name ``path``; parents are made.

        A file whose ``path`` is a folder goes into it under its own name. A folder's files go into
        a folder that is there already, each in the place of its namesake. All is received beside
        the target first and then renamed, so a failure on the way leaves nothing behind. Neither
        owners nor set-id bits are kept. Raises `BoxFileError` (``too_large`` for what is over the
        box's disk or 100,000 entries, ``is_a_directory`` for a file in a folder's place,
        ``invalid_input`` for pieces that are no such archive), what ``pieces`` raises, `BoxLost`.
        """

    async def connect(self, port: int, *, timeout_s: float = 10.0) -> anyio.abc.ByteStream:
        """A connection to ``127.0.0.1:port`` inside the box; ends with the box.

        The same interface whether the connection itself is handed out or relayed over the box's
        channel (behind its tool calls, with a bounded window). Raises `BoxConnectionError` and
        `BoxLost`.
        """

    async def listen(self, port: int) -> Listener:
        """Have the box's ``127.0.0.1:port`` answered by the host; ends with the box.

        The only thing inside that whoever runs in the box can then reach outside of it is what the
        host does with these connections. Raises `BoxConnectionError` and `BoxLost`.
        """

    async def export_files(self) -> bytes:
        """``/home/user`` as an uncompressed tar archive, for `import_files` after a restart."""

    async def export_changes(self, since: str = "") -> FileChanges:
        """What changed under ``/home/user`` since the state that an earlier answer named.

        Everything where ``since`` is empty or not the last state that was named: whoever could not
        store an answer names the state before it, and gets all. Raises `BoxFileError`, `BoxLost`.
        """

    async def note_files(self) -> str:
        """Name the state of now without sending anything: what is there is stored already."""

    async def import_files(self, archive: bytes) -> None:
        """Put such an archive's regular files and folders back, and links that lead inside or to
        the image's own programs."""

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
    """Whether a backend may be used on this machine. It fails closed: all checks must hold."""

    backend: str
    checks: tuple[Check, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every check held, and there was at least one."""
        return bool(self.checks) and all(check.ok for check in self.checks)


class Backend(Protocol):
    """What makes boxes. Opened and closed by whoever owns it; closing destroys its boxes."""

    name: str

    async def self_check(self) -> SelfCheck:
        """Start a box and read back from inside what confines it. Never raises for a finding."""

    async def images(self) -> tuple[str, ...]:
        """What `BoxSpec.template` may be, sorted, those included that are made when first wanted.

        ``python`` is always among them. A name with a version (``python:3.11``, ``node:22``) is
        there only where that very version is.
        """

    async def create(self, spec: BoxSpec) -> Box:
        """A fresh box. Raises `BackendUnavailable` (`BoxesFull` among it), and `ImageUnavailable`
        for a template that this backend does not have."""

    @property
    def crowded(self) -> bool:
        """Whether boxes that nobody uses should end, to make room (`memory_limit`)."""

    async def aclose(self) -> None:
        """Destroy every box that it made."""
