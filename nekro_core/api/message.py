"""Re-exports the functions that send messages."""

from nekro_core.compat.nekro_agent.message_functions import (
    LegacyChatMessage as ChatMessage,
)
from nekro_core.compat.nekro_agent.message_functions import (
    download_from_url,
    push_system,
    send_file,
    send_image,
    send_text,
)

__all__ = [
    "ChatMessage",
    "download_from_url",
    "push_system",
    "send_file",
    "send_image",
    "send_text",
]
