"""A bot uses MCP servers over HTTP. They are real servers on loopback, which need a token, stop,
and start again."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from nekro_core.app.instance import bind_listener
from nekro_core.cli.mcp_server.transports import PATH, serve_http
from nekro_core.tools.mcp_client import McpServerPhase
from nekro_core.tools.outcome import ToolReturn, ToolReturnMedia
from tests.tools.mcp_client.world import QUICK, world

pytestmark = pytest.mark.long

TOKEN = "a-token-for-this-test"


def make_server() -> Server[Any]:
    async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
        names = ("big_picture", "greet")
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        tools = [types.Tool(name=name, description=name, input_schema=schema) for name in names]
        for _ in range(120):
            schema = {"type": "object", "properties": {"in": schema}}
        deep = types.Tool(name="deep", description="deep", input_schema=schema)
        return types.ListToolsResult(tools=[deep, *tools])

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "greet":
            return types.CallToolResult(content=[types.TextContent(text="hello")])
        data = base64.b64encode(b"\x89PNG" + bytes(2 * 1024 * 1024)).decode()
        picture = types.ImageContent(data=data, mime_type="image/png")
        return types.CallToolResult(content=[picture])

    return Server("far away", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[int]:
    servers: list[uvicorn.Server] = []
    with bind_listener("127.0.0.1", port) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_http, make_server(), listener, TOKEN, servers.append)
            while not servers or not servers[0].started:
                await anyio.sleep(0.01)
            yield listener.getsockname()[1]
            servers[0].should_exit = True


@asynccontextmanager
async def serving_as_before_2025() -> AsyncIterator[int]:
    """Run a server with the older transport, server-sent events. Streamable HTTP has replaced this
    transport."""
    server, way = make_server(), SseServerTransport("/messages/")

    async def listen_to(request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Response(status_code=401)
        async with way.connect_sse(request.scope, request.receive, request._send) as streams:
            await server.run(*streams, server.create_initialization_options())
        return Response()

    routes = [Route("/sse", listen_to), Mount("/messages/", way.handle_post_message)]
    runs = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None))
    with bind_listener("127.0.0.1", 0) as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runs.serve, [listener])
            while not runs.started:
                await anyio.sleep(0.01)
            yield listener.getsockname()[1]
            runs.should_exit = runs.force_exit = True


async def test_an_older_server_is_used_over_server_sent_events(tmp_path: Path) -> None:
    async with serving_as_before_2025() as port:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{port}/sse"
        async with world(tmp_path, old={"type": "sse", "url": url, "headers": headers}) as bot:
            await bot.ready("old")
            assert await bot.call("old.greet") == ToolReturn("hello")
            assert bot.tools.resolve("old.deep") is not None
            bot.write(old={"type": "sse", "url": url})
            await bot.until(lambda: (s := bot.state("old")) and s.phase is McpServerPhase.WAITING)
            assert "401" in bot.state("old").reason


def entry(port: int, token: str = TOKEN) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    return {"type": "http", "url": f"http://127.0.0.1:{port}{PATH}", "headers": headers}


async def test_a_server_is_used_and_reconnected_after_a_wrong_token(tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"ping_s": 1.0})
    async with serving() as port, world(tmp_path, settings, far=entry(port)) as bot:
        await bot.ready("far")
        assert await bot.call("far.greet") == ToolReturn("hello")
        assert bot.tools.resolve("far.deep") is not None
        shown = await bot.call("far.big_picture")
        assert isinstance(shown, ToolReturnMedia)
        assert len(shown.media[0].content.data) > 2 * 1024 * 1024
        bot.write(far=entry(port, "a-wrong-token"))
        await bot.until(lambda: (s := bot.state("far")) and s.phase is McpServerPhase.WAITING)
        assert "wrong-token" not in bot.state("far").reason
        bot.write(far=entry(port))
        await bot.ready("far")
        assert await bot.call("far.greet") == ToolReturn("hello")


@pytest.mark.slow
@pytest.mark.long
async def test_a_server_that_stops_is_reconnected_when_it_runs_again(tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"ping_s": 1.0})
    async with serving() as port:
        pass
    async with world(tmp_path, settings, far=entry(port)) as bot:
        await bot.until(lambda: (s := bot.state("far")) and s.phase is McpServerPhase.WAITING)
        async with serving(port):
            await bot.ready("far")
            assert await bot.call("far.greet") == ToolReturn("hello")
        await bot.until(lambda: bot.state("far").phase is not McpServerPhase.READY)
        async with serving(port):
            await bot.ready("far")
            assert await bot.call("far.greet") == ToolReturn("hello")
