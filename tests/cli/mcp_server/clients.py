"""Clients of `nekro mcp`: one starts the command as a child process, one runs its server here."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from nekro_core.app.instance import bind_listener, find_running_instance
from nekro_core.cli.mcp_server.bot_tools import BotTools
from nekro_core.cli.mcp_server.bridge import make_server
from nekro_core.cli.mcp_server.transports import PATH, serve_http
from tests.e2e.bot_process import BotProcess

TOKEN = "a token of this test"


@asynccontextmanager
async def over_stdio(bot: BotProcess, *arguments: str) -> AsyncIterator[Client]:
    """A client that starts `nekro mcp` as its child process."""
    folder = bot.data.parent
    with (folder / "mcp.log").open("a") as log:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "nekro_core", "mcp", *arguments],
            cwd=folder,
            env={**os.environ, "NEKRO_DATA_DIR": str(bot.data)},
        )
        async with Client(stdio_client(server, errlog=log)) as client:
            yield client


@asynccontextmanager
async def served(bot: BotProcess, chat: str = "") -> AsyncIterator[str]:
    """Run the server of `nekro mcp --http` in this process; yields its address."""
    place = find_running_instance(bot.data)
    assert place is not None
    servers: list[uvicorn.Server] = []
    with bind_listener("127.0.0.1", 0) as listener:
        async with (
            BotTools.at(bot.data, place, chat=chat) as tools,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(serve_http, make_server(tools), listener, TOKEN, servers.append)
            while not servers or not servers[0].started:
                await anyio.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}"
            servers[0].should_exit = True


@asynccontextmanager
async def over_http(bot: BotProcess, chat: str = "") -> AsyncIterator[Client]:
    """A client of the server that runs in this process. It sends the token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(bot, chat) as address,
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client
