"""Defines the contract between two sides: callers that want code executed, and backends that
isolate this code.

A *backend* makes *boxes*. A box stores files and executes *runs*, one at a time. A run receives its
code in pieces, each of whole top-level statements. The code can call functions of the host. A run
ends with a `RunResult`. The *guest* is the code inside a box; the *host* is the bot's process. The
host never unpickles a value from a box.

Errors::

    NekroError
    └── SandboxError
        ├── BackendUnavailable    this machine cannot make boxes; the text says why
        │   └── BoxesFull         all boxes together use their maximum memory; try again later
        ├── ImageUnavailable      there is no image of that name; the text lists the images
        ├── BoxLost               the box died or broke the protocol; its runs end, make another
        ├── BoxFileError          a file operation failed inside the box; has a stable ``code``
        └── BoxConnectionError    no program listens at the box's port, or the port is in use
"""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import anyio.abc

from nekro_core.sandbox.box_packages import SharedPackages
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
    """The base class of all errors of this package."""


class BackendUnavailable(SandboxError):
    """The backend cannot make boxes on this machine. The message says why and what to do."""


class BoxesFull(BackendUnavailable):
    """All boxes together use too much memory (see the module `memory_limit`), and no memory became
    free in time."""


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
    """The box has ended: its processes and files cannot be used any more."""


class BoxFileError(SandboxError):
    """A file operation that the caller requested failed inside the box.

    ``code`` is one of ``not_found, is_a_directory, permission_denied, too_large, invalid_input,
    limit``. ``limit`` means that the operation could not run to its end: the box has reached its
    limit of processes or of memory, or code in the box killed the process that did the operation.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BoxConnectionError(SandboxError, ConnectionRefusedError):
    """No connection: no program listens at this port inside the box, the port is in use, or there
    was no answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of one run."""

    seconds: float = 60.0
    """Wall time in which the guest's code runs. The time in which it waits for more source or for
    the answer to a call does not count."""
    output_bytes: int = 256 * 1024
    """Limit of stdout and stderr together, in bytes. Output beyond this limit is dropped, and
    `RunResult.output_truncated` is set."""
    calls: int = 1000
    """Allowed number of tool calls. The first call beyond this number ends the run."""
    value_bytes: int = 16 * 1024 * 1024
    """Limit in bytes of all arguments of one call together. The same limit applies to each
    result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFunction:
    """A function of the host that the guest can call.

    ``names`` has its names in the guest's globals, plain or dotted (``send_image``,
    ``chat.send_image``). `GuestCall.name` is always the first of them. ``help()`` shows
    ``signature`` and ``doc``. The host validates the arguments of a call, the guest does not.
    """

    names: tuple[str, ...]
    signature: str = "(*args, **kwargs)"
    doc: str = ""


@dataclass(frozen=True, slots=True)
class GuestValue:
    """A text in the guest's globals, under the name ``name``. The code may replace it."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCall:
    """The guest called a host function. Arguments are plain data: None, bool, int, float, str,
    bytes, list, and dict with text keys."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallReturn:
    """Answer to a call: the call returns this value to the guest. The value may be any object that
    can be pickled. If the guest cannot import the object's class, the guest gets a plain object
    with the same data.

    ``shown`` says whether the value is printed if the call is the last expression of the code.
    With ``checkpoint`` the value is never printed, and `RunResult.fresh_output` has only the output
    after this call."""

    value: Any
    shown: bool = True
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Answer to a call: the call raises a ``ToolError`` with this message in the guest.
    ``checkpoint`` is as in `CallReturn`."""

    message: str
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class EndRun:
    """Answer to a call: the run ends, even if its code tries to continue. In a run that keeps its
    globals, the call raises an exception in the guest. If this exception ends the code within 0.05
    s, the next run gets the globals."""


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


@dataclass(frozen=True, slots=True)
class StatementTime:
    """When the source that begins at ``line`` was sent to the run, and when it had been executed,
    in seconds since the run started. ``ended`` is None if the source was not executed to its
    end."""

    line: int
    sent: float
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The outcome of a run.

    ``output`` is stdout and stderr interleaved, decoded with replacement. It ends with the value of
    the code's last expression, as in a notebook. ``error`` is one sentence, or a traceback. The
    traceback contains only lines of the model's reply, with the numbers that `Run.feed` got, and
    lines of files in the box's folders. ``statements`` counts the statements that ran to their end.
    ``seconds`` is the time that counts for `RunLimits.seconds`.
    """

    stop: StopReason
    output: str = ""
    output_truncated: bool = False
    fresh_output: str = ""
    """The output after the last call that was answered with ``checkpoint``. Without such a call it
    is all output."""
    error: str = ""
    statements: int = 0
    calls: int = 0
    seconds: float = 0.0
    globals_kept: bool = False
    """Whether the next run that keeps globals continues with the globals of this run."""
    timeline: tuple[StatementTime, ...] = field(default=(), compare=False)
    """The times of the first 200 pieces of source."""


