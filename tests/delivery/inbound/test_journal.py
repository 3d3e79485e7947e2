"""Plugins read the history and add lines to it."""

import pytest

from nekro_core.chat import Author, plain_text
from nekro_core.delivery.inbound.inbox import ChatJournal, Inbox
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, OTHER
from tests.delivery.fakes import message


@pytest.fixture
def journal(store: Store, inbox: Inbox) -> ChatJournal:
    return ChatJournal(store, inbox)


async def test_a_plugins_line_is_stored_and_wakes_the_agent_only_on_request(
    journal: ChatJournal,
) -> None:
    await journal.note(GROUP, "it rains")
    await journal.note(GROUP, "it is four o'clock", run_id="run-1", trigger=True)
    quiet, loud = await journal.newest(GROUP, 10)
    assert [plain_text(each.segments) for each in (quiet, loud)] == [
        "it rains",
        "it is four o'clock",
    ]
    assert [each.author for each in (quiet, loud)] == [Author.SYSTEM] * 2
    assert [(each.to_bot, each.run_id) for each in (quiet, loud)] == [(False, ""), (True, "run-1")]


async def test_plugins_read_the_newest_messages_of_the_chat_without_recalled_ones(
    journal: ChatJournal, inbox: Inbox
) -> None:
    for text in ("one", "two", "three", "four"):
        await inbox.accept(inbox.stamp(message(GROUP, text, message_id=text)))
    await inbox.accept(inbox.stamp(message(OTHER, "elsewhere", message_id="x")))
    await inbox.recall(GROUP, "three")
    assert [plain_text(each.segments) for each in await journal.newest(GROUP, 3)] == ["two", "four"]


async def test_plugins_do_not_read_messages_from_before_a_reset(
    journal: ChatJournal, inbox: Inbox
) -> None:
    await inbox.accept(inbox.stamp(message(GROUP, "before", message_id="1")))
    await inbox.note(GROUP, "first reset", begins_anew=True)
    await inbox.accept(inbox.stamp(message(GROUP, "between", message_id="2")))
    await inbox.note(GROUP, "second reset", begins_anew=True)
    await inbox.accept(inbox.stamp(message(GROUP, "after", message_id="3")))
    assert [plain_text(each.segments) for each in await journal.newest(GROUP, 10)] == ["after"]
