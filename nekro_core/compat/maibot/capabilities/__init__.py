"""What plugins may ask of the bot through ``self.ctx``, by the names on MaiBot's wire."""

from collections.abc import Mapping
from types import MappingProxyType

from nekro_core.compat.maibot.capabilities import (
    actions,
    chats,
    database,
    emoji,
    llm,
    maisaka,
    plugins,
    render,
    send,
)
from nekro_core.compat.maibot.capabilities.call import CapabilityEntry

CAPABILITIES: Mapping[str, CapabilityEntry] = MappingProxyType(
    {
        **send.TABLE,
        "send.command": CapabilityEntry(
            actions.command,
            "partly: a poke, bans and the like on OneBot; other platforms have none",
        ),
        **llm.TABLE,
        **database.TABLE,
        **chats.TABLE,
        **emoji.TABLE,
        **maisaka.TABLE,
        **render.TABLE,
        **plugins.TABLE,
    }
)
"""All of them, with how far each goes."""
