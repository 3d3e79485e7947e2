"""In a whole bot with an MCP server, the model finds a tool of the server and calls it."""

import json
from pathlib import Path

import anyio
import pytest

from nekro_core.testing import Bot
from tests.tools.mcp_client.world import peer

pytestmark = pytest.mark.long


async def test_a_model_finds_and_calls_an_mcp_tool(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "mcp.json").write_text(json.dumps({"mcpServers": {"peer": peer()}}), "utf-8")
    async with Bot.open(data) as bot:
        plugins = bot.app.plugins
        chat = bot.chat()
        with anyio.fail_after(30):
            while plugins.tools_for(chat.key).resolve("peer.echo") is None:
                await anyio.sleep(0.02)
        code = (
            "assert 'def echo' in tool_search('say it again')\n"
            "send_channel_message(peer.echo('hi', times=2))"
        )
        assert await chat.ask("say hi twice", code=code) == ["hi hi"]
