"""An operator adds, tests, changes and removes MCP servers while the bot runs."""

import json
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from nekro_core.tools.mcp_client import (
    McpConfigChanged,
    McpConfigError,
    McpServerEntry,
)
from nekro_core.tools.outcome import ToolReturn
from tests.tools.mcp_client.world import World, peer, world

TOKEN = "a-token-that-nobody-may-see"


def entry(mode: str = "good", **more: Any) -> McpServerEntry:
    return McpServerEntry(**{**peer(mode), **more})


def file_of(bot: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bot.folder / "mcp.json").read_text("utf-8"))
    return found


async def test_a_server_is_added_changed_and_removed_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, old=peer()) as bot:
        await bot.servers.put("new", entry(), {})
        await bot.ready("new")
        assert {each.name for each in bot.servers.tools("new")} >= {"new.echo", "new.look"}
        assert await bot.call("new.echo", text="hi", times=1) == ToolReturn("hi")
        await bot.servers.put("new", entry(timeout=7, visibility="visible"), {})
        await bot.ready("new")
        assert bot.servers.tools("new")[0].timeout_s == 7
        await bot.servers.remove("new")
        assert bot.state("new") is None
        assert bot.servers.tools("new") == ()
        assert bot.tools.resolve("new.echo") is None
        await bot.ready("old")  # the other server must not be restarted
    assert list(file_of(bot)["mcpServers"]) == ["old"]


async def test_a_secret_is_stored_in_a_separate_file_and_never_shown(tmp_path: Path) -> None:
    async with world(tmp_path) as bot:
        wanted = entry(env={"API_TOKEN": "${API_TOKEN}"})
        await bot.servers.put("peer", wanted, {"API_TOKEN": SecretStr(TOKEN)})
        await bot.ready("peer")
        shown = await bot.call("peer.environment")
        assert isinstance(shown, ToolReturn)
        assert json.loads(shown.value)["API_TOKEN"] == "[secret]"  # the secret is set but not shown
        configured = await bot.servers.configured()
        secrets = bot.folder / "secrets" / "mcp.json"
        assert TOKEN not in (bot.folder / "mcp.json").read_text("utf-8")
        assert TOKEN not in repr(configured)
        assert TOKEN in secrets.read_text("utf-8")
        assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
        assert configured.entries[0].secrets == ("API_TOKEN",)
        await bot.servers.put("peer", wanted, {"API_TOKEN": None})  # None keeps the stored value
        assert TOKEN in secrets.read_text("utf-8")
        await bot.servers.remove("peer")
        assert TOKEN not in secrets.read_text("utf-8")


async def test_a_secret_in_plain_text_is_moved_to_the_separate_file_when_its_server_is_saved(
    tmp_path: Path,
) -> None:
    async with world(
        tmp_path, peer=peer(env={"API_TOKEN": TOKEN, "REGION": "eu"}, note="x")
    ) as bot:
        (shown,) = (await bot.servers.configured()).entries
        assert shown.entry.env == {"API_TOKEN": "${API_TOKEN}", "REGION": "eu"}
        assert shown.secrets == ("API_TOKEN",)
        await bot.servers.put("peer", shown.entry, {"API_TOKEN": None})
        await bot.ready("peer")
        found = file_of(bot)["mcpServers"]["peer"]
        assert found["env"] == {"API_TOKEN": "${API_TOKEN}", "REGION": "eu"}
        assert found["note"] == "x"  # this key belongs to another program
        assert TOKEN in (bot.folder / "secrets" / "mcp.json").read_text("utf-8")


async def test_a_secret_in_an_address_or_a_header_is_not_shown(tmp_path: Path) -> None:
    url = {"url": f"http://127.0.0.1:9/mcp?key={TOKEN}", "disabled": True}
    header = {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}}
    async with world(tmp_path, a=url, b={**header, "disabled": True}) as bot:
        configured = await bot.servers.configured()
    assert TOKEN not in repr(configured)
    assert [each.secrets for each in configured.entries] == [("URL",), ("AUTHORIZATION",)]
    assert all(each.entry.disabled for each in configured.entries)


