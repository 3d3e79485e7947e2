"""The bot follows a talk for some lines after its own line, and then no longer."""

from collections.abc import AsyncIterator

import pytest

from nekro_core.agent.participation.facts import NEARBY
from nekro_core.agent.participation.followed_chats import FollowedChats
from nekro_core.chat import Author, ChatKey, Notice, Record, Sender, Text
from nekro_core.chat.record import CONVERSATION_RESET
from nekro_core.store import Store

GROUP = ChatKey.parse("onebot_v11-group_30003")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store.open("sqlite://:memory:") as opened:
        yield opened


async def say(store: Store, text: str, user: str = "") -> Record:
    """Store a line of a person, or of the bot if there is no ``user``."""
    seq = store.messages.reserve()
    said = Record(
        seq=seq,
        chat_key=GROUP,
        author=Author.PERSON if user else Author.BOT,
        segments=(Text(text),),
        time=1_000.0 + seq,
        sender=Sender(user),
    )
    await store.messages.add(said, unique_id=None)
    return said


async def is_estimated(followed: FollowedChats, record: Record) -> bool:
    """Return whether the bot has estimated for whom a line is."""
    return bool((await followed.judge(record, lambda _: False)).signs)


@pytest.mark.parametrize("after_restart", [False, True])
async def test_the_bot_follows_sixty_lines_after_its_own(store: Store, after_restart: bool) -> None:
    followed = FollowedChats(store)
    assert not await is_estimated(followed, await say(store, "is anybody here", "mei"))
    await say(store, "I am, what is it?")
    for number in range(NEARBY):
        line = await say(store, f"small talk {number}", "tom" if number % 2 else "mei")
        if after_restart and number == NEARBY - 1:
            followed = FollowedChats(store)
        assert await is_estimated(followed, line), number
    assert not await is_estimated(followed, await say(store, "one line more", "mei"))
    await say(store, "I am still here")
    assert await is_estimated(followed, await say(store, "what did it say", "mei"))


async def test_a_new_conversation_is_not_followed(store: Store) -> None:
    followed = FollowedChats(store)
    await say(store, "I am here")
    assert await is_estimated(followed, await say(store, "good", "mei"))
    anew = Record(
        seq=store.messages.reserve(),
        chat_key=GROUP,
        author=Author.SYSTEM,
        segments=(Notice(CONVERSATION_RESET), Text("A new conversation begins.")),
        time=2_000.0,
    )
    await store.messages.add(anew, unique_id=None)
    assert not await is_estimated(followed, await say(store, "good morning", "mei"))
