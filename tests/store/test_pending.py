"""What waits for the answer of a person is stored, and is read again after a restart."""

from pathlib import Path

from nekro_core.chat import ChatKey
from nekro_core.store import Store
from nekro_core.store.values import WaitingRow

HERE, THERE = ChatKey.parse("fake-group_1"), ChatKey.parse("fake-group_2")


def row(name: str, chat_key: str) -> WaitingRow:
    return WaitingRow(
        kind="question",
        name=name,
        plugin="p",
        chat_key=chat_key,
        user_id="",
        data="{}",
        created=1.0,
        until=2.0,
    )


async def test_rows_without_a_chat_are_read_beside_those_of_the_chats_that_are_asked_for(
    tmp_path: Path,
) -> None:
    url = f"sqlite://{tmp_path / 'w.sqlite3'}"
    async with Store.open(url) as store:
        for name, chat_key in (("here", str(HERE)), ("there", str(THERE)), ("nowhere", "")):
            await store.waiting.put(row(name, chat_key))
    async with Store.open(url) as store:
        everything = await store.waiting.all("question")
        assert [each.name for each in everything] == ["here", "there", "nowhere"]
        some = await store.waiting.all("question", lambda chat: chat == HERE)
        assert [each.name for each in some] == ["here", "nowhere"]
