"""The settings of MCP servers, under ``NEKRO_MCP__``."""

from pydantic import BaseModel, ConfigDict, Field


class McpSettings(BaseModel):
    """Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    connect_s: float = Field(default=30.0, gt=0)
    """Longest start of a server, until it has listed its tools. ``npx`` may download it first."""
    call_s: float = Field(default=120.0, gt=0)
    """Longest call, unless the file sets another limit for the server."""
    ping_s: float = Field(default=30.0, gt=0)
    """How often a silent server is pinged, and how long its answer may take."""
    retry_s: float = Field(default=1.0, gt=0)
    """Wait before a reconnect after a failure. It doubles each time, up to 60 times this value."""
    look_s: float = Field(default=1.0, gt=0)
    """How often the file is checked for changes."""
    most_tools: int = Field(default=256, ge=1)
    """Most tools of one server; further ones are ignored."""
    message_mb: int = Field(default=32, ge=1)
    """Largest message of a server, in MiB."""
    unasked_messages: int = Field(default=2000, ge=10)
    """Most messages within ten seconds from a server that has no request to answer."""
