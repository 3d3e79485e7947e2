"""Tests that each document store must pass. The tests of an implementation call these functions."""

import anyio
import pytest

from nekro_core.system.documents import (
    KEPT,
    MAX_CHARS,
    DocumentConflict,
    DocumentError,
    DocumentStore,
)

BAD_NAMES = [
    "",
    "/etc/passwd",
    "../x",
    "a/../b",
    ".hidden",
    "a//b",
    "a/",
    " a",
    "a ",
    "a\nb",
    "a\\b",
    "a:b",
    "-a",
    "x" * 201,
]


async def check_read_and_write(documents: DocumentStore) -> None:
    assert await documents.read("conduct.toml") is None
    assert await documents.revision("conduct.toml") is None
    assert list(await documents.revisions("conduct.toml")) == []
    first = await documents.write("conduct.toml", "a = 1\n", expected=None)
    found = await documents.read("conduct.toml")
    assert found is not None
    assert (found.name, found.text, found.revision) == ("conduct.toml", "a = 1\n", first)
    assert await documents.revision("conduct.toml") == first
    second = await documents.write("conduct.toml", "a = 2\n", expected=first)
    assert second != first
    await documents.write("configs/a.b.toml", "猫\r\n", expected=None)
    other = await documents.read("configs/a.b.toml")
    assert other is not None
    assert other.text == "猫\r\n", "every character of the text must be unchanged"


async def check_later_writer_is_told(documents: DocumentStore) -> None:
    first = await documents.write("settings.toml", "[agent]\nlanguage = 'en'\n", expected=None)
    theirs = await documents.write("settings.toml", "[agent]\nlanguage = 'ja'\n", expected=first)
    with pytest.raises(DocumentConflict, match="by somebody else") as told:
        await documents.write("settings.toml", "[agent]\nlanguage = 'zh'\n", expected=first)
    assert told.value.found is not None
    assert told.value.found.revision == theirs
    assert [each for each in told.value.change if each[0] in "+-"] == [
        "-language = 'en'",
        "+language = 'ja'",
    ]
    with pytest.raises(DocumentConflict):
        await documents.write("settings.toml", "", expected=None)
    found = await documents.read("settings.toml")
    assert found is not None
    assert found.revision == theirs, "a refused write must change nothing"


async def check_one_of_many_writers_wins(documents: DocumentStore) -> None:
    revision = await documents.write("settings.toml", "n = 0\n", expected=None)
    won: list[str] = []
    lost: list[int] = []

    async def write(number: int) -> None:
        try:
            won.append(await documents.write("settings.toml", f"n = {number}\n", expected=revision))
        except DocumentConflict:
            lost.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(1, 9):
            tasks.start_soon(write, number)
    assert len(won) == 1
    assert len(lost) == 7
    assert await documents.revision("settings.toml") == won[0]


async def check_earlier_revisions_are_kept(documents: DocumentStore) -> None:
    revision = None
    for number in range(KEPT + 5):
        revision = await documents.write("conduct.toml", f"n = {number}\n", expected=revision)
    kept = await documents.revisions("conduct.toml", 1000)
    assert [one.text for one in kept] == [f"n = {number}\n" for number in range(KEPT + 4, 4, -1)]
    assert kept[0].revision == revision
    assert [one.text for one in await documents.revisions("conduct.toml", 2)] == [
        f"n = {KEPT + 4}\n",
        f"n = {KEPT + 3}\n",
    ]
    # A change is undone by writing an earlier text again.
    await documents.write("conduct.toml", kept[3].text, expected=revision)
    current = await documents.read("conduct.toml")
    assert current is not None
    assert current.text == kept[3].text


