"""Decides how the bot behaves in a chat, and how much people may use there."""

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
