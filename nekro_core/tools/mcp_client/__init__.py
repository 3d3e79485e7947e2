"""Uses the tools of the MCP servers in ``data/mcp.json``, a file in the form that other programs
use.

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

A server's data is untrusted. It is bounded in length and number, and the model gets it as a result
and never as an instruction. A server's secrets stay in the bot: tools, results and the log do not
contain them. The package ``mcp`` takes a second to import. So only `connection` and the modules
below it import it, when there is a server.
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
