"""Re-exports the values of a message: chat keys, segments, messages, deliveries and receipts."""

from typing import TYPE_CHECKING

from nekro_core.chat import *  # noqa: F403 - its __all__ lists the public names
from nekro_core.chat import CONVERSATION_RESET
from nekro_core.system.deprecated import old_names

if TYPE_CHECKING:
    NEW_BEGINNING = CONVERSATION_RESET
else:
    __getattr__ = old_names(
        __name__, {"NEW_BEGINNING": "CONVERSATION_RESET"}, since="0.1.0", removed="0.3.0"
    )
