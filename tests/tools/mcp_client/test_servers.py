"""A bot uses MCP servers. A bad server does not affect the other servers."""

import json
import sys
import time
from pathlib import Path

import anyio
import pytest

from nekro_core.tools.content import ImageContent
from nekro_core.tools.mcp_client import (
    McpServerPhase,
    McpSettings,
    read_states,
    server_status_lines,
)
from nekro_core.tools.outcome import ToolCallFailed, ToolReturn, ToolReturnMedia
from nekro_core.tools.schema import function_schema
from nekro_core.tools.stub import signature_text
from nekro_core.tools.tool import Visibility
from tests.tools.mcp_client.world import QUICK, peer, world

TOKEN = "a-token-that-nobody-may-see"


async def test_tools_of_a_server_behave_like_other_tools(tmp_path: Path) -> None:
    async with world(tmp_path, peer=peer("chatty")) as bot:
        await bot.ready("peer")
        echo = bot.tools.resolve("peer.echo")
        assert echo is not None
        assert (echo.visibility, echo.owner) == (Visibility.DEFERRED, "mcp.peer")
        assert (echo.summary, echo.details) == ("Say it again.", "Word for word.")
        assert signature_text(echo) == "echo(text: str, times: int | None = 1)"
        assert bot.tools.resolve("echo") is None  # a server gets no undotted name
        assert await bot.call("peer.echo", text="hi", times=2) == ToolReturn("hi hi")
        assert await bot.call("peer.send_it_now", to_whom="Lin") == ToolReturn("to Lin")
        assert await bot.call("peer.table") == ToolReturn(
            [{"city": "Paris", "token": ""}], "see the table"
        )
        assert isinstance(await bot.call("peer.echo", text={"no": "text"}), ToolCallFailed)
        assert isinstance(await bot.call("peer.echo"), ToolCallFailed)
    assert bot.offered == {}


async def test_pictures_are_returned_for_the_model_to_see(tmp_path: Path) -> None:
    async with world(tmp_path, peer=peer()) as bot:
        await bot.ready("peer")
        result = await bot.call("peer.look")
    assert isinstance(result, ToolReturnMedia)
    assert result.text == "one pixel"
    picture, sound = result.media
    assert isinstance(picture.content, ImageContent)
    assert picture.content.data.startswith(b"\x89PNG")
    assert sound.content is None
    assert "cannot be shown" in sound.note


async def test_secrets_from_the_environment_appear_in_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    monkeypatch.setenv("NEKRO_LLM__API_KEY", "the-key-of-the-bot")
    env = {"API_TOKEN": "${MY_TOKEN}", "REGION": "${NO_SUCH:-somewhere}"}
    async with world(tmp_path, peer=peer(env=env)) as bot:
        await bot.ready("peer")
        shown = await bot.call("peer.environment")
        assert isinstance(shown, ToolReturn)
        assert json.loads(shown.value)["API_TOKEN"] == "[secret]"
        assert json.loads(shown.value)["REGION"] == "somewhere"
        assert "the-key-of-the-bot" not in shown.value
        assert await bot.call("peer.fail") == ToolCallFailed("peer.fail: cannot: [secret]")
        table = await bot.call("peer.table")
        told = [repr(tool) for tool in bot.tools.tools] + [repr(table), repr(bot.servers.states())]
        written = (tmp_path / "mcp_state.json").read_text("utf-8")
    assert not [text for text in told if TOKEN in text]
    assert TOKEN not in written
    assert TOKEN not in "".join(capfd.readouterr())


async def test_a_server_that_dies_is_started_again_and_the_call_is_not_repeated(
    tmp_path: Path,
) -> None:
    starts = tmp_path / "starts"
    async with world(tmp_path, peer=peer("good", str(starts))) as bot:
        await bot.ready("peer")
        died = await bot.call("peer.die")
        assert isinstance(died, ToolCallFailed)
        assert "it is not known whether the call was carried out" in died.message
        await bot.until(lambda: len(starts.read_text().splitlines()) == 2)
        await bot.ready("peer")
        assert await bot.call("peer.echo", text="back") == ToolReturn("back")
    assert len(starts.read_text().splitlines()) == 2


async def test_the_error_of_a_call_says_that_the_server_is_not_connected(tmp_path: Path) -> None:
    slow = QUICK.model_copy(update={"retry_s": 60.0})
    async with world(tmp_path, slow, peer=peer()) as bot:
        await bot.ready("peer")
        await bot.call("peer.die")
        await bot.until(lambda: bot.state("peer").phase is McpServerPhase.WAITING)
        away = await bot.call("peer.echo", text="hi")
        assert isinstance(away, ToolCallFailed)
        assert "the MCP server 'peer' is not connected (its process has ended" in away.message
        told = server_status_lines(tmp_path)
        assert told.startswith("peer  waiting: its process has ended")


