"""A scope owns the cells and boxes that are made in it. When the scope ends, its cells and boxes
end.

``async with scope(...):`` has a task group; leaving the block cancels its tasks and waits for their
end. ``with scope():`` inside of another scope has no task group and uses the task group of the
outer scope. Leaving this block cancels the cells of the inner scope without waiting; tasks of the
outer scope then destroy its boxes.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from nekro_core.llm.model import ChatModel
from nekro_core.plugins.authoring.chat_network import fetch_scope
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import PluginBoxSource, UrlFetcher
from nekro_core.reactive.errors import NoScope
from nekro_core.reactive.follow import LoopThread
from nekro_core.sandbox.tools import SandboxPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What cells use. If a resource is None, a cell that needs it fails with `ReactiveError`.

    Attributes:
        boxes: Makes a box for each command of `exec_`, and for each `sandbox` without a name.
        pool: The chat's named boxes.
        model: The model that `generate_text` asks.
        fetcher: Fetches addresses for `fetch_data`.
    """

    boxes: PluginBoxSource | None = None
    pool: SandboxPool | None = None
    model: ChatModel | None = None
    fetcher: UrlFetcher | None = None


BOXES_AT_ONCE: Final = 8
"""Maximum number of commands of one scope that have a box at the same time. Other commands wait."""


class Closeable(Protocol):
    """Something that a scope closes when it ends."""

    def close(self) -> None:
        """Stop at once, without waiting. It may be called twice."""


_current: ContextVar["Scope | None"] = ContextVar("nekro_reactive_scope", default=None)


