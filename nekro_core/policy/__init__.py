"""How the bot behaves in an account and in a chat, as operators say while it runs."""

from nekro_core.policy.overrides import (
    ChatOverrides,
    ChatState,
    PersonOverrides,
    PolicyOverrides,
    Quota,
    without_thread,
)
from nekro_core.policy.overrides_file import InvalidOverride, PolicyFile

__all__ = [
    "ChatOverrides",
    "ChatState",
    "InvalidOverride",
    "PersonOverrides",
    "PolicyFile",
    "PolicyOverrides",
    "Quota",
    "without_thread",
]
