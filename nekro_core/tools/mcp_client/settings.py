"""The settings of MCP servers, under ``NEKRO_MCP__``."""

from pydantic import Field

from nekro_core.system.live_settings import LiveSettings


class McpSettings(LiveSettings):
    """Limits and intervals. Times are in seconds."""

    connect_s: float = Field(default=30.0, gt=0)
    """Time limit for starting a server and listing its tools. ``npx`` may download the server
    first."""
    call_s: float = Field(default=120.0, gt=0)
    """Time limit of a call, unless ``mcp.json`` sets another one for the server."""
    ping_s: float = Field(default=30.0, gt=0)
    """Interval of pings to a server that has no calls, and time limit for the answer to a ping."""
    retry_s: float = Field(default=1.0, gt=0)
    """Wait before the first reconnect after a failure. The wait doubles each time, up to 60 times
    this value."""
    look_s: float = Field(default=1.0, gt=0)
    """Interval of checks whether ``mcp.json`` has changed."""
    most_tools: int = Field(default=256, ge=1)
    """Maximum number of tools of one server. Further tools are ignored."""
    message_mb: int = Field(default=32, ge=1)
    """The largest message of a server, in MiB."""
    unasked_messages: int = Field(default=2000, ge=10)
    """Maximum number of messages that a server may send in ten seconds while it has no request to
    answer."""
