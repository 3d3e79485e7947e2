"""Makes the objects that message hooks of nekro-agent get, and reads what a hook has changed.

The class of these objects is imported for the first such hook. It is a model of Pydantic, and takes
10 ms. A plugin that names the class in a hook has imported it already.
"""

from typing import Any

from nekro_core.chat import ChatMessage, Segments


def legacy_form(message: ChatMessage, adapter_key: str) -> Any:
    """Make the object for a message. See `LegacySupport.message_form`."""
    from nekro_core.compat.nekro_agent.legacy_message import LegacyChatMessage  # noqa: PLC0415

    return LegacyChatMessage.of(message, adapter_key)


def legacy_changes(message: ChatMessage, given: Any) -> Segments | None:
    """Read the changes of a message. See `LegacySupport.message_changes`."""
    from nekro_core.compat.nekro_agent.changed_message import changed_segments  # noqa: PLC0415

    return changed_segments(message, given)
