"""Runs commands in boxes. A cell holds the result of a command, and the command runs again when an
input of the cell changes."""

import json
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio

from nekro_core.plugins.authoring.services import PluginBoxSource
from nekro_core.reactive.cells import AsyncCell, Load, after_input
from nekro_core.reactive.errors import CommandTimeout, OutputMissing, ReactiveError
from nekro_core.reactive.fetch import decode_body
from nekro_core.reactive.inputs import InputSnapshot, is_readable, resolve
from nekro_core.reactive.scope import current_scope
from nekro_core.reactive.values import Computed, Reactive
from nekro_core.sandbox.box import Box, BoxFileError

HOME: Final = "/home/user"
TIMEOUT_S: Final = 60.0
OUTPUT: Final = 1024 * 1024
"""Maximum number of bytes of stdout, and of stderr. In longer output a mark replaces the middle."""
MAX_FILE: Final = 16 * 1024 * 1024
"""Maximum number of bytes of a file that is read from a box."""
_OUTPUTS: Final = frozenset({"text", "json", "bytes"})
_END_S: Final = 10.0  # This is the longest wait for the end of a box, in seconds.

Step: TypeAlias = str | Sequence[str]
"""A text for the shell, or a program with its arguments, which the shell does not interpret."""
Command: TypeAlias = Reactive[Any]
"""One text for the shell, or a list of steps. None or an empty value means no command."""
Files: TypeAlias = Sequence[str] | Mapping[str, Any]
"""Either a list of the paths of files to read as text, or a dict whose keys are paths. A value
``"text"``, ``"json"`` or ``"bytes"`` reads the file in this form. Any other text, bytes or a cell
is the content to write."""

