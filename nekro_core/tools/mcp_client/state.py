"""Defines the state of an MCP server that the operator sees."""

from dataclasses import dataclass
from enum import StrEnum


class McpServerPhase(StrEnum):
    """The phases of a server."""

    CONNECTING = "connecting"
    """The bot starts the server or connects to it, and lists its tools."""
    READY = "ready"
    WAITING = "waiting"
    """The connection failed. The bot waits and then connects again."""
    WRONG = "wrong"
    """The bot does not try to connect: the server's entry is not valid, or a package is missing."""


@dataclass(frozen=True, slots=True)
class McpServerState:
    """The state of one server. ``reason`` says why it is not ready. No field contains secrets."""

    name: str
    phase: McpServerPhase
    place: str = ""
    tools: int = 0
    reason: str = ""
