"""What ties a plugin object to the bot that loads it.

A plugin's module makes its object while it is imported, and may read its configuration on the next
line. The loader says in a context variable, for the length of the import, who it is; so does
everyone who calls into a plugin, for the length of the call. Two bots in one process do not see
each other's, and a plugin's own tasks inherit it.
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

    ``changed`` is called when a plugin that is in force registers another tool, ``put`` with it and
    what it declares then. ``services`` is what functions without a context work with.
    ``make_context`` makes contexts from `AgentCtx`'s fields; None for `AgentCtx` itself.
    """

    data_dir: Path
    plugin_data: PluginDataStore
    changed: Callable[[], None]
    put: Callable[[Any, object], None] = _nothing
    services: Services | None = None
    make_context: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOwner:
    """One place where a plugin lies, for the life of a bot: reloads of it come and go.

    ``item`` is ``local/weather``. Nothing in it leads to a plugin object or its modules, since
    tasks of the bot that began in a plugin's call carry it for as long as they live.
    """

    item: str
    binding: PluginBinding
    tasks: OwnedTasks
    effects: UndoStack = field(default_factory=UndoStack)


_acting: ContextVar[PluginOwner | None] = ContextVar("nekro_plugin_owner", default=None)


@contextmanager
def acting(owner: PluginOwner | None) -> Iterator[None]:
    """In here a plugin's code runs; None: nobody's does."""
    token = _acting.set(owner)
    try:
        yield
    finally:
        _acting.reset(token)


@contextmanager
def loading(binding: PluginBinding, item: str = "local/by_hand") -> Iterator[None]:
    """Plugin objects made in here belong to this bot."""
    with acting(PluginOwner(item=item, binding=binding, tasks=OwnedTasks(item))):
        yield


_serving: list[PluginBinding] = []
"""The bots of this process, for code of a plugin that no bot has called: a matcher of NoneBot's, a
callback of a library. An entry is there while its `serving` is open."""


@contextmanager
def serving(binding: PluginBinding) -> Iterator[None]:
    """In here this bot runs."""
    _serving.append(binding)
    try:
        yield
    finally:
        _serving.remove(binding)


def effective_binding() -> PluginBinding | None:
    """The bot whose plugin's code runs right now, else the one that was started last."""
    return current_binding() or (_serving[-1] if _serving else None)


def current_owner() -> PluginOwner | None:
    """Whose code runs right now, if a plugin's does."""
    return _acting.get()


def current_binding() -> PluginBinding | None:
    """The bot whose plugin's code runs right now, if one's does."""
    owner = _acting.get()
    return owner.binding if owner else None