async def check_earlier_revisions_are_forgotten(documents: DocumentStore) -> None:
    assert await documents.forget_earlier("conduct.toml") == 0
    revision = None
    for number in range(3):
        revision = await documents.write("conduct.toml", f"n = {number}\n", expected=revision)
    await documents.write("settings.toml", "a = 1\n", expected=None)
    assert await documents.forget_earlier("conduct.toml") == 2
    (kept,) = await documents.revisions("conduct.toml")
    assert (kept.text, kept.revision) == ("n = 2\n", revision)
    assert await documents.write("conduct.toml", "n = 3\n", expected=revision) != revision
    assert await documents.read("settings.toml") is not None


async def check_secret_texts_are_not_kept(documents: DocumentStore) -> None:
    """The caller must make ``documents`` with ``secret={"secrets.toml"}``."""
    first = await documents.write("secrets.toml", "key = 'sk-old'\n", expected=None)
    second = await documents.write("secrets.toml", "key = 'sk-new'\n", expected=first)
    assert [one.revision for one in await documents.revisions("secrets.toml")] == [second]
    with pytest.raises(DocumentConflict) as told:
        await documents.write("secrets.toml", "key = 'sk-other'\n", expected=first)
    assert "sk-" not in str(told.value)
    assert told.value.change == ()


async def check_bad_names_and_texts_are_refused(documents: DocumentStore) -> None:
    for name in BAD_NAMES:
        with pytest.raises(DocumentError, match="no name of a document"):
            await documents.read(name)
        with pytest.raises(DocumentError, match="no name of a document"):
            await documents.write(name, "", expected=None)
    for text in ("nul \0", "half \ud83d", "x" * (MAX_CHARS + 1)):
        with pytest.raises(DocumentError):
            await documents.write("conduct.toml", text, expected=None)
    assert await documents.read("conduct.toml") is None


async def check_documents_are_listed(documents: DocumentStore) -> None:
    assert await documents.listed("*.toml") == {}
    first = await documents.write("conduct.toml", "a = 1\n", expected=None)
    second = await documents.write("conduct.toml", "a = 2\n", expected=first)
    cat = await documents.write("personas/ねこ (a b).json", "{}", expected=None)
    config = await documents.write("plugin_data/a.b/config.yaml", "a: 1\n", expected=None)
    assert await documents.listed("*.toml") == {"conduct.toml": second}
    assert await documents.listed("personas/*.json") == {"personas/ねこ (a b).json": cat}
    assert await documents.listed("plugin_data/*/config.yaml") == {
        "plugin_data/a.b/config.yaml": config
    }


async def check_removed_documents_are_gone(documents: DocumentStore) -> None:
    """The caller must make ``documents`` with ``secret={"secrets.toml"}``."""
    first = await documents.write("conduct.toml", "a = 1\n", expected=None)
    second = await documents.write("conduct.toml", "a = 2\n", expected=first)
    with pytest.raises(DocumentConflict):
        await documents.remove("conduct.toml", expected=first)
    await documents.remove("conduct.toml", expected=second)
    assert await documents.read("conduct.toml") is None
    assert await documents.revision("conduct.toml") is None
    assert await documents.listed("*.toml") == {}
    assert [one.text for one in await documents.revisions("conduct.toml")] == [
        "a = 2\n",
        "a = 1\n",
    ]
    with pytest.raises(DocumentConflict, match="was removed by somebody else"):
        await documents.write("conduct.toml", "a = 3\n", expected=second)
    again = await documents.write("conduct.toml", "a = 3\n", expected=None)
    assert await documents.revision("conduct.toml") == again
    secret = await documents.write("secrets.toml", "key = 'sk-old'\n", expected=None)
    await documents.remove("secrets.toml", expected=secret)
    assert list(await documents.revisions("secrets.toml")) == []


CHECKS = [
    check_read_and_write,
    check_later_writer_is_told,
    check_one_of_many_writers_wins,
    check_earlier_revisions_are_kept,
    check_earlier_revisions_are_forgotten,
    check_secret_texts_are_not_kept,
    check_bad_names_and_texts_are_refused,
    check_documents_are_listed,
    check_removed_documents_are_gone,
]
