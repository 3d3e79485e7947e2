"""What ties a plugin object to the bot that loads it.

A plugin's module makes its object while it is imported, and may read its configuration on the next
line. The loader sets the binding for the length of the import, in a context variable: two bots in
one process do not see each other's, and nothing is left when the import is over.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from nekro_core.plugin.services import PluginDataKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One bot, as a plugin object needs it. ``changed`` is called when it registers something."""

    data_dir: Path
    plugin_data: PluginDataKeeper
    changed: Callable[[], None]


_loading: ContextVar[Binding | None] = ContextVar("nekro_plugin_binding", default=None)


@contextmanager
def loading(binding: Binding) -> Iterator[None]:
    """Plugin objects made in here belong to this bot."""
    token = _loading.set(binding)
    try:
        yield
    finally:
        _loading.reset(token)


def current_binding() -> Binding | None:
    """The bot that loads a plugin right now, if one does."""
    return _loading.get()
