"""If a message hook of a plugin changes a message, the model reads the changed message, and the
history contains it."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from nekro_core.chat import (
    ChatKey,
    ChatMessage,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Segments,
    Sender,
    Text,
)
from nekro_core.compat.nekro_agent.changed_message import changed_segments
from nekro_core.compat.nekro_agent.legacy_message import LegacyChatMessage
from nekro_core.testing import Bot

COLLECTOR = """
from nekro_agent.api.plugin import NekroPlugin
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.schemas.chat_message import ChatMessageSegment
from nekro_agent.schemas.signal import MsgSignal

plugin = NekroPlugin("Collector", "collector", "Joins messages.", "1.0.0", "ann", "")
waiting = []


@plugin.mount_on_user_message()
async def collect(ctx, message):
    if message.content_text.endswith("..."):
        waiting.append((message.content_text, list(message.content_data)))
        return MsgSignal.BLOCK_ALL
    if waiting:
        texts, parts = zip(*waiting)
        waiting.clear()
        message.content_text = "\\n".join([*texts, message.content_text])
        message.content_data = [each for part in parts for each in part] + message.content_data
        return MsgSignal.FORCE_TRIGGER
"""
FILTER = """
from nekro_agent.api.plugin import NekroPlugin
from nekro_agent.api.message import ChatMessage

plugin = NekroPlugin("Filter", "filter", "Removes words.", "1.0.0", "ann", "")
seen = []


@plugin.mount_on_user_message()
async def clean(_ctx, message: ChatMessage):
    seen.append(message.content_text)
    message.content_text = message.content_text.replace("damn", "dear")
"""


async def test_the_model_sees_one_message_where_a_plugin_joined_several(tmp_path: Path) -> None:
    path = tmp_path / "collector.py"
    path.write_text(COLLECTOR)
    async with Bot.open(tmp_path / "data", path) as bot:
        chat = bot.chat("group_7")
        assert await chat.say("I want...") == []
        assert await chat.ask("some tea", reply="Here") == ["Here"]
        assert bot.prompt.count("some tea") == 1
        assert bot.prompt.count("I want...") == 1
        assert await chat.ask("and sugar", reply="Sure") == ["Sure"]
        assert bot.prompt.count("I want...") == bot.prompt.count("some tea") == 1


async def test_the_next_plugin_and_the_model_see_the_changed_words(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "plugins").mkdir(parents=True)
    for name in ("a_filter", "b_filter"):
        source = FILTER.replace('"filter"', f'"{name}"')
        (data / "plugins" / f"{name}.py").write_text(source)
    async with Bot.open(data) as bot:
        chat = bot.chat()
        assert await chat.ask("the damn cat", reply="which?") == ["which?"]
        assert "the dear cat" in bot.prompt
        assert "damn" not in bot.prompt
        assert await chat.ask("and now", reply="what?") == ["what?"]
        assert "damn" not in bot.prompt


PICTURE = Image(Media(path="/nowhere/a.png", url="", name="a.png", mime="image/png", size=1))
WHOLE: Segments = (Reply("7"), Mention("10002", "Ann"), Text("look at "), PICTURE)


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({}, None),
        ({"content_text": "[@id:10002;nickname:Ann@] look at [image]"}, None),
        (
            {"content_text": "[@id:10002;nickname:Ann@]see [image]"},
            (Reply("7"), Mention("10002", "Ann"), Text("see "), PICTURE),
        ),
        (
            {"content_text": "hi [@id:10002;nickname:Ann@]"},
            (Reply("7"), Text("hi "), Mention("10002", "Ann"), PICTURE),
        ),
        ({"content_text": "nothing"}, (Reply("7"), Text("nothing"), PICTURE)),
        ({"content_data": []}, (Reply("7"),)),
        (
            {"content_data": [{"type": "text", "text": "hi"}, {"type": "odd", "text": 3}, 7]},
            (Reply("7"), Text("hi")),
        ),
        ({"content_data": None}, None),
        ({"content_text": 3}, None),
        (
            {"content_data": [{"type": "at", "target_platform_userid": "1", "text": "@1"}]},
            (Reply("7"), Mention("1", "")),
        ),
        (
            {"content_data": [{"type": "image", "text": "[image]", "local_path": "/etc/passwd"}]},
            (Reply("7"), Text("[image]")),
        ),
    ],
)
def test_changes_become_segments(
    changes: dict[str, object], made: Sequence[Segment] | None
) -> None:
    message = _message(WHOLE)
    given = LegacyChatMessage.of(message)
    for name, value in changes.items():
        setattr(given, name, value)
    assert changed_segments(message, given) == made


@pytest.mark.parametrize(
    ("mention", "found"),
    [
        (Mention("10002", "Ann"), ("10002", "Ann")),
        (Mention("10002", "M@e]i"), ("10002", "Mei")),
        (Mention("10003", ""), ("10003", "10003")),
    ],
)
def test_a_hook_finds_who_is_mentioned_in_the_text(
    mention: Mention, found: tuple[str, str]
) -> None:
    given = LegacyChatMessage.of(_message((Text("vote "), mention)))
    match = re.fullmatch(r"vote \[@id:(\d+);nickname:([^@\]]+)@\]", given.content_text)
    assert match is not None
    assert match.groups() == found


def _message(segments: Segments) -> ChatMessage:
    return ChatMessage(
        chat_key=ChatKey.parse("test-group_7"),
        message_id="1",
        sender=Sender("lin", "Lin"),
        segments=segments,
        time=1.0,
        account="bot",
    )
