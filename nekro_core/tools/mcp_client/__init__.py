"""Uses the tools of the MCP servers in ``data/mcp.json``. The file has the same format as in other
programs.

::

    settings.py       limits and intervals
    configuration.py  reads the file: the servers, and why a server cannot be used
    entries.py        shows and changes the entries of the file; keeps secrets in another file
    servers.py        starts, stops and replaces servers as the file says
    state.py          the state of a server
    connection.py     connects to one server, lists and calls its tools, reconnects
    child.py          exchanges messages with a child process over stdin and stdout
    remote.py         exchanges messages over streamable HTTP
    conversion.py     turns the server's tools into tools of the bot
    depth_limit.py    cuts messages that are nested too deeply
    results.py        turns the result of a call into an outcome of the bot

A server's data is untrusted. The amount of data is limited, and the model gets the data as a result
and never as an instruction. A server's secrets are removed from tools, results and the log. The
package ``mcp`` takes a second to import. So only `connection` and the modules that it uses import
``mcp``, and only if there is a server.
"""

from nekro_core.tools.mcp_client.configuration import McpConfigError
from nekro_core.tools.mcp_client.entries import (
    McpConfigChanged,
    McpConfigShown,
    McpEntryShown,
    McpServerEntry,
)
from nekro_core.tools.mcp_client.servers import (
    McpServers,
    McpTestReport,
    read_states,
    server_status_lines,
)
from nekro_core.tools.mcp_client.settings import McpSettings
from nekro_core.tools.mcp_client.state import McpServerPhase, McpServerState

__all__ = [
    "McpConfigChanged",
    "McpConfigError",
    "McpConfigShown",
    "McpEntryShown",
    "McpServerEntry",
    "McpServerPhase",
    "McpServerState",
    "McpServers",
    "McpSettings",
    "McpTestReport",
    "read_states",
    "server_status_lines",
]
