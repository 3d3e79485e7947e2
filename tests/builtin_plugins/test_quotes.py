"""The tool `quote_messages` posts earlier messages of the chat again, word for word."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nekro_core.agent.prompt.functions import tools_text
from nekro_core.agent.prompt.small_prompt import small_tools
from nekro_core.api.schemas import FoundMessage
from nekro_core.chat import Text, plain_text
from nekro_core.memory.search.finder import MessageFinder
from nekro_core.store import Store
from nekro_core.tools.names import ToolSet
from plugins.chat.quotes import about
from tests.builtin_plugins.test_chat import run, said
from tests.builtin_plugins.test_chat import tools as tools  # noqa: PLC0414 - a fixture
from tests.plugins.world import World


def found_message(number: int, line: str) -> FoundMessage:
    record = said(number, "10001", "Lin", Text(line))
    return FoundMessage(record=record, number=number, written=datetime.fromtimestamp(0, UTC))


@pytest.fixture
async def talked(world: World) -> AsyncIterator[World]:
    """A chat in which Lin and Mei have talked, and in which Lin now asks what Mei said."""
    async with Store.open("sqlite://:memory:") as store:
        lines = [
            said(1, "10001", "Lin", Text("The kiln is too hot.")),
            said(2, "10002", "Mei", Text("I will open the window.")),
            said(3, "10002", "Mei", Text("The kiln has cooled down.")),
            said(4, "10001", "Lin", Text("What did Mei say about the kiln?")),
        ]
        for each in lines:
            await store.messages.add(each, unique_id=each.message_id)
        store.messages.skip_to(5)
        world.journal.records[:] = lines
        world.services = replace(world.services, search=MessageFinder(store))
        yield world


async def quote(world: World, tools: ToolSet, *args: Any, **kwargs: Any) -> str:
    before = len(world.outgoing.sent)
    await run(world, tools, "quote_messages", *args, **kwargs)
    (sent,) = world.outgoing.sent[before:]
    return plain_text(sent[1])


async def test_messages_of_the_chat_are_quoted_with_their_times_and_authors(
    talked: World, tools: ToolSet
) -> None:
    text = await quote(talked, tools, words="kiln", who="Mei", limit=1)
    assert text == "1970-01-01 00:00 Mei: The kiln has cooled down."
    text = await quote(talked, tools, limit=2)
    assert [line.partition(" Mei: ")[2] for line in text.splitlines()] == [
        "I will open the window.",
        "The kiln has cooled down.",
    ]


async def test_me_is_the_asker_and_the_question_is_not_quoted(
    talked: World, tools: ToolSet
) -> None:
    for me in ("me", "I", "我", "私"):
        text = await quote(talked, tools, who=me)
        assert text == "1970-01-01 00:00 Lin: The kiln is too hot."


@pytest.mark.parametrize(
    ("words", "lines", "quoted"),
    [
        ("nuts", ["I cannot eat a nut", "see you at noon"], [0]),
        ("the nut thing", ["see you at noon", "No nuts for me, please"], [1]),
        ("庭", ["庭にバラを植えた", "また明日"], [0]),
        ("花园", ["我在花园里", "明天见", "花园很大"], [0, 2]),
        ("pets", ["my hamster is ill", "see you at noon"], [0]),
        ("", ["see you at noon", "hello"], [0, 1]),
    ],
)
def test_only_messages_that_share_a_word_are_quoted_or_else_the_best_one(
    words: str, lines: list[str], quoted: list[int]
) -> None:
    """``lines`` are the messages that the search found, best first. ``quoted`` has the indexes of
    those that are quoted."""
    found = [found_message(number, line) for number, line in enumerate(lines)]
    assert [each.number for each in about(words, found)] == quoted


async def test_if_no_message_fits_quote_messages_says_that_there_is_none(
    talked: World, tools: ToolSet
) -> None:
    assert await quote(talked, tools, "zebra") == "I found no such message in this chat."
    assert "cooled down" in await quote(talked, tools, who="kiln"), "the name is a word"


async def test_only_small_models_get_quote_messages_in_place_of_find_messages(
    tools: ToolSet,
) -> None:
    assert "quote_messages" not in tools_text(tools)
    offered = [each.name for each in small_tools(tools)]
    assert "quote_messages" in offered
    assert "find_messages" not in offered
