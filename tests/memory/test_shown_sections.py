"""A prompt's sections from memory are read once, and again only after something has changed. Each
change is seen in the next prompt."""

from collections.abc import Awaitable, Callable

import pytest

from nekro_core.memory.keeper import MemoryKeeper, ShownMemory
from nekro_core.memory.notes.book import NewNote
from nekro_core.memory.settings import MemorySettings
from nekro_core.store import Person, Store
from tests.memory.conftest import GROUP, LIN, OTHER_GROUP, QuickModel, say

Change = Callable[[MemoryKeeper, Store], Awaitable[object]]


async def shown(memory: MemoryKeeper, *people: str, before: int = 21) -> ShownMemory:
    return await memory.sections(GROUP, before_seq=before, people=people or (LIN.user_id,))


@pytest.fixture
async def remembered(memory: MemoryKeeper, store: Store, model: QuickModel) -> MemoryKeeper:
    """Make a memory with two summaries and a note."""
    model.answers = ["They spoke of the plan."]
    for number in range(60):
        await say(store, f"line {number}", message_id=str(number))
    await memory.notes.keep(GROUP, NewNote(text="meets on Friday"))
    await shown(memory, before=50)
    await memory.work()
    return memory


async def test_sections_are_read_once(remembered: MemoryKeeper, store: Store) -> None:
    first = await shown(remembered)
    assert "They spoke of the plan." in first.summary
    assert "meets on Friday" in first.notes
    await say(store, "one more line")
    assert (await shown(remembered) is first) == (store.messages.shared is False)


async def _adds_note(memory: MemoryKeeper, _: Store) -> None:
    await memory.notes.keep(GROUP, NewNote(text="likes tea", about_id=LIN.user_id))


async def _deletes_summaries(_: MemoryKeeper, store: Store) -> None:
    await store.summaries.delete_of_chat(GROUP)


async def _links_chat(memory: MemoryKeeper, _: Store) -> None:
    await memory.notes.keep(OTHER_GROUP, NewNote(text="the other chat likes jazz"))
    await memory.scope.link([GROUP, OTHER_GROUP], "club")


async def _erases_person(_: MemoryKeeper, store: Store) -> None:
    lin = Person(adapter="onebot_v11", user_id=LIN.user_id, instances=("onebot_v11",))
    await store.erasing.erase(lin, await store.erasing.look(lin))


async def _removes_old_messages(_: MemoryKeeper, store: Store) -> None:
    for number in range(300):
        await say(store, f"later {number}")
    await store.retention.messages(before=2_000_000.0)


async def _changes_settings(memory: MemoryKeeper, _: Store) -> None:
    memory.settings = MemorySettings(notes=False)


@pytest.mark.parametrize(
    "change",
    [
        _adds_note,
        _deletes_summaries,
        _links_chat,
        _erases_person,
        _removes_old_messages,
        _changes_settings,
    ],
)
async def test_a_change_is_seen_in_the_next_prompt(
    remembered: MemoryKeeper, store: Store, change: Change
) -> None:
    before = await shown(remembered)
    await change(remembered, store)
    assert await shown(remembered) != before


async def test_other_people_and_another_window_get_other_sections(
    remembered: MemoryKeeper, store: Store
) -> None:
    await remembered.notes.keep(GROUP, NewNote(text="sings", about_id="20002"))
    first = await shown(remembered)
    assert "sings" not in first.notes
    assert "sings" in (await shown(remembered, LIN.user_id, "20002")).notes
    assert (await shown(remembered, before=store.messages.last_seq)).summary != first.summary
