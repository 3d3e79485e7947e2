"""The client of the package `mcp` uses `nekro mcp` over stdin and stdout, and over HTTP."""

import json
from argparse import Namespace
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest
from mcp import Client
from mcp_types import ImageContent, TextContent

from nekro_core.app.instance import InstanceInfo
from nekro_core.cli.mcp_server.bot_tools import BotTools
from nekro_core.cli.mcp_server.bridge import make_server
from nekro_core.cli.mcp_server.command import serve_tools
from nekro_core.sandbox.tools import TOOL_NAMES
from tests.agent.pictures import PNG_URL
from tests.cli.mcp_server.clients import TOKEN, over_http, over_stdio, served
from tests.e2e.bot_process import BotProcess, running_bot

pytestmark = [pytest.mark.jail, pytest.mark.long]
PROBE = '''
"""A plugin whose tools are easy to look at from outside."""

from pathlib import Path

import anyio

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("Probe", "probe", "Probe.", "0.1.0", "test")
MARKS = Path(MARKS_FOLDER)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "double", needs_chat=False)
async def double(_ctx: AgentCtx, number: int) -> dict[str, int]:
    """Double a number.

    Args:
        number: Which one.
    """
    if number > 1000:
        raise ToolFailure("too large a number")
    return {"doubled": number * 2}


@plugin.mount_sandbox_method(SandboxMethodType.MULTIMODAL_AGENT, "draw", needs_chat=False)
async def draw(_ctx: AgentCtx) -> list[dict[str, object]]:
    """Draw."""
    return [{"type": "image_url", "image_url": {"url": PICTURE}}]


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "endless", needs_chat=False)
async def endless(_ctx: AgentCtx, name: str) -> str:
    """Never end."""
    (MARKS / f"{name}_begun").touch()
    try:
        await anyio.sleep_forever()
    finally:
        (MARKS / f"{name}_cancelled").touch()
    return ""
'''

CHOOSER = '''
"""A plugin that chooses its tools by the chat."""

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("Chooser", "chooser", "Chooses.", "0.1.0", "test")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "where", "")
async def where(_ctx: AgentCtx) -> str:
    """Where this is."""
    return _ctx.chat_key


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "elsewhere", "")
async def elsewhere(_ctx: AgentCtx) -> str:
    """For another chat."""
    return "no"


@plugin.mount_collect_methods()
async def choose(_ctx: AgentCtx):
    return [where] if _ctx.channel_id == "private_lin" else [elsewhere]
'''


@pytest.fixture(scope="module")
async def bot(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BotProcess]:
    """A bot with the probe plugin and without a model."""
    folder = tmp_path_factory.mktemp("mcp")
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True)
    probe = PROBE.replace("MARKS_FOLDER", repr(str(folder))).replace("PICTURE", repr(PNG_URL))
    (plugins / "probe.py").write_text(probe)
    (plugins / "chooser.py").write_text(CHOOSER)
    nobody = {"NEKRO_LLM__BASE_URL": "http://127.0.0.1:9/v1", "NEKRO_LLM__MODEL": "m"}
    async with running_bot(folder, **nobody) as bot:
        yield bot


