"""Defines the state of an MCP server that the operator sees."""

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
    """The state of one server. ``reason`` says why it is not ready. No field contains secrets."""

    name: str
    phase: McpServerPhase
    place: str = ""
    tools: int = 0
    reason: str = ""
