"""How plugins are listed."""

from dataclasses import dataclass
from enum import StrEnum

from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem
from nekro_core.tools.tool import Tool


class UnknownPlugin(NekroError, LookupError):
    """No plugin has this key or item; the message lists those that there are."""


class PluginState(StrEnum):
    """Where a plugin stands."""

    LOADED = "loaded"
    DISABLED = "disabled"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """One line of the list. ``item`` is where it was found, ``builtin/chat`` or ``local/weather``;
    ``key`` and the rest are known once it was loaded. ``addresses`` are where it is reached over
    HTTP, for the operator alone: a webhook's holds its secret."""

    item: str
    state: PluginState
    key: str = ""
    name: str = ""
    version: str = ""
    author: str = ""
    description: str = ""
    tools: tuple[Tool, ...] = ()
    addresses: tuple[str, ...] = ()
    problems: tuple[PluginProblem, ...] = ()
