"""What plugins may ask of the bot through ``self.ctx``, by the names on MaiBot's wire."""

from collections.abc import Mapping
from types import MappingProxyType

from nekro_core.compat.maibot.capabilities import (
    actions,
    chats,
    emoji,
    keeping,
    mood,
    others,
    rendering,
    sending,
    thinking,
)
from nekro_core.compat.maibot.capabilities.call import Offered

CAPABILITIES: Mapping[str, Offered] = MappingProxyType(
    {
        **sending.TABLE,
        "send.command": Offered(
            actions.command,
            "partly: a poke, bans and the like on OneBot; other platforms have none",
        ),
        **thinking.TABLE,
        **keeping.TABLE,
        **chats.TABLE,
        **emoji.TABLE,
        **mood.TABLE,
        **rendering.TABLE,
        **others.TABLE,
    }
)
"""All of them, with how far each goes."""
