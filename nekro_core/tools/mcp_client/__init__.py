"""Uses the tools of the MCP servers in ``data/mcp.json``, a file in the form that other programs
use.

::

    settings.py       bounds
    configuration.py  reads the file: the servers, and the faults of those that cannot be used
    servers.py        starts, stops and replaces servers as the file says
    state.py          the state of a server
    connection.py     connects to one server, lists and calls its tools, reconnects
    child.py          exchanges messages with a child process over stdin and stdout
    remote.py         exchanges messages over streamable HTTP
    conversion.py     turns its tools into tools of the bot
    depth_limit.py    cuts messages that are nested too deeply
    results.py        turns the result of a call into a result of the bot

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
