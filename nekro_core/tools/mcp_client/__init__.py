"""MCP servers whose tools the bot uses: ``data/mcp.json``, in the form that other programs read.

::

    settings.py       bounds
    configuration.py  the file: servers, one by one, each good or with what is wrong with it
    servers.py        all of them: started, stopped and replaced as the file says
    state.py          how it stands with each
    connection.py     one server: connected, listed, called, connected again
    child.py          its messages over stdin and stdout of a process of its own
    remote.py         its messages over streamable HTTP
    conversion.py     its tools as tools of ours
    depth_limit.py    messages that are nested too deeply, cut
    results.py        what a call gave

What a server sends is data of a stranger: bounded in length and number, told to the model as a
result and never as an instruction. Its secrets stay in the bot: neither tools nor results nor the
log hold them. The package ``mcp`` takes a second to import, so only `connection` and what is below
it do, when there is a server.
"""

from nekro_core.tools.mcp_client.servers import McpServers, read_states, server_status_lines
from nekro_core.tools.mcp_client.settings import McpSettings
from nekro_core.tools.mcp_client.state import McpServerPhase, McpServerState

__all__ = [
    "McpServerPhase",
    "McpServerState",
    "McpServers",
    "McpSettings",
    "read_states",
    "server_status_lines",
]
