"""The callback ``equip`` gets each box when it starts, before its first use."""

from pathlib import Path

import pytest

from nekro_core.sandbox.box import Box, BoxLost
from nekro_core.sandbox.named import FolderStorage, NamedBoxes, NamedBoxLimits, UseEffect
from tests.sandbox.named.memory_boxes import Clock, MemorySource


async def test_a_box_is_equipped_at_each_start_before_it_is_used(tmp_path: Path) -> None:
    equipped: list[tuple[str, str, Box]] = []
    failing = False

    async def equip(owner: str, name: str, box: Box) -> None:
        equipped.append((owner, name, box))
        if failing:
            raise BoxLost("it cannot have a way out")

    clock = Clock()
    keeper = NamedBoxes(
        MemorySource(), FolderStorage(tmp_path), NamedBoxLimits(), clock=clock, equip=equip
    )
    lin = keeper.of("lin")
    for _ in range(2):
        async with lin.use("build", UseEffect.NOTHING) as used:
            assert equipped[-1] == ("lin", "build", used.box)
        clock.now += 10_000
        await keeper.end_idle()
    assert len(equipped) == 2

    failing = True
    with pytest.raises(BoxLost):
        async with lin.use("build", UseEffect.NOTHING):
            raise AssertionError("nobody uses it")
    assert not equipped[-1][2].alive
