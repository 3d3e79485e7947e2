"""An operator changes MCP servers, personas and network rules, and undoes the changes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem, NotAllowed
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.sandbox.egress.admin import InvalidEgressRules
from nekro_core.tools.mcp_client import McpServerEntry
from tests.tools.mcp_client.world import peer

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
OLGA = Actor(name="olga", role=AccessRole.OWNER, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.API)
CHAT = "onebot_v11-group_30003"
TOKEN = "a-token-that-nobody-may-see"

pytestmark = pytest.mark.jail


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "Meow.")) as running:
        yield running


async def test_an_mcp_server_is_tested_added_and_removed(app: App) -> None:
    mcp = app.operations.mcp
    entry = McpServerEntry(**peer(env={"API_TOKEN": "${API_TOKEN}"}))
    secrets = {"API_TOKEN": SecretStr(TOKEN)}
    tested = await mcp.test(OLGA, server="peer", entry=entry, secrets=secrets)
    assert tested.result.works, tested.result.reason
    echo = next(each for each in tested.result.tools if each.name == "peer.echo")
    assert echo.signature == "echo(text: str, times: int | None = 1)"
    assert (await mcp.all(OTTO)).servers == ()
    added = await mcp.put(OLGA, server="peer", entry=entry, secrets=secrets)
    assert added.undoable
    (shown,) = (await mcp.all(VERA)).servers
    assert (shown.name, shown.secrets) == ("peer", ("API_TOKEN",))
    rows = await app.operations.audit.audit_log.rows.newest()
    assert TOKEN not in repr(rows)
    await app.operations.audit.undo(OLGA, entry_id=added.entry_id)
    assert (await mcp.all(OTTO)).servers == ()
    with pytest.raises(NoSuchItem):
        await mcp.remove(OLGA, server="peer")


async def test_a_viewer_does_not_see_a_secret_in_the_arguments_of_a_server(app: App) -> None:
    mcp = app.operations.mcp
    entry = McpServerEntry(command="false", args=["--token=hunter22"], disabled=True)
    await mcp.put(OLGA, server="a", entry=entry)
    assert "--token=hunter22" in repr(await mcp.all(OLGA))
    shown = repr(await mcp.all(VERA))
    assert "hunter22" not in shown
    assert "--token=***" in shown


async def test_the_later_of_two_changes_of_mcp_servers_is_refused(app: App) -> None:
    mcp = app.operations.mcp
    revision = (await mcp.all(OTTO)).revision
    entry = McpServerEntry(**peer(disabled=True))
    await mcp.put(OLGA, server="a", entry=entry, revision=revision)
    with pytest.raises(ChangedMeanwhile):
        await mcp.put(OLGA, server="b", entry=entry, revision=revision)
    assert [each.phase for each in (await mcp.all(OTTO)).servers] == ["off"]
    with pytest.raises(NotAllowed):
        await mcp.remove(VERA, server="a")


async def test_the_removal_of_an_mcp_server_without_secrets_can_be_undone(app: App) -> None:
    mcp = app.operations.mcp
    await mcp.put(OLGA, server="a", entry=McpServerEntry(**peer(disabled=True)))
    gone = await mcp.remove(OLGA, server="a")
    await app.operations.audit.undo(OLGA, entry_id=gone.entry_id)
    assert [each.name for each in (await mcp.all(OTTO)).servers] == ["a"]


async def test_a_persona_is_saved_and_each_change_can_be_undone(app: App) -> None:
    personas, audit = app.operations.personas, app.operations.audit
    first = await personas.save(OTTO, persona="Mei", text="You are Mei.", revision=0)
    second = await personas.save(OTTO, persona="Mei", text="You are Mei, a cat.", revision=1)
    assert second.result.by == "otto"
    with pytest.raises(ChangedMeanwhile):
        await personas.save(OTTO, persona="Mei", text="A dog.", revision=1)
    await audit.undo(OTTO, entry_id=second.entry_id)
    assert (await personas.all(VERA))[0].text == "You are Mei."
    gone = await personas.remove(OTTO, persona="Mei")
    assert await personas.all(OTTO) == []
    assert [each.name for each in await personas.all(OTTO, removed=True)] == ["Mei"]
    await audit.undo(OTTO, entry_id=gone.entry_id)
    assert [each.number for each in (await personas.one(OTTO, persona="Mei")).versions] == [1, 2, 3]
    await audit.undo(OTTO, entry_id=first.entry_id)
    assert await personas.all(OTTO) == []
    with pytest.raises(NoSuchItem):
        await personas.restore(OTTO, persona="Lin", number=1)


async def test_all_chats_use_a_persona_until_the_change_is_undone(app: App) -> None:
    personas, audit = app.operations.personas, app.operations.audit
    policies = app.operations.chats
    chat = ChatKey.parse("web-private_lin")
    await personas.save(OTTO, persona="Rin", text="You are Rin.")
    assert await personas.everywhere(VERA) == ""
    used = await personas.use_everywhere(OTTO, persona="Rin")
    assert await personas.everywhere(VERA) == "Rin"
    assert (await policies.policy(VERA, chat_key=chat)).persona == "You are Rin."
    await audit.undo(OTTO, entry_id=used.entry_id)
    assert await personas.everywhere(VERA) == ""
    assert (await policies.policy(VERA, chat_key=chat)).persona != "You are Rin."
    with pytest.raises(NoSuchItem, match="there is no persona 'Nobody'"):
        await personas.use_everywhere(OTTO, persona="Nobody")


async def test_a_persona_in_conduct_toml_cannot_be_overridden_on_the_page(app: App) -> None:
    personas = app.operations.personas
    await personas.save(OTTO, persona="Rin", text="You are Rin.")
    conduct = personas._services.policies.conduct
    await conduct.put(("bot",), "persona", "You are as the file says.")
    with pytest.raises(InvalidParameters, match=r"from the table \[bot\] of conduct\.toml"):
        await personas.use_everywhere(OTTO, persona="Rin")
    await conduct.put(("bot",), "persona", None)


async def test_a_trial_of_a_persona_needs_either_a_name_or_a_text(app: App) -> None:
    personas, chat = app.operations.personas, ChatKey.parse("web-private_lin")
    with pytest.raises(InvalidParameters):
        await personas.try_out(OTTO, chat_key=chat)
    with pytest.raises(NoSuchItem):
        await personas.try_out(OTTO, chat_key=chat, persona="Nobody")


async def test_undoing_the_rules_of_a_chat_keeps_the_rules_of_its_boxes(app: App) -> None:
    network, audit = app.operations.network, app.operations.audit
    build = await network.put(OTTO, owner=CHAT, box="build", allow=["example.org"])
    chat = await network.put(OTTO, owner=CHAT, allow=["example.net"], private=["nas.lan:80"])
    await audit.undo(OTTO, entry_id=chat.entry_id)
    (table,) = (await network.rules(VERA)).tables
    assert (table.box, table.allow) == ("build", ("example.org",))
    with pytest.raises(InvalidEgressRules, match="there are no rules of 'onebot_v11-group_30003'"):
        await network.remove(OTTO, owner=CHAT, boxes=False)
    await network.put(OTTO, owner=CHAT, allow=["example.net"])
    gone = await network.remove(OTTO, owner=CHAT, boxes=False)
    assert (await network.rules(VERA)).tables == (table,)
    await audit.undo(OTTO, entry_id=gone.entry_id)
    assert [each.box for each in (await network.rules(VERA)).tables] == ["", "build"]
    await audit.undo(OTTO, entry_id=build.entry_id)
    await network.remove(OTTO, owner=CHAT, boxes=False)
    assert (await network.rules(VERA)).tables == ()


async def test_network_rules_are_changed_and_the_changes_are_undone(app: App) -> None:
    network, audit = app.operations.network, app.operations.audit
    first = await network.put(OTTO, owner=CHAT, allow=["example.org"])
    second = await network.put(OTTO, owner=CHAT, allow=["example.net"], private=["nas.lan:80"])
    await audit.undo(OTTO, entry_id=second.entry_id)
    (table,) = (await network.rules(VERA)).tables
    assert (table.allow, table.private) == (("example.org",), ())
    gone = await network.remove(OTTO, owner=CHAT)
    assert (await network.rules(OTTO)).tables == ()
    await audit.undo(OTTO, entry_id=gone.entry_id)
    assert (await network.rules(OTTO)).tables == (table,)
    await audit.undo(OTTO, entry_id=first.entry_id)
    assert (await network.rules(OTTO)).tables == ()
    with pytest.raises(InvalidEgressRules, match="no rule"):
        await network.put(OTTO, owner=CHAT, allow=["a b"])
    assert await network.refused(VERA) == []
