"""What plugins may call through ``self.ctx``, by the names on MaiBot's wire."""

from collections.abc import Mapping
from types import MappingProxyType

from nekro_core.compat.maibot.capabilities import (
    chats,
    database,
    emoji,
    llm,
    maisaka,
    plugins,
    render,
    send,
)
from nekro_core.compat.maibot.capability import CapabilityEntry

CAPABILITIES: Mapping[str, CapabilityEntry] = MappingProxyType(
    {
        **send.TABLE,
        **llm.TABLE,
        **database.TABLE,
        **chats.TABLE,
        **emoji.TABLE,
        **maisaka.TABLE,
        **render.TABLE,
        **plugins.TABLE,
    }
)
"""Every capability with its state."""
