"""The state of a server, for the operator."""

from dataclasses import dataclass
from enum import StrEnum


class McpServerPhase(StrEnum):
    """The phases of a server."""

    CONNECTING = "connecting"
    READY = "ready"
    WAITING = "waiting"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class McpServerState:
    """One server. ``reason`` says why it is not ready; nothing here is secret."""

    name: str
    phase: McpServerPhase
    place: str = ""
    tools: int = 0
    reason: str = ""
