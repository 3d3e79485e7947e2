"""Personas have names and versions. A policy refers to a persona by its name."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy import PolicyFile
from nekro_core.policy.overrides import ChatOverrides
from nekro_core.policy.personas import (
    DOCUMENTS,
    MOST_VERSIONS,
    PersonaChanged,
    PersonaError,
    PersonaLibrary,
    UnknownPersona,
)
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.policy.settings import TriggerSettings
from nekro_core.system.documents import FileDocuments
from nekro_core.system.working_copies import WorkingCopies

CHAT = ChatKey.parse("web-private_lin")


@pytest.fixture
def library(tmp_path: Path) -> PersonaLibrary:
    return PersonaLibrary(tmp_path, wall=lambda: 1000.0)


async def test_each_save_makes_a_version_and_older_versions_can_be_restored(
    library: PersonaLibrary, tmp_path: Path
) -> None:
    await library.save("Mei", "You are Mei.", by="Lin")
    await library.save("Mei", "You are Mei, a cat.", note="funnier")
    restored = await library.restore("Mei", 1, by="Lin")
    assert [each.text for each in restored.versions] == [
        "You are Mei.",
        "You are Mei, a cat.",
        "You are Mei.",
    ]
    assert restored.revision == 3
    assert restored.newest.note == "version 1 restored"
    again = PersonaLibrary(tmp_path)
    assert again.get("Mei") == restored
    assert again.text("Mei") == "You are Mei."


async def test_saving_an_unchanged_text_makes_no_version(library: PersonaLibrary) -> None:
    first = await library.save("Mei", "You are Mei.")
    assert await library.save("Mei", "  You are Mei.\r\n") == first


async def test_the_second_of_two_people_who_change_the_same_version_is_refused(
    library: PersonaLibrary,
) -> None:
    first = await library.save("Mei", "You are Mei.", revision=0)
    await library.save("Mei", "You are Mei, a cat.", revision=first.revision)
    with pytest.raises(PersonaChanged, match="version 2"):
        await library.save("Mei", "You are Mei, a dog.", revision=first.revision)
    with pytest.raises(PersonaChanged):
        await library.save("Mei", "Another one.", revision=0)
    with pytest.raises(PersonaChanged):
        await library.remove("Mei", revision=1)
    await library.remove("Mei", revision=2)
    with pytest.raises(PersonaChanged, match="removed"):
        await library.save("Mei", "You are Mei, a dog.", revision=2)


async def test_two_saves_at_once_make_two_versions(library: PersonaLibrary) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(library.save, "Mei", f"You are number {number}.")
    assert [each.number for each in library.get("Mei").versions] == [1, 2, 3, 4, 5]


async def test_a_removed_persona_can_be_restored(library: PersonaLibrary) -> None:
    await library.save("Mei", "You are Mei.")
    await library.remove("mei")
    assert library.text("Mei") is None
    assert library.all() == ()
    assert [each.name for each in library.all(removed=True)] == ["Mei"]
    with pytest.raises(UnknownPersona):
        await library.remove("Mei")
    await library.bring_back("Mei")
    assert library.text("Mei") == "You are Mei."


@pytest.mark.parametrize("name", ["", " ", "../x", "a/b", "a\nb\0", "x" * 65, "<script>", ".", "-"])
async def test_an_impossible_name_is_refused(library: PersonaLibrary, name: str) -> None:
    with pytest.raises(PersonaError, match="expected letters"):
        await library.save(name, "You are Mei.")


@pytest.mark.parametrize(
    ("text", "says"),
    [("  ", "empty"), ("x" * 20_001, "20001"), ("a\0", "stored"), ("\ud800", "st")],
)
async def test_an_invalid_text_is_refused(library: PersonaLibrary, text: str, says: str) -> None:
    with pytest.raises(PersonaError, match=says):
        await library.save("Mei", text)


@pytest.mark.parametrize("name", ["小雪", "Ирина", "v1.2 (beta)", "con", "a" * 64, "雪" * 64, "ß"])
async def test_names_in_all_scripts_are_accepted(library: PersonaLibrary, name: str) -> None:
    await library.save(name, "You are this.")
    assert library.text(name) == "You are this."
    assert library.text(name.upper()) == "You are this."


async def test_the_oldest_of_many_versions_are_dropped(library: PersonaLibrary) -> None:
    for number in range(MOST_VERSIONS + 3):
        await library.save("Mei", f"You are {number}.")
    versions = library.get("Mei").versions
    assert len(versions) == MOST_VERSIONS
    assert versions[0].number == 4


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the library, which looks at its folder once a second, has seen a change."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.02)


async def test_if_the_file_is_broken_the_last_valid_personas_stay(
    library: PersonaLibrary, tmp_path: Path
) -> None:
    await library.save("Mei", "You are Mei.")
    await library.save("Lin", "You are Lin.")
    file = tmp_path / "personas" / "mei.json"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.follow)
        file.write_text('{"name": "Mei", "versions": [', "utf-8")
        await anyio.sleep(1.3)
        assert library.text("Mei") == "You are Mei."
        good = {"name": "Mei", "versions": [{"number": 7, "text": "By hand."}]}
        file.write_text(json.dumps(good), "utf-8")
        await until(lambda: library.text("Mei") == "By hand.")
        file.unlink()
        await until(lambda: library.text("Mei") is None)
        assert library.text("Lin") == "You are Lin."
        tasks.cancel_scope.cancel()


async def test_a_policy_uses_the_newest_version_of_a_persona_by_its_name(
    library: PersonaLibrary, tmp_path: Path
) -> None:
    file = PolicyFile(FileDocuments(tmp_path))
    policies = PolicyResolver(
        file,
        AgentSettings(persona="the bot's own"),
        TriggerSettings(),
        ScriptedModel([]),
        personas=library.text,
    )
    library.listen(policies.recompute)
    assert policies.of(CHAT).persona == "the bot's own"
    await file.put(("chats", str(CHAT)), "persona_name", "Mei")
    # a persona with this name does not exist yet
    assert policies.of(CHAT).persona == "the bot's own"
    await library.save("Mei", "You are Mei.")
    assert policies.of(CHAT).persona == "You are Mei."
    await library.save("Mei", "You are Mei, a cat.")
    assert policies.of(CHAT).persona == "You are Mei, a cat."
    await file.put(("chats", str(CHAT)), "persona", "A text wins.")
    assert policies.of(CHAT).persona == "A text wins."
    await file.put(("chats", str(CHAT)), "persona", None)
    await library.remove("Mei")
    assert policies.of(CHAT).persona == "the bot's own"


def test_the_more_specific_table_decides_between_a_text_and_a_name() -> None:
    text, name = ChatOverrides(persona="a text"), ChatOverrides(persona_name="Mei")
    assert text.over(name).persona_name is None
    assert text.over(name).persona == "a text"
    assert name.over(text).persona is None
    assert name.over(text).persona_name == "Mei"
    assert ChatOverrides().over(name) == name


async def test_if_two_processes_change_personas_the_later_one_is_warned(tmp_path: Path) -> None:
    shared = FileDocuments(tmp_path / "shared")
    ours, theirs = [
        WorkingCopies(shared, tmp_path / name, patterns=[DOCUMENTS], secret=[DOCUMENTS])
        for name in ("ours", "theirs")
    ]
    for copies in (ours, theirs):
        await copies.settle()
    here = PersonaLibrary(tmp_path / "ours", documents=ours)
    there = PersonaLibrary(tmp_path / "theirs", documents=theirs)
    await here.save("Mei", "You are Mei.")
    await theirs.settle()
    first = await there.save("mei", "You are Mei, a cat.")
    assert first.revision == 2
    with pytest.raises(PersonaChanged, match="changed by somebody else"):
        await here.save("Mei", "You are Mei, a dog.", revision=1)
    assert here.text("Mei") == "You are Mei, a cat.", (
        "after the warning the new version can be read"
    )
    await here.save("Mei", "You are Mei, a dog.", revision=2)
    await theirs.settle()
    again = PersonaLibrary(tmp_path / "theirs")
    assert [each.text for each in again.get("mei").versions] == [
        "You are Mei.",
        "You are Mei, a cat.",
        "You are Mei, a dog.",
    ]
