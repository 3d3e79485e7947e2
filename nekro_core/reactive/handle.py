"""`SandboxHandle`: a long-lived box that cells depend on."""

import math
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, Literal

import anyio
from loguru import logger
from reaktiv import Effect, Signal, untracked

from nekro_core.plugins.authoring.services import PluginBoxSource
from nekro_core.reactive.cells import AsyncCell
from nekro_core.reactive.errors import ReactiveError
from nekro_core.reactive.execute import (
    TIMEOUT_S,
    Command,
    ExecResult,
    FileBindings,
    Files,
    command_cell,
    run_command,
)
from nekro_core.reactive.fetch import Mode
from nekro_core.reactive.files import Written, read_sandbox_file, write_sandbox_file
from nekro_core.reactive.inputs import InputSnapshot, resolve
from nekro_core.reactive.model_tools import ModelTool
from nekro_core.reactive.scope import Resources, current_scope
from nekro_core.reactive.values import Computed, Reactive, refuse_in_computed
from nekro_core.sandbox.box import Box, SandboxError
from nekro_core.sandbox.named import (
    BoxRecord,
    ImageMismatch,
    NamedBoxes,
    NamedBoxLimits,
    OwnerBoxes,
)
from nekro_core.sandbox.named.storage import SavedState
from nekro_core.sandbox.tools import SandboxPool, handle_tool_call, openai_tools

SLEEP_AFTER_S: Final = 600.0
"""A named box that was not used for this many seconds sleeps: its files stay, its processes end."""

TOOLS: Final = ("shell", "read_file", "write_file", "glob", "browse")
"""The names of the tools that `SandboxHandle.tools` offers to a model."""

_EPHEMERAL: Final = NamedBoxLimits(default_image="", sleep_after_s=math.inf)

Status = Literal["running", "sleeping", "destroyed"]


