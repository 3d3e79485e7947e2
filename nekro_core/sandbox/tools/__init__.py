"""The eight tools: what a model does with named boxes, as results that a model can read.

::

    description.py  the tools as their document prints them, and what is told beside it
    schemas.py      the same for OpenAI, Anthropic and MCP
    inputs.py       a tool's input: checked, its defaults filled in
    result.py       SandboxToolResult, and the errors with their codes
    text.py         bytes that came out of a box as JSON text
    pool.py         SandboxPool: one owner's boxes, as the tools use them
    shell.py  files.py  transfer.py  boxes.py
                    the tools
    call.py         handle_tool_call

Source: "Agent Tool API", the design document that the tools were taken from.
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
