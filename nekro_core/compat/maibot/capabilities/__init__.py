"""The capabilities: the calls that plugins can make through ``self.ctx``, by their names in
MaiBot's protocol."""

from collections.abc import Mapping
from types import MappingProxyType

from nekro_core.compat.maibot.capabilities import (
    apis,
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
        **apis.TABLE,
        **plugins.TABLE,
    }
)
"""All capabilities by name, each with its function, and whether it works here."""