class Scope:
    """Owns cells and boxes. `scope` makes it; it can be entered once.

    Args:
        resources: What the scope's cells use; None takes the resources of the outer scope.
    """

    def __init__(self, resources: Resources | None) -> None:
        self._given = resources
        self._resources = resources or Resources()
        self._parent: Scope | None = None
        self.room = anyio.Semaphore(BOXES_AT_ONCE)
        """Limits how many commands have a box at once. Inner scopes share it."""
        self._tasks: TaskGroup | None = None
        self._token: Token[Scope | None] | None = None
        self._owned: dict[Closeable, None] = {}
        self._busy = 0
        self._changed = anyio.Event()
        self._over = False
        self._loop_thread: LoopThread | None = None

    @property
    def resources(self) -> Resources:
        """The resources that were given to this scope, or the outer scope's resources.

        Raises:
            NoScope: The scope was not entered yet, or it is over.
        """
        if self._over or self._tasks is None:
            raise NoScope("this scope is over: make cells in an open scope")
        return self._resources

    @property
    def busy(self) -> bool:
        """Return True if a task runs in this scope or in an inner scope."""
        return self._busy > 0

    async def settled(self) -> None:
        """Wait until no task runs in the scope or in an inner scope. Tasks that start during the
        wait are waited for too. A cell's function must not call this: it would wait for itself."""
        while self.busy:
            await self._changed.wait()

    def __enter__(self) -> Self:
        around = _current.get()
        if around is None:
            raise NoScope("`with scope():` must be inside of an `async with scope():`")
        self._refuse_second_entry()
        self._enter(around, around.tasks)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    async def __aenter__(self) -> Self:
        self._refuse_second_entry()
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        self._enter(_current.get(), tasks)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        tasks = self._tasks
        self._leave()
        tasks.cancel_scope.cancel()
        # An error of the ``with`` block is not passed to the task group, because the task group
        # would wrap it in an exception group.
        await tasks.__aexit__(None, None, None)

    # ---- for its cells and boxes --------------------------------------------------------------

    @property
    def tasks(self) -> TaskGroup:
        """The task group in which the scope's tasks run.

        Raises:
            NoScope: The scope was not entered yet, or it is over.
        """
        if self._over or self._tasks is None:
            raise NoScope("this scope is over: make cells in an open scope")
        return self._tasks

    def own(self, owned: Closeable) -> None:
        """Register a cell, box or inner scope. This scope closes it when the scope ends.

        Args:
            owned: An object whose ``close()`` returns without waiting.

        Raises:
            NoScope: The scope is over.
        """
        if self._over:
            raise NoScope("this scope is over: make cells in an open scope")
        self._owned[owned] = None

    def disown(self, owned: Closeable) -> None:
        """Remove an object that has ended by itself, so that it is not closed again.

        Args:
            owned: The object that was given to `own`. Any other object is ignored.
        """
        self._owned.pop(owned, None)

    def start(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a task. The scope is busy until the task has ended. Raises `NoScope` if the scope is
        not open.

        Args:
            work: The function to run. It is cancelled when the scope ends.
            name: The name of the task.
        """
        tasks = self.tasks

        async def run() -> None:
            # The task was started by code that set a value, and that code may run in another scope.
            # So the current scope is set here.
            _current.set(self)
            try:
                await work()
            finally:
                self.count(-1)

        self.count(1)
        tasks.start_soon(run, name=name)

    def finish(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a task to its end even if the scope ends, for example to destroy a box.

        Args:
            work: The function to run. It is shielded from cancellation, so it must end by itself.
            name: The name of the task.
        """
        assert self._tasks is not None

        async def run() -> None:
            with anyio.CancelScope(shield=True):
                await work()

        self._tasks.start_soon(run, name=name)

    def count(self, step: int) -> None:
        """Change the number of tasks that run in this scope and in its outer scopes.

        Args:
            step: 1 for a task that begins, -1 for one that has ended.
        """
        self._busy += step
        self._tell()
        if self._parent is not None:
            self._parent.count(step)

    def here(self, function: Callable[[], None]) -> None:
        """Call a function in the event loop and context of the scope. Does nothing before the scope
        is entered. See `LoopThread.call`.

        Args:
            function: Takes no arguments.
        """
        if self._loop_thread is not None:
            self._loop_thread.call(function)

    def close(self) -> None:
        """Close everything that the scope owns, without waiting."""
        self._over = True
        while self._owned:
            owned, _ = self._owned.popitem()
            owned.close()
        self._tell()

    # ---- inside -------------------------------------------------------------------------------

    def _refuse_second_entry(self) -> None:
        if self._tasks is not None:
            raise NoScope("a scope can be entered once: make another with scope()")

    def _enter(self, around: "Scope | None", tasks: TaskGroup) -> None:
        if around is not None:
            around.own(self)
            self._parent = around
            self.room = around.room
            self._resources = self._given or around.resources
        self._tasks = tasks
        self._loop_thread = LoopThread()
        self._token = _current.set(self)

    def _leave(self) -> None:
        assert self._token is not None
        _current.reset(self._token)
        self.close()
        if self._parent is not None:
            self._parent.disown(self)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@dataclass(frozen=True, slots=True)
class _CallFetcher:
    """A fetcher that applies the network rules of the tool call that made the cells."""

    ctx: AgentCtx
    fetcher: UrlFetcher

    async def fetch(self, url: str) -> bytes:
        """See `UrlFetcher`."""
        with fetch_scope(self.ctx.asked_in or self.ctx.chat, self.ctx.files):
            return await self.fetcher.fetch(url)


def scope(source: AgentCtx | Resources | None = None) -> Scope:
    """Make a scope, which owns cells. Enter it with ``async with`` or, inside of another scope,
    with ``with``.

    Args:
        source: The context of a tool's handler, or `Resources`. With a context, cells use the bot's
            boxes and model, and obey the network rules of the tool call. None takes the resources
            of the outer scope.

    Returns:
        The scope, to be entered once; entering it again raises `NoScope`.
    """
    if isinstance(source, AgentCtx):
        services = source.services
        return Scope(
            Resources(
                boxes=services.boxes,
                pool=services.pool_of(source.chat) if services.pool_of else None,
                model=services.model,
                fetcher=_CallFetcher(source, services.fetcher) if services.fetcher else None,
            )
        )
    return Scope(source)


def current_scope() -> Scope:
    """Return the scope that would own a cell if the caller made one now. Raises `NoScope` outside
    of a scope."""
    current = _current.get()
    if current is None:
        raise NoScope("cells that run something live in a scope: `async with scope(_ctx):`")
    return current


async def settled() -> None:
    """Wait until no task runs in the current scope. Raises `NoScope` outside of a scope."""
    await current_scope().settled()


async def idle() -> None:
    """Let other tasks run once. This is not needed before a computed value is read, because such a
    value is always up to date. To wait for running cells, use `settled`."""
    await anyio.lowlevel.checkpoint()
