"""An operator reads the chats of all platforms and changes what the bot does in them."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, ChatMessage, DeliveryState, File, Image, Media, Sender, Text
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.chat_views import DecisionView, MessageView
from nekro_core.operator.errors import (
    ChangedMeanwhile,
    InvalidParameters,
    NoSuchItem,
    NotAllowed,
)
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.policy import ChatState
from nekro_core.store import Dimension, LatencyMeasure, Period
from tests.delivery.fakes import FakeAdapter

GROUP = ChatKey.parse("fake-group_30003")
LIN = ChatKey.parse("fake-private_10001")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)
EVIL = "<script>alert(1)</script>"

pytestmark = pytest.mark.jail


@pytest.fixture
def adapter() -> FakeAdapter:
    return FakeAdapter(text_length=4_000)


@pytest.fixture
async def app(tmp_path: Path, adapter: FakeAdapter) -> AsyncIterator[App]:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as running:
        running.add_adapter(adapter)
        await running.start()
        yield running


async def say(app: App, text: str, chat: ChatKey = GROUP, **more: object) -> MessageView:
    """Let a person say something. Return the message with the decision about it."""
    fields: dict[str, object] = {
        "chat_key": chat,
        "message_id": f"m{time.monotonic_ns()}",
        "sender": Sender("10001", EVIL),
        "segments": (Text(text),),
        "time": time.time(),
        "account": "bot",
    }
    await app.host.accept(ChatMessage(**{**fields, **more}))  # type: ignore[arg-type]
    with anyio.fail_after(30):
        while True:
            lines = await app.operations.chats.history(VERA, chat_key=chat)
            said = next((line for line in reversed(lines) if line.author == "person"), None)
            if said is not None and said.text == text and said.decision.reason:
                return said
            await anyio.sleep(0.01)


async def test_chats_are_listed_with_their_newest_message_and_filtered_by_state(app: App) -> None:
    chats = app.operations.chats
    await say(app, "nice weather")
    await chats.set_policy(OTTO, chat_key=GROUP, field="state", value="observe")
    await say(app, "hello", LIN)
    listed = (await chats.newest(VERA)).chats
    assert {each.chat_key for each in listed} == {GROUP, LIN}
    (group,) = (await chats.newest(VERA, state=ChatState.OBSERVE)).chats
    assert (group.chat_key, group.kind, group.newest_text) == (GROUP, "group", "nice weather")
    (lin,) = (await chats.newest(VERA, state=ChatState.ON, text="SCRIPT")).chats
    assert (lin.chat_key, lin.name) == (LIN, EVIL)
    assert (await chats.newest(VERA, platform="telegram")).chats == []


async def test_each_message_says_why_it_was_answered_or_why_not(app: App) -> None:
    chats = app.operations.chats
    silent = await say(app, "nice weather")
    assert silent.decision == DecisionView(reason="not_addressed")
    called = await say(app, "Nekro, hello")
    assert (called.decision.reason, called.decision.detail) == ("named", "Nekro")
    assert called.decision.asked
    assert called.decision.turn_id > 0
    assert await chats.decision(VERA, seq=called.seq) == called.decision
    with pytest.raises(NoSuchItem, match="no message 999"):
        await chats.decision(VERA, seq=999)


async def test_a_message_shows_its_media_without_their_paths(app: App) -> None:
    chats = app.operations.chats
    picture = Image(Media(path="", url="http://127.0.0.1:1/secret", name="cat.png", problem="gone"))
    await say(app, "[image]", segments=(picture,))
    (line,) = (await chats.history(VERA, chat_key=GROUP))[:1]
    assert [(each.number, each.name) for each in line.media] == [(0, "cat.png")]
    assert "secret" not in str(line.segments)
    with pytest.raises(NoSuchItem, match="no copy of medium 0"):
        await chats.medium_bytes(VERA, line.seq, 0)
    with pytest.raises(NoSuchItem, match="no medium 1"):
        await chats.medium_bytes(VERA, line.seq, 1)


async def test_a_search_finds_messages_of_all_chats(app: App) -> None:
    chats = app.operations.chats
    await say(app, "图书馆几点关门")
    await say(app, "去图书馆吗", LIN)
    found = await chats.search(VERA, text="图书")
    assert [each.chat_key for each in found.messages] == [LIN, GROUP]
    assert len((await chats.search(VERA, text="图书", chat_key=GROUP)).messages) == 1
    with pytest.raises(InvalidParameters, match="text"):
        await chats.search(VERA, text="  ")


async def test_a_policy_is_changed_and_the_change_is_undone(app: App) -> None:
    chats, audit = app.operations.chats, app.operations.audit
    for field, value in (
        ("state", "observe"),
        ("names", ["Mei", "喵喵"]),
        ("person_quota", {"turns": 3}),
        ("typing", "off"),
        ("seen_emoji", "👀"),
        ("pace_chars_s", 12.0),
        ("commands", {"reset": "off"}),
        ("ignore", ["10002", "10001"]),
    ):
        done = await chats.set_policy(OTTO, chat_key=GROUP, field=field, value=value)
        own = done.result.own[field]
        assert (sorted(own) if field == "ignore" else own) == (
            sorted(value) if field == "ignore" else value
        )
        await audit.undo(OTTO, entry_id=done.entry_id)
        assert field not in (await chats.policy(VERA, chat_key=GROUP)).own
    first = await chats.set_policy(OTTO, chat_key=GROUP, field="persona", value="a cat")
    second = await chats.set_policy(OTTO, chat_key=GROUP, field="persona", value="a dog")
    assert (await chats.policy(VERA, chat_key=GROUP)).persona == "a dog"
    await audit.undo(OTTO, entry_id=second.entry_id)
    assert (await chats.policy(VERA, chat_key=GROUP)).persona == "a cat"
    assert first.undoable


async def test_impossible_policies_are_refused_and_nothing_changes(app: App) -> None:
    chats = app.operations.chats
    for field, value, told in (
        ("state", "asleep", "'on', 'observe' or 'off'"),
        ("person_quota", {"turns": -1}, "value.turns: Input should be greater"),
        ("person_quota", {"turn": 1}, "Extra inputs"),
        ("typing", "always", "'auto' or 'off'"),
        ("seen_emoji", "👀" * 33, "32"),
        ("pace_chars_s", -1, "greater"),
        ("pace_chars_s", "inf", "finite"),
        ("names", "Mei", "tuple"),
        ("persona", "x" * 20_001, "20000"),
    ):
        with pytest.raises(InvalidParameters, match=told):
            await chats.set_policy(OTTO, chat_key=GROUP, field=field, value=value)
    with pytest.raises(InvalidParameters, match="field"):
        await chats.set_policy.invoke(OTTO, {"chat_key": str(GROUP), "field": "x", "value": 1})
    assert (await chats.policy(VERA, chat_key=GROUP)).own == {}


async def test_the_second_of_two_operators_who_change_a_policy_is_refused(app: App) -> None:
    chats = app.operations.chats
    seen = (await chats.policy(OTTO, chat_key=GROUP)).revision
    await chats.set_policy(OTTO, chat_key=GROUP, field="state", value="off", revision=seen)
    with pytest.raises(ChangedMeanwhile, match="look at it again"):
        await chats.set_policy(OTTO, chat_key=GROUP, field="state", value="on", revision=seen)
    assert (await chats.policy(VERA, chat_key=GROUP)).state is ChatState.OFF


async def test_an_operator_speaks_as_the_bot_and_a_viewer_does_not(
    app: App, adapter: FakeAdapter
) -> None:
    chats = app.operations.chats
    await say(app, "nice weather")
    done = await chats.say(OTTO, chat_key=GROUP, text="maintenance at 8")
    assert [each.state for each in done.result] == [DeliveryState.SENT]
    assert adapter.said(GROUP) == [(Text("maintenance at 8"),)]
    (*_, newest) = await chats.history(VERA, chat_key=GROUP)
    assert (newest.author, newest.text) == ("bot", "maintenance at 8")
    for act in (chats.say(VERA, chat_key=GROUP, text="x"), chats.stop(VERA, chat_key=GROUP)):
        with pytest.raises(NotAllowed):
            await act
    with pytest.raises(NoSuchItem, match="knows no chat"):
        await chats.say(OTTO, chat_key=ChatKey.parse("fake-group_1"), text="x")


async def test_a_turn_is_stopped_and_a_conversation_is_reset(app: App) -> None:
    chats = app.operations.chats
    await say(app, "nice weather")
    assert not (await chats.stop(OTTO, chat_key=GROUP)).result
    await chats.reset(OTTO, chat_key=GROUP)
    (*_, newest) = await chats.history(VERA, chat_key=GROUP)
    assert (newest.author, newest.text) == ("system", "A new conversation begins.")
    assert not (await chats.reset(OTTO, chat_key=GROUP)).undoable


async def test_statistics_are_shown_and_exported(app: App) -> None:
    statistics = app.operations.statistics
    await say(app, "nice weather")
    now = time.time()
    with anyio.fail_after(30):
        while not (await statistics.totals(VERA, since=now - 60, until=now + 60)).messages:
            await anyio.sleep(0.05)
    span = {"since": now - 3_600, "until": now + 3_600}
    (row,) = await statistics.ranking(VERA, dimension=Dimension.PERSON, order="messages", **span)
    assert (row.label, row.sums.name, row.sums.messages) == (EVIL, "fake:10001", 1)
    table = await statistics.ranking_csv(VERA, dimension=Dimension.CHAT, order="messages", **span)
    assert table.splitlines()[1].startswith("fake-group_30003,fake-group_30003,1,0,0")
    days = await statistics.series_csv(VERA, period=Period.DAY, timezone="Asia/Shanghai", **span)
    assert days.splitlines()[1].partition(",")[0].endswith("T00:00+08:00")
    latencies = await statistics.latency_csv(
        VERA, measure=LatencyMeasure.TURN, period=Period.DAY, **span
    )
    assert latencies.startswith("start,number,p50_seconds,p95_seconds")
    assert await statistics.uncounted(VERA) >= 0
    for wrong, told in (
        ({"order": "name"}, "order"),
        ({"dimension": Dimension.ALL}, "expected chat"),
        ({"limit": 0}, "limit"),
    ):
        with pytest.raises(InvalidParameters, match=told):
            await statistics.ranking(
                VERA,
                **{"dimension": Dimension.CHAT, **span, **wrong},  # type: ignore[arg-type]
            )
    with pytest.raises(InvalidParameters, match="no time zone"):
        await statistics.series(VERA, period=Period.DAY, timezone="Mars/Olympus", **span)


async def test_a_recalled_message_is_shown_only_to_an_operator_who_asks_and_this_is_logged(
    app: App,
) -> None:
    chats = app.operations.chats
    medium = await app.operator.media.keep_bytes(GROUP, b"private words", name="diary.txt")
    said = await say(
        app,
        "my secret[file: diary.txt]",
        message_id="s1",
        segments=(Text("my secret"), File(medium)),
    )
    assert (await chats.medium_bytes(VERA, said.seq, 0))[1] == b"private words"
    await app.host.recall(GROUP, "s1")
    (line,) = await chats.history(VERA, chat_key=GROUP)
    assert (line.recalled, line.text, line.segments, line.media) == (True, "", [], [])
    assert (await chats.search(VERA, text="secret")).messages == []
    for actor in (VERA, OTTO):
        with pytest.raises(NotAllowed, match="was recalled"):
            await chats.medium_bytes(actor, said.seq, 0)
    with pytest.raises(NotAllowed):
        await chats.show_recalled(VERA, seq=said.seq)
    shown = (await chats.show_recalled(OTTO, seq=said.seq)).result
    assert "my secret" in shown.text
    assert (await chats.medium_bytes(OTTO, said.seq, 0))[1] == b"private words"
    with pytest.raises(NotAllowed):
        await chats.medium_bytes(VERA, said.seq, 0)
    entry = (await app.operations.audit.newest(OTTO, area="chats"))[0]
    assert (entry.actor, entry.action, entry.outcome) == ("otto", "chats.show_recalled", "done")
    assert "secret" not in str(entry), "the log must not repeat what was recalled"
    other = await say(app, "hello")
    with pytest.raises(NoSuchItem, match="was not recalled"):
        await chats.show_recalled(OTTO, seq=other.seq)