class SandboxHandle:
    """A long-lived box that cells depend on. `sandbox` makes this object; the first use creates the
    box.

    When the image changes, the old box and its files are destroyed, and the cells of the handle run
    again in a new box. Making a handle raises `NoScope` outside of a scope and `NotHere` inside of
    a `computed`. It raises `ReactiveError` if the scope's `Resources` lack what the handle needs:
    ``pool`` for a handle with a name, ``boxes`` for a handle without a name.

    Args:
        image: What the box is made from; None is the default image. It may be a reactive value.
        name: The name of a box of the chat. None makes a box of this scope, which is destroyed when
            the scope ends.
    """

    def __init__(self, image: Reactive[str | None], name: str | None) -> None:
        refuse_in_computed("a sandbox")
        self._scope = current_scope()
        self._named = name is not None
        self.name = name or "default"
        self._pool = _pool(self._scope.resources, named=self._named)
        self._boxes = self._pool.boxes
        self._image = Computed(lambda: resolve(image) or "")
        self._changes = Signal(0)
        self._seen: str | None = None
        self._made_of: list[Any] | None = None
        self._closed = False
        self._changing = anyio.Lock()
        self.identity = Computed(
            lambda: [id(self), self.name, self._image.get(), self._changes.get()]
        )
        """All cells of this box depend on this value: when it changes, they run again. It has this
        handle's id, the box's name, its image, and how often the image has changed."""
        self._scope.own(self)
        self._effect = Effect(self._react)

    @property
    def status(self) -> Status:
        """The status now; ``sleeping`` before the box is made. The status is not reactive: a
        `computed` that reads it does not run again when it changes."""
        if self._closed and not self._named:
            return "destroyed"
        running = any(box.name == self.name and box.running for box in self._boxes.known)
        return "running" if running else "sleeping"

    def exec(
        self,
        command: Command,
        *,
        files: Files | None = None,
        timeout_s: float = TIMEOUT_S,
        after: Any = None,
    ) -> AsyncCell[ExecResult]:
        """Run a command in this box. This works like `exec_`, but the box is not destroyed: files
        and background processes stay.

        Args:
            command: The same as for `exec_`.
            files: The same as for `exec_`.
            timeout_s: Seconds that the command may take; 60 unless given.
            after: The same as for `exec_`.

        Returns:
            A cell with an `ExecResult`.
        """
        bindings = FileBindings.of(files)

        async def run(given: InputSnapshot) -> ExecResult:
            async with self.use() as box:
                return await run_command(box, given.values, bindings, timeout_s)

        return command_cell(run, "exec", command, bindings, {"sandbox": self.identity}, after)

    def read_file(
        self, path: Reactive[str | None], *, mode: Reactive[Mode] = "text", after: Any = None
    ) -> AsyncCell[Any]:
        """Read a file of this box. See `read_sandbox_file`.

        Args:
            path: The file; relative paths begin at ``/home/user``. The cell is idle while it is
                None.
            mode: ``"text"`` (UTF-8), ``"json"`` or ``"bytes"``.
            after: A cell or value. When it changes, the file is read again.

        Returns:
            A cell with the content as ``mode`` says, of at most 16 MiB.
        """
        return read_sandbox_file(self, path, mode=mode, after=after)

    def write_file(
        self,
        path: Reactive[str | None],
        content: Reactive[str | bytes | None],
        *,
        after: Any = None,
    ) -> AsyncCell[Written]:
        """Write a file of this box. See `write_sandbox_file`.

        Args:
            path: The file; relative paths begin at ``/home/user``. The cell is idle while it is
                None.
            content: Text (written as UTF-8), bytes, or a list or dict (written as JSON). The cell
                is idle while it is None.
            after: A cell or value. When it changes, the file is written again.

        Returns:
            A cell with `Written`.
        """
        return write_sandbox_file(self, path, content, after=after)

    readFile = read_file  # noqa: N815 - the name in the design document
    writeFile = write_file  # noqa: N815 - as above

    def tools(self) -> Mapping[str, ModelTool]:
        """Offer this box to a model: ``shell``, ``read_file``, ``write_file``, ``glob`` and
        ``browse``.

        Returns:
            The tools by name, for `generate_text`. They work only in this box.
        """
        offered = (tool["function"] for tool in openai_tools(TOOLS))
        return {
            tool["name"]: ModelTool(
                name=tool["name"],
                description=tool["description"],
                parameters=_without_sandbox(tool["parameters"]),
                call=partial(self._call, tool["name"]),
                about=self.identity,
            )
            for tool in offered
        }

    @asynccontextmanager
    async def use(self, identity: Any = None) -> AsyncGenerator[Box]:
        """Use the running box. A box is made first if there is none, or if the image has changed.
        Raises `SandboxError` if making it fails, and `ReactiveError` if the scope is over.

        Args:
            identity: Ignored. `BoxHandle.use` requires this parameter.

        Returns:
            A context manager that gives the box. While it is open, the box does not sleep.
        """
        # The identity need not be compared. If it is old, the cell that uses it is already being
        # cancelled.
        del identity
        async with AsyncExitStack() as stack:
            async with self._changing:
                await self._make()
                used = await stack.enter_async_context(self._boxes.use(self.name))
            yield used.box

    def close(self) -> None:
        """Release the box, because the scope ends. A box without a name is destroyed."""
        if self._closed:
            return
        self._closed = True
        self._effect.dispose()
        self._scope.disown(self)
        if not self._named:
            self._scope.finish(self._destroy, f"end of {self.name}")

    # ---- inside -------------------------------------------------------------------------------

    def _react(self) -> None:
        image = self._image.get()
        with untracked():
            self._scope.here(partial(self._image_is, image))

    def _image_is(self, image: str) -> None:
        """Store a new image. The old box is destroyed at once, because no cell may show its content
        any more."""
        if self._closed or image == self._seen:
            return
        if self._seen is not None:
            self._changes.update(lambda count: count + 1)
            self._scope.start(self._destroy_old, f"end of the old {self.name}")
        self._seen = image

    async def _destroy_old(self) -> None:
        async with self._changing:
            if self._made_of not in (None, self.identity.get()):
                await self._destroy()

    async def _make(self) -> None:
        """Make a box from the present image. The caller must hold the lock ``_changing``."""
        if self._closed:
            raise ReactiveError(f"{self.name} has ended with its scope")
        image, identity = self._image.get(), self.identity.get()
        if self._made_of not in (None, identity):
            await self._destroy()
        # The identity is stored before the box is made, because a call that is cancelled may leave
        # a box, which must be destroyed later.
        self._made_of = identity
        try:
            if image:
                await self._boxes.create(self.name, image=image, sleep_after_s=SLEEP_AFTER_S)
        except ImageMismatch:
            self._made_of = None  # This handle did not make the box, so it must not destroy it.
            raise

    async def _destroy(self) -> None:
        try:
            # This call is shielded from cancellation. If the destruction could stop halfway, the
            # rest of the old box would be used as the new box.
            with anyio.CancelScope(shield=True):
                await self._boxes.destroy(self.name)
        except (OSError, SandboxError) as error:
            logger.error("{}: a box could not be destroyed: {}", self.name, error)
        self._made_of = None

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        if "sandbox" in arguments:
            raise ReactiveError(f"{tool} has no input 'sandbox': it always uses this sandbox")
        async with self.use():
            answer = await handle_tool_call(self._pool, tool, {**arguments, "sandbox": self.name})
        return answer.content


