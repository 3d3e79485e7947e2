"""Eight tools with which a language model uses named boxes. Each call returns a JSON text.

::

    description.py  the names, descriptions and parameters of the tools
    schemas.py      the descriptions in the formats of OpenAI, Anthropic and MCP
    inputs.py       checks the input of a call and adds default values
    result.py       SandboxToolResult, and the errors with their codes
    text.py         decides whether bytes from a box can be text in the JSON
    pool.py         SandboxPool: the boxes of one owner that the tools use
    shell.py  files.py  transfer.py  boxes.py
                    the tools
    call.py         handle_tool_call: runs a tool and returns its result

The tools implement the design document "Agent Tool API". In these files, "the document" means this
design document.
"""

from nekro_core.sandbox.tools.call import handle_tool_call
from nekro_core.sandbox.tools.pool import SandboxPool
from nekro_core.sandbox.tools.result import SandboxToolError, SandboxToolResult
from nekro_core.sandbox.tools.schemas import (
    TOOL_NAMES,
    anthropic_tools,
    mcp_tools,
    openai_tools,
)

__all__ = [
    "TOOL_NAMES",
    "SandboxPool",
    "SandboxToolError",
    "SandboxToolResult",
    "anthropic_tools",
    "handle_tool_call",
    "mcp_tools",
    "openai_tools",
]