async def test_only_the_operator_is_shown_why_a_server_cannot_start(tmp_path: Path) -> None:
    started = tmp_path / "private" / "start"
    started.parent.mkdir()
    started.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    started.chmod(0o700)
    async with world(tmp_path, peer=peer() | {"command": str(started)}) as bot:
        await bot.ready("peer")
        started.unlink()
        await bot.call("peer.die")
        await bot.until(lambda: "there is no program" in bot.state("peer").reason)
        assert str(started) in bot.state("peer").reason
        away = await bot.call("peer.echo", text="hi")
        assert isinstance(away, ToolCallFailed)
        assert "the MCP server 'peer' is not connected (the operator finds why" in away.message
        assert str(tmp_path) not in away.message


async def test_changed_tools_are_offered_at_once(tmp_path: Path) -> None:
    async with world(tmp_path, peer=peer()) as bot:
        await bot.ready("peer")
        await bot.call("peer.change")
        await bot.until(lambda: bot.tools.resolve("peer.another"))
        assert bot.tools.resolve("peer.echo") is None


async def test_bad_servers_are_reported_and_the_good_one_works(tmp_path: Path) -> None:
    settings = McpSettings(
        look_s=0.05, retry_s=30, connect_s=20, unasked_messages=200, message_mb=1
    )
    servers = {mode: peer(mode) for mode in ("exit", "endless", "flood")}
    missing = {"command": "no-such-program-anywhere"}
    async with world(tmp_path, settings, good=peer(), missing=missing, **servers) as bot:
        await bot.ready("good")
        for name in (*servers, "missing"):
            await bot.until(lambda name=name: bot.state(name).phase is McpServerPhase.WAITING)
        assert "there is no program no-such-program-anywhere" in bot.state("missing").reason
        assert "messages that nobody asked for" in bot.state("flood").reason
        assert bot.state("exit").reason
        assert bot.state("endless").reason
        assert await bot.call("good.echo", text="hi") == ToolReturn("hi")


async def test_a_server_that_never_answers_is_reported_as_not_working(tmp_path: Path) -> None:
    settings = McpSettings(look_s=0.05, retry_s=30, connect_s=0.5)
    async with world(tmp_path, settings, silent=peer("silent")) as bot:
        await bot.until(
            lambda: (state := bot.state("silent")) and state.phase is McpServerPhase.WAITING
        )
        assert bot.state("silent").reason == "it was not ready within 0.5 s"


async def test_a_call_without_an_answer_ends_at_its_limit(tmp_path: Path) -> None:
    async with world(tmp_path, peer=peer(timeout=2)) as bot:
        await bot.ready("peer")
        late = await bot.call("peer.hang")
        assert late == ToolCallFailed("peer.hang took longer than 2 s and was stopped")
        assert await bot.call("peer.echo", text="hi") == ToolReturn("hi")


async def test_a_server_that_answers_no_ping_is_disconnected(tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"ping_s": 0.3, "retry_s": 30.0})
    async with world(tmp_path, settings, deaf=peer("deaf")) as bot:
        await bot.until(
            lambda: (state := bot.state("deaf")) and state.phase is McpServerPhase.WAITING
        )
        assert bot.state("deaf").reason == "it did not answer in time"


async def test_a_schema_of_five_hundred_levels_does_not_remove_other_tools(tmp_path: Path) -> None:
    async with world(tmp_path, deep=peer("deep")) as bot:
        await bot.ready("deep")
        assert len(bot.tools.named) == 10
        assert await bot.call("deep.echo", text="hi") == ToolReturn("hi")
        told = bot.tools.resolve("deep.deep")
        assert told is not None
        assert len(str(function_schema(told, "deep"))) < 20_000
        given = await bot.call("deep.deep", in_={"a": 1})
        assert "nested too deeply" in str(given)


async def test_at_most_256_tools_of_a_server_are_used(tmp_path: Path) -> None:
    async with world(tmp_path, many=peer("many")) as bot:
        await bot.ready("many")
        assert len(bot.tools.named) == 256


async def test_changes_of_mcp_json_take_effect_while_the_bot_runs(tmp_path: Path) -> None:
    async with world(tmp_path) as bot:
        assert bot.servers.states() == ()
        bot.write(one=peer(), two=peer(disabled=True))
        await bot.ready("one")
        assert [state.name for state in bot.servers.states()] == ["one"]
        (tmp_path / "mcp.json").write_text("{")
        await anyio.sleep(0.2)
        assert await bot.call("one.echo", text="still here") == ToolReturn("still here")
        bot.write(two=peer(visibility="visible"))
        await bot.ready("two")
        assert [*bot.offered] == ["mcp.two"]
        assert bot.tools.resolve("two.echo").visibility is Visibility.VISIBLE
        assert server_status_lines(tmp_path).startswith("two  ready, 9 tools  (")
        bot.write()
        await bot.until(lambda: not bot.offered and not bot.servers.states())
    assert read_states(tmp_path) == []


async def test_closing_is_quick_and_leaves_no_process(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with world(
        tmp_path, good=peer("good", str(starts)), bad=peer("silent", str(starts))
    ) as bot:
        await bot.ready("good")
        await bot.until(lambda: len(starts.read_text().splitlines()) == 2)
        began = time.monotonic()
    assert time.monotonic() - began < 15, "closing must not wait for an answer"
    for line in starts.read_text().splitlines():
        assert not Path(f"/proc/{line.split()[0]}").exists()
