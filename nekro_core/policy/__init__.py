"""How the bot behaves in an account and in a chat, as operators say while it runs."""

from nekro_core.policy.overrides import (
    Conduct,
    ConductBook,
    PersonConduct,
    Quota,
    State,
    bare_chat,
)
from nekro_core.policy.overrides_file import ConductFile, ConductRefused

__all__ = [
    "Conduct",
    "ConductBook",
    "ConductFile",
    "ConductRefused",
    "PersonConduct",
    "Quota",
    "State",
    "bare_chat",
]
