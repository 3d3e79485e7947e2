"""Runs the MCP server of ``nekro mcp`` until a signal or the client ends it."""

import signal
import sys
from argparse import Namespace

import anyio
import uvicorn

from nekro_core.app.instance import PortTaken, bind_listener
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.cli.chat import running_bot
from nekro_core.cli.mcp_server.bot_tools import BotTools
from nekro_core.cli.mcp_server.bridge import make_server
from nekro_core.cli.mcp_server.transports import PATH, serve_http, serve_stdio
from nekro_core.system.secrets import kept_secret

_HOST = "127.0.0.1"


async def serve_tools(options: Namespace) -> int:
    """Serve the tools of the chat ``options.chat`` over stdio, or over HTTP on ``options.port`` if
    ``options.http`` is set. Returns an exit status."""
    try:
        chat = str(ChatKey.parse(options.chat)) if options.chat else ""
    except ChatKeyError as error:
        _say(f"--chat: {error}")
        return 2
    settings = Settings.load()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            servers: list[uvicorn.Server] = []
            tasks.start_soon(_end_at_signals, scope, servers)
            status = await _serve(settings, chat, options, servers)
            tasks.cancel_scope.cancel()
        return status
    return 0


async def _serve(
    settings: Settings, chat: str, options: Namespace, servers: list[uvicorn.Server]
) -> int:
    data = settings.nekro_data_dir
    async with running_bot(settings, sys.stderr) as place:
        if place is None:
            return 1
        async with BotTools.at(data, place, chat=chat) as tools:
            server = make_server(tools)
            if not options.http:
                await serve_stdio(server)
                return 0
            try:
                listener = bind_listener(_HOST, options.port)
            except PortTaken as error:
                _say(str(error))
                return 1
            with listener:
                address = f"http://{_HOST}:{listener.getsockname()[1]}{PATH}"
                token = kept_secret(data, "mcp_token")
                _say(f"MCP over streamable HTTP at {address}")
                _say("its token lies in secrets/mcp_token under the data folder")
                await serve_http(server, listener, token, servers.append)
    return 0


async def _end_at_signals(scope: anyio.CancelScope, servers: list[uvicorn.Server]) -> None:
    """Stop the server at the first signal, but do not kill the process, so that the process can
    also stop a bot that this command has started."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            if servers and not servers[0].should_exit:
                servers[0].should_exit = True
            else:
                scope.cancel()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
