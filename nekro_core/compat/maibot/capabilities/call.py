"""What a plugin asks of the bot, and the forms in which it is answered."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.system.errors import NekroError

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost


class CapabilityError(NekroError):
    """What was asked cannot be done. The plugin gets ``{"success": False, "error": ...}``, which is
    what the SDK's capabilities make of a failure; the message is for its author."""


class CapabilityDenied(NekroError, RuntimeError):
    """The plugin's manifest does not say that it uses this capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityCall:
    """One call of a capability: by whom, with what."""

    host: "MaiBotHost"
    live: MaiBotPlugin
    name: str
    args: Mapping[str, Any]

    def text(self, *names: str, needed: bool = False) -> str:
        """The first of these arguments that is there, as a text. Raises `CapabilityError`."""
        for name in names:
            value = self.args.get(name)
            if value is not None and str(value).strip():
                return str(value)
        if needed:
            raise CapabilityError(f"{self.name}: {names[0]} is missing")
        return ""

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number of at least 1 and at most ``most``."""
        try:
            value = int(self.args.get(name) or default)
        except (TypeError, ValueError):
            value = default
        return max(1, min(value, most))

    def chat(self, *names: str) -> ChatKey:
        """The chat that is meant. Raises `CapabilityError`."""
        text = self.text(*(names or ("stream_id",)), needed=True).strip()
        try:
            return ChatKey.parse(text)
        except ChatKeyError as error:
            raise CapabilityError(f"{self.name}: {error}") from None


Answer = dict[str, Any]
Capability = Callable[[CapabilityCall], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class CapabilityEntry:
    """A capability, and how far it goes: ``works``, ``partly: ...`` or ``not: why``. One that is
    ``free`` need not stand in a manifest: it concerns the plugin alone."""

    answer: Capability
    state: str = "works"
    free: bool = False


def success(**values: Any) -> Answer:
    """It worked."""
    return {"success": True, **values}
