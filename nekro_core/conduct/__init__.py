"""How the bot behaves in an account and in a chat, as operators say while it runs."""

from nekro_core.conduct.file import ConductFile, ConductRefused
from nekro_core.conduct.values import (
    Conduct,
    ConductBook,
    PersonConduct,
    Quota,
    State,
    bare_chat,
)

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
