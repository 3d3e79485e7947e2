"""Bounds of what MCP servers do, under ``NEKRO_MCP__``."""

from pydantic import BaseModel, ConfigDict, Field


class McpSettings(BaseModel):
    """Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    connect_s: float = Field(default=30.0, gt=0)
    """Longest start of a server, until it has listed its tools. ``npx`` may download it first."""
    call_s: float = Field(default=120.0, gt=0)
    """Longest call, where the file says nothing else for the server."""
    ping_s: float = Field(default=30.0, gt=0)
    """How often a silent server is asked whether it is there, and how long it may take."""
    retry_s: float = Field(default=1.0, gt=0)
    """How long after a failure it is tried again; twice as long each time, up to 60 times this."""
    look_s: float = Field(default=1.0, gt=0)
    """How often to look whether the file has changed."""
    most_tools: int = Field(default=256, ge=1)
    """Tools of one server that are taken."""
    message_mb: int = Field(default=32, ge=1)
    """Longest single message of a server."""
    unasked_messages: int = Field(default=2000, ge=10)
    """Most messages within ten seconds from a server that has nothing to answer."""