@pytest.mark.parametrize(
    ("wrong", "secrets", "says"),
    [
        ({"command": "", "url": ""}, {}, "either 'command' or 'url'"),
        ({"env": {"API_TOKEN": TOKEN}}, {}, "looks like a secret"),
        ({"env": {"A": "${NO_SUCH_THING}"}}, {}, "no NO_SUCH_THING"),
        ({"env": {"A": "${B}"}}, {"B": None}, "B has no value yet"),
        ({"env": {"A": "${B}"}}, {"B!": SecretStr("x")}, "letters and digits"),
    ],
)
async def test_an_invalid_entry_is_refused_and_changes_nothing(
    tmp_path: Path, wrong, secrets, says
) -> None:
    async with world(tmp_path, old=peer()) as bot:
        before = (tmp_path / "mcp.json").read_bytes()
        with pytest.raises(McpConfigError, match=says) as raised:
            await bot.servers.put("new", entry(**wrong), secrets)
        assert TOKEN not in str(raised.value)
        assert (tmp_path / "mcp.json").read_bytes() == before
        assert not (tmp_path / "secrets").exists()


async def test_a_change_based_on_an_old_revision_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path, old=peer()) as bot:
        revision = (await bot.servers.configured()).revision
        await bot.servers.put("mine", entry(), {}, revision=revision)
        with pytest.raises(McpConfigChanged, match="changed since you opened it"):
            await bot.servers.put("yours", entry(), {}, revision=revision)
        with pytest.raises(McpConfigChanged):
            await bot.servers.remove("old", revision=revision)
    assert list(file_of(bot)["mcpServers"]) == ["old", "mine"]


async def test_a_broken_mcp_json_is_reported_and_not_overwritten(tmp_path: Path) -> None:
    async with world(tmp_path, old=peer()) as bot:
        await bot.ready("old")
        (tmp_path / "mcp.json").write_text('{"mcpServers": {', "utf-8")
        assert "no JSON" in (await bot.servers.configured()).problem
        with pytest.raises(McpConfigError, match="no JSON"):
            await bot.servers.put("new", entry(), {})
        assert bot.state("old") is not None  # the last valid file stays in effect


async def test_a_connection_test_lists_the_tools_and_adds_no_server(tmp_path: Path) -> None:
    async with world(tmp_path) as bot:
        report = await bot.servers.test("peer", entry(), {})
        assert report.works, report.reason
        assert "peer.echo" in {tool.name for tool in report.tools}
        assert bot.servers.states() == ()
        assert bot.offered == {}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"command": "no-such-program", "args": ()}, "no program"),
        ({"command": "", "args": (), "url": "http://127.0.0.1:9/mcp"}, "."),
    ],
)
async def test_a_connection_test_says_why_a_server_does_not_work(tmp_path: Path, bad, says) -> None:
    async with world(tmp_path) as bot:
        report = await bot.servers.test("peer", entry(**bad), {})
    assert not report.works
    assert says in f"{report.reason}."


async def test_a_connection_test_of_a_silent_server_ends_at_its_time_limit(tmp_path: Path) -> None:
    async with world(tmp_path) as bot:
        with anyio.fail_after(30):
            report = await bot.servers.test("peer", entry("silent"), {}, limit_s=1)
    assert not report.works
    assert "not ready within 1 s" in report.reason


async def test_a_disabled_server_is_listed_and_not_started(tmp_path: Path) -> None:
    async with world(tmp_path, old=peer()) as bot:
        await bot.ready("old")
        await bot.servers.put("old", entry(disabled=True), {})
        assert bot.servers.states() == ()
        (shown,) = (await bot.servers.configured()).entries
        assert shown.entry.disabled
        await bot.servers.put("old", entry(), {})
        await bot.ready("old")


async def test_a_server_is_restarted_when_asked(tmp_path: Path) -> None:
    async with world(tmp_path, old=peer()) as bot:
        await bot.ready("old")
        first = bot.servers.tools("old")
        await bot.servers.restart("old")
        await bot.until(lambda: bot.servers.tools("old") and bot.servers.tools("old") is not first)
        await bot.ready("old")
        with pytest.raises(McpConfigError, match="no running server"):
            await bot.servers.restart("nobody")
