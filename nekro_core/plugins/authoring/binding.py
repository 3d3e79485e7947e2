"""Ties a plugin object to the bot that loads it.

A plugin's module makes its object while it is imported, and may read its configuration on the next
line. So the loader names the bot in a context variable while it imports the module, and everything
that calls into a plugin does the same during the call. Two bots in one process do not see each
other's plugins. Tasks that a plugin starts inherit the variable.
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
    """One bot, as a plugin object needs it.

    ``changed`` is called when an enabled plugin registers another tool. ``put`` is called with the
    plugin and a value that it declares while it is enabled. ``services`` is what functions without
    a context work with. ``make_context`` makes contexts from `AgentCtx`'s fields; None stands for
    `AgentCtx` itself.
    """

    data_dir: Path
    plugin_data: PluginDataStore
    changed: Callable[[], None]
    put: Callable[[Any, object], None] = _nothing
    services: Services | None = None
    make_context: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOwner:
    """One place of a plugin's files, for the life of a bot. It outlives reloads of the plugin.

    ``item`` is ``local/weather``. Tasks of the bot that began in a plugin's call carry this object
    for as long as they live, so nothing in it leads to a plugin object or its modules.
    """

    item: str
    binding: PluginBinding
    tasks: OwnedTasks
    effects: UndoStack = field(default_factory=UndoStack)


_acting: ContextVar[PluginOwner | None] = ContextVar("nekro_plugin_owner", default=None)


@contextmanager
def acting(owner: PluginOwner | None) -> Iterator[None]:
    """Enter this around a plugin's code. None says that no plugin's code runs."""
    token = _acting.set(owner)
    try:
        yield
    finally:
        _acting.reset(token)


@contextmanager
def loading(binding: PluginBinding, item: str = "local/by_hand") -> Iterator[None]:
    """Make plugin objects in here belong to this bot."""
    with acting(PluginOwner(item=item, binding=binding, tasks=OwnedTasks(item))):
        yield


_serving: list[PluginBinding] = []
"""The bots of this process, for code of a plugin that no bot has called: a matcher of NoneBot's, a
callback of a library. An entry is there while its `serving` is open."""


@contextmanager
def serving(binding: PluginBinding) -> Iterator[None]:
    """Enter this while the bot runs."""
    _serving.append(binding)
    try:
        yield
    finally:
        _serving.remove(binding)


def effective_binding() -> PluginBinding | None:
    """Get the bot whose plugin's code runs now, else the bot that was started last."""
    return current_binding() or (_serving[-1] if _serving else None)


def current_owner() -> PluginOwner | None:
    """Get the owner of the plugin's code that runs now; None where none runs."""
    return _acting.get()


def current_binding() -> PluginBinding | None:
    """Get the bot whose plugin's code runs now; None where none runs."""
    owner = _acting.get()
    return owner.binding if owner else None
