"""A prompt shows messages with numbers. A number that the model uses means a message of the same
chat, never of another chat."""

from pathlib import Path

import pytest

from nekro_core.agent.prompt.numbers import message_numbered, number_of, seq_of
from nekro_core.chat import Author, ChatKey, Record, Text
from nekro_core.store import Store


def record(chat: ChatKey, seq: int, message_id: str) -> Record:
    return Record(
        seq=seq,
        chat_key=chat,
        author=Author.PERSON,
        segments=(Text("x"),),
        time=1.0,
        message_id=message_id,
    )


HERE, THERE = ChatKey.parse("fake-group_1"), ChatKey.parse("fake-group_2")


@pytest.mark.parametrize(
    ("text", "seq"),
    [("#311", 311), ("311", 311), (" ＃３１１ ", 311), ("# 311", 311), ("#", None), ("a311", None),
     ("#-1", None), ("3" * 16, None), ("#3.1", None), ("", None)],
)  # fmt: skip
def test_a_number_is_read_in_the_spellings_of_models(text: str, seq: int | None) -> None:
    assert seq_of(text) == seq


async def test_a_number_means_a_message_of_the_same_chat(tmp_path: Path) -> None:
    async with Store.open(f"sqlite://{tmp_path / 'n.sqlite3'}") as store:
        for seq, chat, message_id in ((1, HERE, "81"), (2, THERE, "82"), (3, HERE, "1")):
            await store.messages.add(
                record(chat, seq, message_id),
                unique_id=message_id,
                before=store.chats.seen(chat),
            )

        async def found(text: str) -> str:
            message = await message_numbered(store.messages, HERE, text)
            return number_of(message) if message else ""

        assert await found("#1") == "#1"
        assert await found("1") == "#1", "numbers of prompts come before the ids of platforms"
        assert await found("81") == "#1"
        assert await found("#81") == "", "a text with # is never a platform's id"
        assert await found("#2") == "", "message 2 belongs to another chat"
        assert await found("82") == ""
        await store.messages.recall(HERE, "81")
        assert await found("#1") == ""
