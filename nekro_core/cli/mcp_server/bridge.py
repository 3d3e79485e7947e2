"""Offers the bot's tools as an MCP server."""

from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from nekro_core import __version__
from nekro_core.cli.mcp_server.bot_tools import BotTools, BotUnavailable

_INSTRUCTIONS = (
    "Tools of a nekro-core bot. The first eight work on sandboxes: isolated places that keep their "
    "files, each made by its first use."
)


def make_server(tools: BotTools) -> Server[Any]:
    """Make a server that lists and calls ``tools``. If a call fails, its result contains the error,
    so that the client's model can read it. If the tools cannot be listed, the client gets a
    protocol error."""

    async def list_tools(
        _ctx: Any, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        found = await tools.list()
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool["name"],
                    description=tool["description"],
                    input_schema=tool["inputSchema"],
                )
                for tool in found
            ]
        )

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await tools.call(params.name, params.arguments or {})
        except BotUnavailable as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        return types.CallToolResult.model_validate(answer)

    return Server(
        "nekro-core",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
