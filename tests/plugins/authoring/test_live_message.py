"""``ctx.show`` sends a message and edits it when a value changes. If the platform cannot edit
messages, one message with the final value is sent instead."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.chat import DeliveryState, Image, Media, Receipt, Text
from tests.plugins.world import World


@dataclass(frozen=True)
class Glimpse:
    value: Any
    error: Exception | None = None
    final: bool = False


class Film:
    """A source of values that the test gives in advance."""

    def __init__(self, *values: Any, error: Exception | None = None) -> None:
        *self._before, self._last = (Glimpse(value) for value in values)
        self._last = Glimpse(self._last.value, error, final=True)
        self.closed = False

    async def follow(self) -> AsyncGenerator[Glimpse]:
        try:
            for glimpse in (*self._before, self._last):
                yield glimpse
                await anyio.lowlevel.checkpoint()
        finally:
            self.closed = True


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_if_messages_can_be_edited_one_message_follows_the_value(world: World) -> None:
    film = Film("1 of 3", "2 of 3", "3 of 3")
    receipts = await world.ctx().show(film)
    assert world.outgoing.texts == ["1 of 3"]
    assert world.editor.texts == ["2 of 3", "3 of 3"]
    assert {message_id for message_id, _ in world.editor.edits} == {"1"}
    assert receipts[0].ok
    assert film.closed


async def test_if_messages_cannot_be_edited_one_message_is_sent_at_the_end(world: World) -> None:
    world.editor.every_s = None
    await world.ctx().show(Film(None, "2 of 3", "3 of 3"))
    assert (world.outgoing.texts, world.editor.texts) == (["3 of 3"], [])


async def test_empty_values_are_not_sent(world: World) -> None:
    assert await world.ctx().show(Film(None, "", "  \n", None)) == ()
    assert (world.outgoing.texts, world.editor.texts) == ([], [])


async def test_an_unchanged_value_causes_no_edit(world: World) -> None:
    await world.ctx().show(Film("a", "a", "b", "b", "b"))
    assert (world.outgoing.texts, world.editor.texts) == (["a"], ["b"])


async def test_changes_in_quick_succession_are_skipped_except_the_last(world: World) -> None:
    world.editor.every_s = 0.05
    value, final = "0", False

    class Counting:
        async def follow(self) -> AsyncGenerator[Glimpse]:
            nonlocal value, final
            while not final:
                yield Glimpse(value, final=final)
                await anyio.sleep(0)
            yield Glimpse(value, final=True)

    async def count() -> None:
        nonlocal value, final
        for number in range(100):
            value = str(number)
            await anyio.sleep(0.002)
        final = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await world.ctx().show(Counting())
    assert len(world.editor.edits) < 20
    assert world.editor.texts[-1] == "99"


async def test_edits_show_the_end_of_a_long_value_and_the_last_edit_shows_all(world: World) -> None:
    await world.ctx().show(Film("a" * 5000, "a" * 5000 + "b"))
    assert world.outgoing.texts == ["… " + "a" * 1000]
    assert world.editor.texts == ["a" * 5000 + "b"]


@pytest.mark.parametrize(
    ("answer", "again"),
    [(DeliveryState.REJECTED, True), (DeliveryState.PENDING, True), (DeliveryState.UNKNOWN, False)],
)
async def test_if_the_last_edit_fails_its_value_is_sent_as_a_message_unless_the_outcome_is_unknown(
    world: World, answer: DeliveryState, again: bool
) -> None:
    world.editor.answer = answer
    await world.ctx().show(Film("1 of 2", "2 of 2"))
    assert world.outgoing.texts == ["1 of 2", *(["2 of 2"] if again else [])]


async def test_if_the_first_message_has_no_id_the_last_value_is_sent_as_a_new_message(
    world: World,
) -> None:
    world.outgoing.answer = Receipt(state=DeliveryState.PENDING, reason="offline")
    await world.ctx().show(Film("1 of 3", "2 of 3", "3 of 3"))
    assert (world.outgoing.texts, world.editor.texts) == (["1 of 3", "3 of 3"], [])


async def test_an_error_of_the_source_marks_the_sent_message_and_is_raised(world: World) -> None:
    error = ValueError("no such city")
    with pytest.raises(ValueError, match="no such city"):
        await world.ctx().show(Film("looking ...", None, error=error))
    assert (world.outgoing.texts, world.editor.texts) == (["looking ..."], ["looking ... ⚠"])
    with pytest.raises(ValueError, match="no such city"):
        await world.ctx().show(Film(None, None, error=error))
    assert len(world.outgoing.texts) == len(world.editor.texts) == 1


async def test_values_of_any_type_are_shown(world: World) -> None:
    picture = Image(Media(path="/x.png"))
    world.editor.every_s = None
    for value in ({"n": 1}, [1, 2], 7, picture, (Text("look:"), picture)):
        await world.ctx().show(Film(value))
    await world.ctx().show(Film(3), render=lambda n: f"{n} lines")
    assert world.outgoing.texts[:3] == ['{\n  "n": 1\n}', "[\n  1,\n  2\n]", "7"]
    assert [sent[1] for sent in world.outgoing.sent[3:5]] == [
        (picture,),
        (Text("look:"), picture),
    ]
    assert world.outgoing.texts[5] == "3 lines"


async def test_a_cancelled_show_leaves_the_message_unchanged(world: World) -> None:
    world.editor.every_s = 60.0
    film = Film("1 of 2", "2 of 2")
    with anyio.move_on_after(0.05):
        await world.ctx().show(film)
    assert (world.outgoing.texts, world.editor.texts) == (["1 of 2"], [])
    assert film.closed
