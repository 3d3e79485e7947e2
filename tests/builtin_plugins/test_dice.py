"""The dice tool returns the number to the code and posts it in the chat."""

import pytest

from nekro_core.tools.outcome import ToolCallFailed, ToolReturn
from tests.builtin_plugins.conftest import Call
from tests.plugins.world import World


async def test_one_call_rolls_and_posts_the_result(world: World, run: Call) -> None:
    rolled = await run("roll_dice", sides=20)
    assert isinstance(rolled, ToolReturn)
    assert 1 <= rolled.value <= 20
    assert world.outgoing.texts == [f"🎲 1d20: {rolled.value}"]


async def test_many_dice_are_shown_with_their_sum(world: World, run: Call) -> None:
    rolled = await run("roll_dice", 6, 3)
    (text,) = world.outgoing.texts
    numbers, total = text.removeprefix("🎲 3d6: ").split(" = ")
    each = [int(number) for number in numbers.split(" + ")]
    assert len(each) == 3
    assert all(1 <= number <= 6 for number in each)
    assert sum(each) == int(total) == rolled.value


async def test_every_side_of_the_dice_is_rolled(run: Call) -> None:
    seen = {(await run("roll_dice", sides=2)).value for _ in range(64)}
    assert seen == {1, 2}


@pytest.mark.parametrize(
    ("sides", "count", "says"),
    [
        (1, 1, "1 sides"),
        (0, 1, "0 sides"),
        (1_001, 1, "1001 sides"),
        (6, 0, "0 dice"),
        (6, 101, "101 dice"),
        (-6, 1, "-6 sides"),
        ("many", 1, "sides"),
    ],
)
async def test_impossible_dice_are_refused(
    world: World, run: Call, sides: int, count: int, says: str
) -> None:
    failed = await run("roll_dice", sides, count)
    assert isinstance(failed, ToolCallFailed)
    assert says in failed.message
    assert not world.outgoing.sent