# The steps are arguments of this script, not parts of its text. One shell runs all steps, so a `cd`
# or an `export` has effect in the steps after it.
_SESSION: Final = 'for step do eval "$step"; code=$?; [ "$code" -eq 0 ] || exit "$code"; done'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a command ended. An ``exit_code`` that is not 0 is a result, not an error of the cell.

    Attributes:
        stdout: What the command wrote to stdout, as text, at most 1 MiB (`OUTPUT`).
        stderr: What the command wrote to stderr, as text, at most 1 MiB.
        exit_code: 0 for success.
        files: The contents of the requested files by path, each at most 16 MiB (`MAX_FILE`). If the
            command failed, files that do not exist are left out.
    """

    stdout: str
    stderr: str
    exit_code: int
    files: Mapping[str, Any] = field(default_factory=dict)
    truncated: bool = False
    """Whether the middle of ``stdout`` or ``stderr`` is left out."""

    @property
    def ok(self) -> bool:
        """Return True if the exit code is 0."""
        return self.exit_code == 0

    def __str__(self) -> str:
        return self.stdout + self.stderr


@dataclass(frozen=True, slots=True)
class FileBindings:
    """The files of a command. The files ``given`` are written before the command runs. The files
    ``wanted`` are read after it."""

    given: Mapping[str, Any]
    wanted: Mapping[str, str]

    @classmethod
    def of(cls, files: Files | None) -> "FileBindings":
        """Divide the files into files to write and files to read. A plain ``"text"``, ``"json"`` or
        ``"bytes"`` marks a file to read. A cell with such a text is the content of a file to
        write."""
        if files is None:
            return cls({}, {})
        if isinstance(files, str):
            raise ReactiveError(f"files: expected a list of paths or a dict, got {files!r}")
        if not isinstance(files, Mapping):
            return cls({}, dict.fromkeys(files, "text"))
        given: dict[str, Any] = {}
        wanted: dict[str, str] = {}
        for path, binding in files.items():
            if isinstance(binding, str) and binding in _OUTPUTS:
                wanted[path] = binding
            elif is_readable(binding) or isinstance(binding, str | bytes):
                given[path] = binding
            else:
                raise ReactiveError(
                    f"files: {path!r} is bound to {binding!r}: expected 'text', 'json' or "
                    "'bytes' for a file to read, or a text, bytes or a cell for a file to write"
                )
        return cls(given, wanted)


def exec_(
    command: Command,
    *,
    image: Reactive[str | None] = None,
    files: Files | None = None,
    timeout_s: float = TIMEOUT_S,
    after: Any = None,
) -> AsyncCell[ExecResult]:
    """Run a command in a fresh box. The box is destroyed when the command has ended.

    The cell is idle while there is no command or while the content of a file to write is None. The
    cell fails with `CommandTimeout` after ``timeout_s``. It fails with `OutputMissing` if the
    command ends with 0 and has not written a requested file. It fails with `ReactiveError` if the
    scope has no boxes, and with the box's own errors. At most 8 such boxes (`BOXES_AT_ONCE`) run in
    one scope at once; further commands wait.

    Args:
        command: A text for the shell, or a list of steps. One shell runs the steps and stops after
            the first step that does not end with 0. A step that is itself a list is a program with
            its arguments, which the shell does not interpret. Pass untrusted code and data as
            ``files`` or as such arguments; in a text for the shell they would run as commands.
        image: What the box is made from; None is the default image.
        files: Either a list of the paths of files to read as text, or a dict whose keys are paths.
            A value ``"text"``, ``"json"`` or ``"bytes"`` reads the file in this form. Any other
            text, bytes or a cell is the content to write. Relative paths begin at ``/home/user``.
        timeout_s: Seconds that the command may take; 60 unless given.
        after: A cell that must have a result first, or another reactive value that must not be
            None. The command runs again when the cell has a new result or the value changes.

    Returns:
        A cell with an `ExecResult`.
    """
    scope = current_scope()
    source = scope.resources.boxes
    bindings = FileBindings.of(files)

    async def run(given: InputSnapshot) -> ExecResult:
        async with scope.room, fresh_box(source, given.values.get("image", "")) as box:
            return await run_command(box, given.values, bindings, timeout_s)

    return command_cell(run, "exec_", command, bindings, {"image": image}, after)


def command_cell(
    run: Load[ExecResult],
    name: str,
    command: Command,
    bindings: FileBindings,
    more: Mapping[str, Any],
    after: Any,
) -> AsyncCell[ExecResult]:
    """Make the cell of a command. ``run`` runs the command in a box of its choice. ``more`` has
    further inputs of the cell, by name. For ``after`` see `exec_`."""
    inputs: dict[str, Any] = {"command": Computed(lambda: _resolved_command(command)), **more}
    present = [*(f"file:{path}" for path in bindings.given)]
    inputs |= {f"file:{path}": value for path, value in bindings.given.items()}
    if after is not None:
        inputs["after"] = after_input(after)
        present.append("after")
    return AsyncCell(run, inputs, name=name, needed=("command",), present=present)


@asynccontextmanager
async def fresh_box(source: PluginBoxSource | None, image: str) -> AsyncIterator[Box]:
    """Take a new box, and destroy it when the block ends."""
    if source is None:
        raise ReactiveError("this scope has no boxes: give scope() a context or a source of boxes")
    box = await source.take(image)
    try:
        yield box
    finally:
        with anyio.move_on_after(_END_S, shield=True):
            await box.destroy()


async def run_command(
    box: Box, values: Mapping[str, Any], bindings: FileBindings, timeout_s: float
) -> ExecResult:
    """Write the given files into the box, run the command, and read the wanted files. See
    `exec_`."""
    for path in bindings.given:
        await box.write_file(in_home(path), content_of(path, values[f"file:{path}"]))
    done = await box.execute(
        _words(values["command"]), timeout_s=timeout_s, output_bytes=OUTPUT, working_dir=HOME
    )
    if done.timed_out:
        raise CommandTimeout(
            f"the command took over {timeout_s:g} s and was stopped",
            stdout=done.stdout.text,
            stderr=done.stderr.text,
        )
    return ExecResult(
        stdout=done.stdout.text,
        stderr=done.stderr.text,
        exit_code=done.exit_code,
        files=await _collect_files(box, bindings, done.exit_code),
        truncated=done.stdout.truncated or done.stderr.truncated,
    )


def in_home(path: str) -> str:
    """Return the absolute path in a box. A relative path begins in the home folder."""
    return path if path.startswith("/") else f"{HOME}/{path}"


def _resolved_command(command: Any) -> Any:
    """Return the command with the present values of its inputs; None while a step or argument is
    missing."""
    known = resolve(command)
    if isinstance(known, list):
        for step in known:
            if step in (None, "", []) or (isinstance(step, list) and None in step):
                return None
    return known


def _words(command: Any) -> str | list[str]:
    match command:
        case str():
            return command
        case list():
            return ["/bin/sh", "-c", _SESSION, "sh", *map(_step, command)]
    raise ReactiveError(f"a command is a text or a list of steps, not {type(command).__name__}")


def _step(step: Any) -> str:
    if isinstance(step, str):
        return step
    if isinstance(step, list) and all(isinstance(word, str) for word in step):
        return shlex.join(step)
    raise ReactiveError(f"a step is a text or a list of words, not {step!r}")


def content_of(path: str, value: Any) -> bytes:
    """Return the bytes to write to a file: text as UTF-8, a dict or list as JSON. Raises
    `ReactiveError`."""
    match value:
        case str():
            return value.encode()
        case bytes():
            return value
        case dict() | list():
            return json.dumps(value, ensure_ascii=False).encode()
    raise ReactiveError(f"{path}: a file holds text, bytes or JSON, not {type(value).__name__}")


async def _collect_files(box: Box, bindings: FileBindings, exit_code: int) -> dict[str, Any]:
    taken: dict[str, Any] = {}
    for path, kind in bindings.wanted.items():
        try:
            data = await box.read_file(in_home(path), limit=MAX_FILE)
        except BoxFileError as error:
            if error.code != "not_found":
                raise
            if exit_code == 0:
                raise OutputMissing(f"the command ended with 0 and left no file {path}") from None
            continue
        taken[path] = await decode_body(data, kind, path)
    return taken
