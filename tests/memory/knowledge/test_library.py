"""A search finds pieces of the documents in folders, and names file, page and heading of each.
Changes of the documents are noticed. A chat does not find the documents of another chat."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey
from nekro_core.media.documents import MAX_BYTES
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.knowledge.library import DocumentRefused, KnowledgeLibrary, cited
from nekro_core.memory.settings import MemorySettings
from nekro_core.store import Person, Store
from tests.memory.conftest import GROUP, OTHER_GROUP, PRIVATE, Clock, QuickModel, memory_of
from tests.memory.knowledge.files import docx, pdf

MANUAL = """# Coffee machine

It stands in the kitchen.

## Cleaning

Descale it every three months with citric acid.

```sh
# not a heading: mauve
```

## 保修

保修期为两年，请保留发票。
"""


@pytest.fixture
async def memory(store: Store, clock: Clock, tmp_path: Path) -> AsyncIterator[MemoryKeeper]:
    data = tmp_path / "data"
    data.mkdir()
    opened = await memory_of(store, MemorySettings(), QuickModel(), clock, data)
    yield opened
    opened.knowledge.close()


@pytest.fixture
def library(memory: MemoryKeeper) -> KnowledgeLibrary:
    return memory.knowledge


def put(library: KnowledgeLibrary, chat: ChatKey | None, name: str, data: bytes | str) -> Path:
    path = library.folder_of(chat) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


async def found(library: KnowledgeLibrary, words: str, chat: ChatKey = GROUP) -> list[str]:
    return [cited(each) for each in await library.search(chat, words)]


async def test_pieces_are_cited_by_file_heading_and_page(library: KnowledgeLibrary) -> None:
    put(library, None, "house/coffee.md", MANUAL)
    put(library, None, "pump.pdf", pdf("The pump needs oil.", "Change the filter in May."))
    put(library, None, "office.docx", docx(("Opening hours", "From nine to five."), ("B", "x")))
    assert await library.look() == 3
    assert (await found(library, "descaling with acid"))[0] == "house/coffee.md, Cleaning"
    assert (await found(library, "which month changes the filter"))[0] == "pump.pdf, page 2"
    assert (await found(library, "opening hour"))[0] == "office.docx, Opening hours"
    assert (await found(library, "保修期多久"))[0] == "house/coffee.md, 保修"
    assert await found(library, "mauve") == ["house/coffee.md, Cleaning"]
    assert await found(library, "zeppelin") == []
    assert await found(library, '" OR text:* NEAR( --') == await found(library, "or text near")
    assert await library.look() == 0, "unchanged documents must not be read again"


async def test_changed_and_removed_documents_are_noticed(library: KnowledgeLibrary) -> None:
    path = put(library, None, "a.txt", "the password of the wifi is vermilion")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.live)
        await until_found(library, "vermilion", ["a.txt"])
        path.write_text("the password of the wifi is turquoise")
        os.utime(path, (1.0, 1.0))
        await until_found(library, "turquoise", ["a.txt"])
        assert await found(library, "vermilion") == []
        put(library, GROUP, "b.txt", "the cinema opens at eight")
        await until_found(library, "cinema", ["b.txt"])
        path.unlink()
        await until_found(library, "turquoise", [])
        tasks.cancel_scope.cancel()


async def until_found(library: KnowledgeLibrary, words: str, expected: list[str]) -> None:
    with anyio.fail_after(60):
        while await found(library, words) != expected:
            await anyio.sleep(0.05)


async def test_documents_of_one_chat_are_not_found_in_another(
    library: KnowledgeLibrary, memory: MemoryKeeper
) -> None:
    chats = {None: "ochre", GROUP: "vermilion", OTHER_GROUP: "turquoise", PRIVATE: "magenta"}
    for chat, word in chats.items():
        put(library, chat, f"{word}.txt", f"the colour of the door is {word}")
    await library.look()
    for chat in (GROUP, OTHER_GROUP, PRIVATE):
        assert set(await found(library, "colour door", chat)) == {"ochre.txt", f"{chats[chat]}.txt"}
        listed = {each.path for each in await library.files(chat)}
        assert listed == {"ochre.txt", f"{chats[chat]}.txt"}
    await memory.scope.link([GROUP, PRIVATE], "friends")
    assert "magenta.txt" in await found(library, "colour door", GROUP)
    assert "turquoise.txt" not in await found(library, "colour door", GROUP)


async def test_a_document_of_more_pieces_than_are_read_is_said_to_be_cut(
    library: KnowledgeLibrary,
) -> None:
    def of_pieces(number: int) -> str:
        return "".join(f"# Part {each}\n\nword\n\n" for each in range(number))

    put(library, None, "long.md", of_pieces(5_001))
    put(library, None, "short.md", of_pieces(5_000))
    await library.look()
    assert {each.path: each.cut for each in await library.files()} == {
        "long.md": True,
        "short.md": False,
    }


async def test_an_unreadable_file_is_reported_and_the_other_files_are_found(
    library: KnowledgeLibrary, caplog_loguru: list[str]
) -> None:
    put(library, None, "locked.pdf", pdf("secret", password="x"))
    put(library, None, "scan.pdf", pdf("", ""))
    put(library, None, "good.txt", "the door is vermilion")
    (library.folder_of(None) / "link.txt").symlink_to("/etc/passwd")
    await library.look()
    problems = {each.path: each.problem for each in await library.files()}
    assert problems["good.txt"] == ""
    assert "encrypted" in problems["locked.pdf"]
    assert "scan" in problems["scan.pdf"]
    assert "link.txt" not in problems
    assert any("knowledge/bot/locked.pdf: it is encrypted" in line for line in caplog_loguru)
    assert await found(library, "vermilion") == ["good.txt"]
    assert await library.look() == 0


async def test_a_document_of_a_member_is_found_and_erased_together_with_the_member(
    library: KnowledgeLibrary, memory: MemoryKeeper, tmp_path: Path
) -> None:
    learn = library.learn
    await learn(GROUP, "../../../etc/rota.md", b"# Rota\nLin vermilion cleans", given_by="10001")
    await learn(GROUP, "other.md", b"the lake is turquoise", given_by="20002")
    await learn(PRIVATE, "mine.md", b"vermilion secrets", given_by="20002")
    assert await found(library, "cleaning rota") == ["rota.md, Rota"]
    everything = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"vermilion" in everything
    names = [str(each) for each in (tmp_path / "data" / "knowledge").rglob("*.md")]
    assert all("10001/" not in each.partition("chats/")[2].partition("/")[2] for each in names)
    person = Person(adapter="onebot_v11", user_id="10001", instances=("onebot_v11",))
    assert await memory.erase(person, [PRIVATE]) == 2
    left = (tmp_path / "data" / "knowledge").rglob("*")
    files = [each for each in left if each.is_file()]
    assert not any(b"vermilion" in each.read_bytes() for each in files)
    assert not any("10001" in str(each) for each in files)
    assert await found(library, "lake") == ["other.md"]


async def test_a_given_document_that_cannot_be_read_is_refused_and_not_stored(
    library: KnowledgeLibrary,
) -> None:
    for name, data, why in (
        ("a.exe", b"MZ", "such files are not read"),
        ("scan.pdf", pdf("", ""), "scan"),
        ("a.txt", b"", "empty"),
    ):
        with pytest.raises(DocumentRefused, match=why):
            await library.learn(GROUP, name, data, given_by="10001")
    assert await library.files(GROUP) == []
    assert [each for each in library.folder_of(GROUP).rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("member", ["", "10001"])
async def test_a_given_document_that_cannot_be_read_leaves_the_earlier_one(
    library: KnowledgeLibrary, member: str
) -> None:
    await library.learn(GROUP, "rota.txt", b"Lin cleans the vermilion door", given_by=member)
    before = await library.files(GROUP)
    for data, why in ((b"", "empty"), (bytes(MAX_BYTES + 1), "more than")):
        with pytest.raises(DocumentRefused, match=why):
            await library.learn(GROUP, "rota.txt", data, given_by=member)
    assert await library.files(GROUP) == before
    assert await found(library, "vermilion") == ["rota.txt"]
    await library.learn(GROUP, "rota.txt", b"Ann cleans the turquoise door", given_by=member)
    assert await found(library, "vermilion") == []
    assert await found(library, "turquoise") == ["rota.txt"]
    assert await library.look() == 0


async def test_a_damaged_index_is_made_again(library: KnowledgeLibrary) -> None:
    put(library, None, "a.txt", "the door is vermilion")
    await library.look()
    library.close()
    (library.folder_of(None).parent / ".index.sqlite3").write_bytes(b"no database" * 1000)
    await library.look()
    assert await found(library, "vermilion") == ["a.txt"]