class Run(Protocol):
    """One execution of the code of one reply of a model. The caller may send the code in pieces,
    while the model still writes."""

    async def feed(self, source: str, line: int) -> None:
        """Send whole top-level statements. ``line`` is the number of their first line in the reply.

        Returns when the statements are sent, before they are executed. After the end of the run
        this call does nothing and raises no error.
        """

    async def finish(self) -> RunResult:
        """Declare that the source is complete, and wait for the end of the run. May be awaited
        again."""

    async def wait(self) -> RunResult:
        """Wait for the end of the run. Unlike `finish`, this call does not declare that the source
        is complete."""

    async def cancel(self) -> RunResult:
        """End the run and all its processes now. This usually takes less than 0.1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpec:
    """What kind of box to make. ``template`` is the name of an image (`Backend.images`). The image
    decides what is installed in the box."""

    template: str = "python"
    memory_bytes: int = 512 * 1024 * 1024
    disk_bytes: int = 256 * 1024 * 1024
    processes: int = 64


class Box(Protocol):
    """An isolated place to run code and keep files. Its working directory is ``/home/user``."""

    box_id: str
    bounded_by: str
    """A text for operators: whether the kernel or a watchdog enforces the box's limits on memory
    and processes."""

    @property
    def alive(self) -> bool:
        """Return True if the box can be used."""

    @property
    def idle_bytes(self) -> int:
        """The memory of the box's processes and files, in bytes, at the last measurement while the
        box was idle. Before the first measurement it is an estimate. A memory page that N boxes map
        counts 1/N for each of them."""

    async def start_run(
        self,
        functions: Sequence[GuestFunction | GuestValue],
        handler: CallHandler,
        limits: RunLimits | None = None,
        *,
        keep_globals: bool = False,
    ) -> Run:
        """Start a run in a forked child with clean globals. A second run waits until the first run
        has ended.

        ``functions`` has the functions that the code may call, and texts for its globals.
        ``handler`` answers the calls. ``limits`` bounds this run; None for the limits of
        `RunLimits`.

        With ``keep_globals`` the run continues in the interpreter of the last run with
        ``keep_globals`` in this box, like the next cell of a notebook. Between runs this
        interpreter is suspended. `drop_globals` ends the interpreter. The globals are lost if the
        run had to be killed. They are kept after ``FINISHED``, ``ERROR`` and, in most cases,
        ``ENDED_BY_CALL`` (`RunResult.globals_kept`). At the end of a run, all processes that it
        started are killed. Processes that commands started continue. Raises `BoxesFull` and
        `BoxLost`.
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

        Any number of commands may run at the same time, also during a run and from the handler of
        one of the run's calls. The command reads ``standard_input``, and then the end of its input.
        ``environment`` is added to the environment of the box.
        ``working_dir`` is entered by ``chdir``, not by the shell. The call returns when the
        command's process has ended and its output until then is read. A process that the command
        left in the background (``server &``) does not delay the return. This process continues
        during later commands and runs, and ends with the box. Its later output is dropped. After
        ``timeout_s``, or when the caller is cancelled, the command and all its descendants,
        including daemons, are killed. After a timeout ``exit_code`` is 124 and ``timed_out`` is
        set.

        The result has at most ``output_bytes`` of stdout and at most ``output_bytes`` of stderr. If
        a stream is longer, half of these bytes are its beginning and half its end. If ``spill_to``
        is given, such a stream is also written in full (up to 16 MiB) to the file ``spill_to`` plus
        ``.stdout`` or ``.stderr``. Missing folders are made.

        Raises `BoxFileError` if the command did not start. The codes ``not_found`` and
        ``invalid_input`` are about the working folder, or about the program if the command is a
        sequence. Other codes are ``permission_denied``, ``too_large`` and ``limit``. Raises
        `BoxesFull` and `BoxLost`.
        """

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """Set variables that later runs and commands get in addition to the box's environment.

        They replace the variables of an earlier call. Code that runs now keeps its environment.
        """

    async def status(self, path: str, *, follow: bool = True) -> FileStatus | None:
        """Get the status of the file at ``path``, or None if there is no such file. If ``path`` is
        a link, ``follow`` says whether to get the status of the link's target.

        Raises `BoxFileError` for a path outside the box's own folders, and `BoxLost`.
        """

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """Read the bytes of a regular file. The path is resolved inside the box.

        Raises `BoxFileError` (``too_large`` above ``limit`` bytes) and `BoxLost`.
        """

    async def read_piece(self, path: str, *, offset: int = 0, limit: int) -> FileChunk:
        """Read at most ``limit`` bytes of a regular file, starting at ``offset``, and the file's
        size.

        No other part of the file is read. An offset beyond the end gives no bytes and no error. For
        a FIFO, socket or device the call raises at once and does not wait for data. Raises
        `BoxFileError` and `BoxLost`.
        """

    async def write_file(
        self, path: str, data: bytes, *, read_only: bool = False, append: bool = False
    ) -> int:
        """Replace a file in one step, or append to it in one write. Returns its new size.

        Missing parent folders are made. A ``read_only`` file gets no write permission, which code
        in the box can give back. Concurrent appends lose no data. Files below
        ``/app/uploads`` can be replaced, but not appended to. Raises `BoxFileError` and `BoxLost`.
        """

    async def glob(
        self, pattern: str, *, working_dir: str = "/home/user", limit: int = 10_000
    ) -> GlobResult:
        """Find the files and folders that match ``pattern``. The paths are sorted, and relative to
        ``working_dir``.

        ``*`` and ``?`` and ``[...]`` match within one name, ``**`` matches any number of folders. A
        name that begins with a dot matches only if the pattern has a dot at this place. A link to a
        folder is followed only in the part of the pattern before the first wildcard. An absolute
        pattern gives absolute paths. If nothing matches, the result is empty. At most ``limit``
        paths are returned. Raises `BoxFileError` (``not_found`` for the working folder,
        ``invalid_input`` for an invalid pattern, ``permission_denied`` outside the box's own
        folders) and `BoxLost`.
        """

    def pack(self, path: str, *, recursive: bool = True) -> AsyncGenerator[bytes]:
        """Pack a file, or a folder with everything below it, as pieces for `unpack` of any box.

        Each piece is made when the caller asks for it, so the archive is never in memory as a
        whole. Use `contextlib.aclosing` to close the generator early. The archive contains regular
        files and folders with mode and time, and links that stay inside the packed folder.
        Everything else is left out and listed in `UnpackResult.skipped`. The pieces come from
        inside a box and are not trusted, so only `unpack` may read them. The request for the first
        piece can raise `BoxFileError` (``is_a_directory`` for a folder without ``recursive``). Each
        request can raise `BoxLost`.
        """

    async def unpack(self, path: str, pieces: AsyncIterable[bytes]) -> UnpackResult:
        """Unpack the pieces of `pack`. The unpacked file or folder gets the path ``path``. Missing
        parent folders are made.

        If a file is unpacked and ``path`` is a folder, the file gets its old name in this folder.
        If a folder is unpacked and ``path`` is a folder, its files go into ``path`` and replace
        files of the same names. Everything is first received beside the target and then renamed. If
        receiving fails, the received files are removed. If a file and a folder of the same name
        meet in ``path``, the files that were moved before stay. Owners and set-id bits are dropped.

        Raises `BoxFileError` (``too_large`` for more than the box's disk or 100,000 entries,
        ``is_a_directory`` for a file in the place of a folder, ``invalid_input`` for a folder in
        the place of a file and for pieces that are not such an archive), any error of ``pieces``,
        and `BoxLost`.
        """

    async def connect(self, port: int, *, timeout_s: float = 10.0) -> anyio.abc.ByteStream:
        """Connect to ``127.0.0.1:port`` inside the box. The connection ends with the box.

        Some backends pass the socket itself to the host. Others relay the bytes over the channel
        that also carries the tool calls. At most 256 KiB of a relayed connection are under way at
        once in each direction, so it does not delay the tool calls. For callers there is no
        difference. Raises `BoxConnectionError` and
        `BoxLost`.
        """

    async def listen(self, port: int) -> Listener:
        """Accept in the host the connections that code in the box opens to ``127.0.0.1:port``. The
        listener ends with the box.

        The host decides what happens with each connection. Raises `BoxConnectionError` and
        `BoxLost`.
        """

    async def export_files(self) -> bytes:
        """Return ``/home/user`` as an uncompressed tar archive, for `import_files` after a
        restart."""

    async def export_changes(self, since: str = "") -> FileChanges:
        """Return what changed under ``/home/user`` since the state ``since``, which is the
        `FileChanges.state` of an earlier result.

        If ``since`` is empty or is not the state of the last result, the result has all files. So a
        caller that could not store a result passes the same ``since`` again and gets all files.
        Raises `BoxFileError`, `BoxLost`.
        """

    async def note_files(self) -> str:
        """Return the name of the present state of the files, for the argument ``since`` of
        `export_changes`. Unlike `export_changes`, this call sends no files. It is for a caller that
        already has them."""

    async def import_files(self, archive: bytes) -> None:
        """Restore an archive of `export_files`: its regular files, its folders, and links that lead
        into ``/home/user`` or to the image's programs."""

    async def destroy(self) -> None:
        """End all processes of the box and delete all its files. May be called twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One result of a self-check: what was checked, whether it passed, what was seen, and what to
    do if it failed."""

    name: str
    ok: bool
    seen: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """The result of a self-check. A backend may be used only if all checks passed."""

    backend: str
    checks: tuple[Check, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Return True if every check passed, and there was at least one."""
        return bool(self.checks) and all(check.ok for check in self.checks)


class Backend(Protocol):
    """Makes boxes. Closing a backend destroys all its boxes."""

    name: str

    async def self_check(self) -> SelfCheck:
        """Start a box and check from inside how it is confined. A failed check raises no error."""

    async def images(self) -> tuple[str, ...]:
        """Return the possible values of `BoxSpec.template`, sorted. Some images are prepared at
        their first use.

        ``python`` is always one of them. A name with a version (``python:3.11``, ``node:22``) is
        listed only if exactly this version is available.
        """

    async def create(self, spec: BoxSpec) -> Box:
        """Make a new box. Raises `BackendUnavailable` (and its subclass `BoxesFull`), and
        `ImageUnavailable` for a template that this backend does not have."""

    @property
    def crowded(self) -> bool:
        """Return True if callers should end idle boxes to free memory (see the module
        `memory_limit`)."""

    @property
    def packages(self) -> SharedPackages | None:
        """The packages that boxes of the default image can import in addition to those of their
        image. None if the settings switch them off, if boxes cannot have them, or before the first
        box was made."""

    async def aclose(self) -> None:
        """Destroy every box of this backend."""