def sandbox(image: Reactive[str | None] = None, *, name: str | None = None) -> SandboxHandle:
    """Make a box that the commands and files of several cells share.

    Args:
        image: What the box is made from; None is the default image. It may be a reactive value:
            when it changes, a new box is made.
        name: Without a name the box belongs to this scope: it never sleeps and is destroyed with
            the scope. With a name it is a box of the chat, and the model uses the same name for it.
            Such a box outlives the scope and sleeps after 600 s without a use (`SLEEP_AFTER_S`).

    Returns:
        A handle. Its first use makes the box.
    """
    return SandboxHandle(image, name)


def _pool(resources: Resources, *, named: bool) -> SandboxPool:
    pool = resources.pool
    if named:
        if pool is None:
            raise ReactiveError("this scope keeps no boxes: give scope() a context or a pool")
        return pool
    if resources.boxes is None:
        raise ReactiveError("this scope has no boxes: give scope() a context or a source of boxes")
    boxes = _ephemeral_boxes(resources.boxes)
    return (
        SandboxPool(boxes, preview=pool.preview, limits=pool.limits) if pool else SandboxPool(boxes)
    )


class _NoStorage:
    """A storage for the boxes of a scope. These boxes never outlive the process, so this storage
    writes nothing to disk."""

    async def records(self, owner: str) -> Mapping[str, BoxRecord | None]:
        del owner
        return {}

    async def stored_bytes(self, owner: str) -> int:
        del owner
        return 0

    async def remember(self, owner: str, name: str, record: BoxRecord) -> None:
        pass

    async def save(self, owner: str, name: str, box: Box, before: SavedState) -> SavedState:
        del owner, name, box
        return before

    async def restore(self, owner: str, name: str, box: Box) -> SavedState:
        del owner, name, box
        return SavedState()

    saves_each_run = False

    def version(self, owner: str) -> int:  # noqa: ARG002 - of the protocol `BoxStorage`
        return 0

    async def count(self) -> int:
        return 0

    async def forget(self, owner: str, name: str) -> None:
        pass

    async def forget_owner(self, owner: str) -> None:
        pass

    async def let_go(self, owner: str) -> None:
        pass


def _ephemeral_boxes(source: PluginBoxSource) -> OwnerBoxes:
    """Return a maker of boxes that never sleep and are not stored. The caller destroys the
    boxes."""
    return NamedBoxes(source, _NoStorage(), _EPHEMERAL, clock=time.monotonic).of("scope")


def _without_sandbox(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = {name: each for name, each in schema["properties"].items() if name != "sandbox"}
    return {**schema, "properties": properties}
