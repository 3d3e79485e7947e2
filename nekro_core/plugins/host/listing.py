"""The values that describe plugins in lists."""

from dataclasses import dataclass
from enum import StrEnum

from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem
from nekro_core.tools.tool import Tool


class PluginSuspended(NekroError):
    """The plugin cannot be loaded, because its files are being replaced."""


class UnknownPlugin(NekroError, LookupError):
    """No plugin has this key or item. The message lists the known ones."""


class PluginState(StrEnum):
    """Whether a plugin is loaded, disabled or broken."""

    LOADED = "loaded"
    DISABLED = "disabled"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """One plugin in the list.

    ``item`` says where the plugin was found: ``builtin/chat`` or ``local/weather``. ``key`` and the
    fields up to ``addresses`` are empty until the plugin has been loaded once. ``addresses`` are
    its HTTP addresses. Only the operator may see them, because a webhook's address contains its
    secret.
    """

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