async def listed_called_and_cancelled(client: Client, marks: Path, name: str) -> None:
    """The checks that are the same for stdio and HTTP: tools are listed, called and cancelled."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools)[:8] == list(TOOL_NAMES)
    assert {"double", "draw", "endless", "view_image"} <= set(tools)
    assert "send_channel_message" not in tools
    number = tools["double"].input_schema["properties"]["number"]
    assert number["type"] == "integer"
    assert number["description"] == "Which one."

    doubled = await client.call_tool("double", {"number": 21})
    assert doubled.content == [TextContent(text='{"doubled": 42}')]
    assert not doubled.is_error

    for arguments, says in (({"number": 2000}, "too large"), ({"number": "x"}, "expected int")):
        failed = await client.call_tool("double", arguments)
        assert failed.is_error
        assert says in failed.content[0].text
    unknown = await client.call_tool("send_channel_message", {"text": "hello"})
    assert unknown.is_error
    assert "unknown_tool" in unknown.content[0].text

    shell = await client.call_tool("shell", {"command": f"echo {name} > f; cat f; exit 3"})
    assert shell.is_error
    told = json.loads(shell.content[0].text)
    assert told == {"stdout": f"{name}\n", "stderr": "", "exit_code": 3}

    *_, picture = (await client.call_tool("draw", {})).content
    assert isinstance(picture, ImageContent)
    assert picture.mime_type == "image/png"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "endless", {"name": name})
        await appears(marks / f"{name}_begun")
        tasks.cancel_scope.cancel()
    await appears(marks / f"{name}_cancelled")
    assert not (await client.call_tool("double", {"number": 1})).is_error


async def appears(path: Path) -> None:
    with anyio.fail_after(30):
        while not path.exists():
            await anyio.sleep(0.01)


async def test_tools_are_listed_called_and_cancelled_over_stdio(bot: BotProcess) -> None:
    async with over_stdio(bot) as client:
        await listed_called_and_cancelled(client, bot.data.parent, "stdio")


async def test_tools_are_listed_called_and_cancelled_over_http(bot: BotProcess) -> None:
    async with over_http(bot) as client:
        await listed_called_and_cancelled(client, bot.data.parent, "http")


async def test_a_server_for_a_chat_offers_the_tools_of_the_chat(bot: BotProcess) -> None:
    async with over_http(bot, "web-private_lin") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "send_channel_message" in names
        assert len(set(names)) == len(names)
        assert {"where", "elsewhere"} & set(names) == {"where"}
        here = await client.call_tool("where", {})
        assert here.content == [TextContent(text="web-private_lin")]
        assert (await client.call_tool("elsewhere", {})).is_error
        sent = await client.call_tool("send_channel_message", {"text": "hello from outside"})
        assert not sent.is_error
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {bot.token}"}, timeout=60
    ) as http:
        address = f"{bot.address}/api/v1/rooms/private_lin/messages"
        (record,) = (await http.get(address)).json()["messages"]
    assert record["segments"] == [{"type": "text", "text": "hello from outside"}]
    assert record["run_id"]


async def test_a_call_to_a_bot_that_has_ended_is_an_error(tmp_path: Path) -> None:
    place = InstanceInfo(pid=1, port=9, address="http://127.0.0.1:9", token="none")
    async with (
        BotTools.at(tmp_path, place, chat="") as tools,
        Client(make_server(tools)) as client,
    ):
        silent = await client.call_tool("sandbox_list", {})
    assert silent.is_error
    assert "does not answer" in silent.content[0].text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 421),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "127.0.0.1:1"}, 421),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "null"}, 403),
        ({"Authorization": f"bearer {TOKEN}"}, 200),
    ],
)
async def test_only_requests_with_the_token_are_answered(
    bot: BotProcess, headers: dict[str, str], status: int
) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}
    async with served(bot) as address, httpx.AsyncClient(timeout=60) as http:
        response = await http.post(address, json=body, headers={**accept, **headers})
    assert response.status_code == status


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("double", b'{"number": 2}', 200, '"isError": false'),
        ("double", b'{"number": 2, "more": 1}', 200, "no argument 'more'"),
        ("double", b"{", 400, "no JSON"),
        ("double", b"[" * 100_000, 400, "no JSON"),
        ("double", b"[2]", 422, "expected a JSON object, got list"),
        ("double?chat=lin", b"{}", 400, "lin"),
        ("shell", b'{"command": 3}', 200, "invalid_input"),
        ("nowhere%2F..%2Fdouble", b"{}", 404, ""),
        ("send_channel_message?chat=nowhere-private_lin", b'{"text": "x"}', 200, '"isError": true'),
    ],
)
async def test_the_http_api_checks_each_request(
    bot: BotProcess, path: str, body: bytes, status: int, says: str
) -> None:
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {bot.token}"}, timeout=60
    ) as http:
        response = await http.post(f"{bot.address}/api/v1/tools/{path}", content=body)
    assert (response.status_code, says in response.text) == (status, True), response.text


async def test_request_heads_are_bounded_and_websockets_are_refused(bot: BotProcess) -> None:
    async with served(bot) as address:
        port = int(address.rpartition(":")[2].partition("/")[0])
        async with await anyio.connect_tcp("127.0.0.1", port) as stranger:
            await stranger.send(b"GET /mcp HTTP/1.1\r\nX: " + b"x" * 400_000)
            with anyio.fail_after(30):
                assert b" 431 " in await stranger.receive()
        upgrade = (
            "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        async with await anyio.connect_tcp("127.0.0.1", port) as stranger:
            await stranger.send(upgrade.encode())
            assert b" 403 " in await stranger.receive()


async def test_the_http_api_refuses_requests_without_the_token(bot: BotProcess) -> None:
    async with httpx.AsyncClient(timeout=60) as http:
        listed = await http.get(f"{bot.address}/api/v1/tools")
        called = await http.post(f"{bot.address}/api/v1/tools/shell", json={"command": "id"})
    assert (listed.status_code, called.status_code) == (401, 401)


async def test_an_invalid_chat_key_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert await serve_tools(Namespace(chat="lin", http=False, port=0)) == 2
    said = capsys.readouterr()
    assert "--chat" in said.err
    assert said.out == ""
