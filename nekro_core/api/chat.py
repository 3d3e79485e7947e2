"""The values of the chat room: keys, segments, messages, deliveries and receipts."""

from nekro_core.chat import *  # noqa: F403 - the room's own guarded __all__ is what is meant
