"""Makes cells that read or write files of long-lived boxes."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from nekro_core.reactive.cells import AsyncCell, Load, T, after_input
from nekro_core.reactive.errors import ReactiveError
from nekro_core.reactive.execute import MAX_FILE, content_of, in_home
from nekro_core.reactive.fetch import Mode, decode_body
from nekro_core.reactive.inputs import InputSnapshot
from nekro_core.reactive.scope import current_scope
from nekro_core.reactive.values import Reactive
from nekro_core.sandbox.box import Box, BoxFileError
from nekro_core.sandbox.named import OwnerBoxes


@runtime_checkable
class BoxHandle(Protocol):
    """A long-lived box (`SandboxHandle`)."""

    @property
    def identity(self) -> Any:
        """An input of all cells of this box. It changes when the box is replaced."""

    def use(self, identity: Any) -> AbstractAsyncContextManager[Box]:
        """Use the running box. ``identity`` is the value that the cell read. Raises
        `SandboxError`."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a file.

    Attributes:
        size: The size of the file in bytes.
        ok: Always True. With this attribute, the result can be used like an `ExecResult`.
    """

    size: int
    ok: bool = True


def read_sandbox_file(
    sandbox: BoxHandle | Reactive[str | None],
    path: Reactive[str | None],
    *,
    mode: Reactive[Mode] = "text",
    after: Any = None,
) -> AsyncCell[Any]:
    """Read a file of a long-lived box. The cell is idle while ``sandbox`` or ``path`` is missing.

    The file is read again when an argument changes or ``after`` has a new value. A write to the
    file does not make it read again by itself. For that, pass the cell that writes the file as
    ``after``. The cell fails with `BoxFileError`, also for a file over 16 MiB (`MAX_FILE`), and
    with `Unreadable` if the content does not fit ``mode``. Raises `ReactiveError` for a name in a
    scope that has no named boxes.

    Args:
        sandbox: A `SandboxHandle`, or the name of a box of the chat.
        path: The file; relative paths begin at ``/home/user``.
        mode: ``"text"`` (UTF-8), ``"json"`` or ``"bytes"``.
        after: A cell that must have a result first, or any other value.

    Returns:
        A cell with the content: str, parsed JSON or bytes.
    """
    place = _place(sandbox)

    async def read(given: InputSnapshot) -> Any:
        where = _path(given)
        async with place.use(given.values["sandbox"]) as box:
            data = await box.read_file(where, limit=MAX_FILE)
        return await decode_body(data, given.values["mode"], where)

    return _cell(read, "read_sandbox_file", place, {"path": path, "mode": mode}, after)


def write_sandbox_file(
    sandbox: BoxHandle | Reactive[str | None],
    path: Reactive[str | None],
    content: Reactive[str | bytes | None],
    *,
    after: Any = None,
) -> AsyncCell[Written]:
    """Write a file of a long-lived box whenever an argument changes. The cell is idle while
    ``sandbox``, ``path`` or ``content`` is missing.

    The cell fails with `BoxFileError` if the file cannot be written. Raises `ReactiveError` for a
    name in a scope that has no named boxes.

    Args:
        sandbox: A `SandboxHandle`, or the name of a box of the chat.
        path: The file; relative paths begin at ``/home/user``.
        content: Text (written as UTF-8), bytes, or a list or dict (written as JSON).
        after: A cell that must have a result first, or any other value.

    Returns:
        A cell with `Written`.
    """
    place = _place(sandbox)

    async def write(given: InputSnapshot) -> Written:
        where = _path(given)
        data = content_of(where, given.values["content"])
        async with place.use(given.values["sandbox"]) as box:
            return Written(await box.write_file(where, data))

    inputs = {"path": path, "content": content}
    return _cell(write, "write_sandbox_file", place, inputs, after, "content")


def _cell(
    load: Load[T], name: str, place: BoxHandle, inputs: dict[str, Any], after: Any, *present: str
) -> AsyncCell[T]:
    inputs |= {"sandbox": place.identity}
    if after is not None:
        inputs["after"] = after_input(after)
        present += ("after",)
    return AsyncCell(load, inputs, name=name, needed=("sandbox", "path"), present=present)


def _path(given: InputSnapshot) -> str:
    path = given.values["path"]
    if not isinstance(path, str):
        raise ReactiveError(f"path: expected a text, got {type(path).__name__}")
    return in_home(path)


def _place(sandbox: Any) -> BoxHandle:
    if isinstance(sandbox, BoxHandle):
        return sandbox
    pool = current_scope().resources.pool
    if pool is None:
        raise ReactiveError("this scope keeps no boxes: give scope() a context or a pool")
    return _ByName(sandbox, pool.boxes)


@dataclass(frozen=True, slots=True)
class _ByName:
    """Finds a named box of the chat by its name. The scope does not own this box, so the scope's
    end does not destroy it."""

    identity: Any
    boxes: OwnerBoxes

    @asynccontextmanager
    async def use(self, identity: Any) -> AsyncGenerator[Box]:
        if not isinstance(identity, str) or await self.boxes.find(identity) is None:
            there = ", ".join(box.name for box in await self.boxes.list()) or "none"
            raise BoxFileError("not_found", f"there is no sandbox {identity!r}; there is {there}")
        async with self.boxes.use(identity) as used:
            yield used.box
