"""Ties a plugin object to the bot that loads it.

A plugin's module creates the `NekroPlugin` object while it is imported, and may read the plugin's
configuration on the next line. So the loader sets a context variable that names the bot while it
imports the module. The bot's code sets the same variable around each call into a plugin. Tasks that
a plugin starts inherit the variable. So two bots in one process do not see each other's plugins.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nekro_core.plugins.authoring.effects import OwnedTasks, UndoStack
from nekro_core.plugins.authoring.services import PluginDataStore, Services


def _nothing(*_: Any) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginBinding:
    """The parts of one bot that a plugin object uses.

    ``changed`` is called when an enabled plugin registers another tool. ``put`` is called with the
    plugin and the value when an enabled plugin declares a value. Functions that get no context use
    ``services``. ``make_context`` makes contexts from the fields of `AgentCtx`. If it is None, the
    contexts are objects of `AgentCtx` itself.
    """

    data_dir: Path
    plugin_data: PluginDataStore
    changed: Callable[[], None]
    put: Callable[[Any, object], None] = _nothing
    services: Services | None = None
    make_context: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOwner:
    """A plugin, identified by the place of its files. This object exists as long as the bot, even
    if the plugin is reloaded.

    ``item`` is the place, for example ``local/weather``. Tasks that were started during a plugin's
    call hold this object until they end. So it must not refer to a plugin object or its modules;
    otherwise these could not be freed after a reload. ``keys`` has the keys of all plugin objects
    that were made for this place, the newest last.
    """

    item: str
    binding: PluginBinding
    tasks: OwnedTasks
    effects: UndoStack = field(default_factory=UndoStack)
    keys: list[str] = field(default_factory=list, compare=False)

    @property
    def key(self) -> str:
        """The key of the plugin; empty before its object is made."""
        return self.keys[-1] if self.keys else ""


_acting: ContextVar[PluginOwner | None] = ContextVar("nekro_plugin_owner", default=None)


@contextmanager
def acting(owner: PluginOwner | None) -> Iterator[None]:
    """Mark the code in the block as code of this plugin; with None, as code that belongs to no
    plugin."""
    token = _acting.set(owner)
    try:
        yield
    finally:
        _acting.reset(token)


@contextmanager
def loading(binding: PluginBinding, item: str = "local/by_hand") -> Iterator[None]:
    """Make plugin objects that are created in the block belong to this bot."""
    with acting(PluginOwner(item=item, binding=binding, tasks=OwnedTasks(item))):
        yield


_serving: list[PluginBinding] = []
"""The running bots of this process. `effective_binding` uses the list when a plugin's code runs
without a call by a bot, for example in a NoneBot matcher or a library's callback. `serving` adds an
entry and removes it."""


@contextmanager
def serving(binding: PluginBinding) -> Iterator[None]:
    """Register a bot as running while the block is open."""
    _serving.append(binding)
    try:
        yield
    finally:
        _serving.remove(binding)


def effective_binding() -> PluginBinding | None:
    """Get the bot whose plugin's code runs now. If no plugin's code runs, get the running bot that
    was started last; None if no bot runs."""
    return current_binding() or (_serving[-1] if _serving else None)


def current_owner() -> PluginOwner | None:
    """Get the owner of the plugin whose code runs now; None if no plugin's code runs."""
    return _acting.get()


def current_binding() -> PluginBinding | None:
    """Get the bot whose plugin's code runs now; None if no plugin's code runs."""
    owner = _acting.get()
    return owner.binding if owner else None
