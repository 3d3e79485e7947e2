"""The memory limit of all boxes together decides which work waits, is refused or is ended."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from nekro_core.sandbox.box import Box, BoxesFull, RunLimits, StopReason
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.memory_limit import MemoryLimit, half_of_machine
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import Tools, play

MB = 1024 * 1024


class FakeBox:
    """The parts of a box that `MemoryLimit` uses."""

    def __init__(self, used_mb: int, *, busy: bool = True) -> None:
        self.used_bytes = used_mb * MB
        self.busy = busy
        self.ended: list[str] = []

    def end_work(self, because: str) -> None:
        self.ended.append(because)


def bound(*boxes: FakeBox, limit_mb: int = 1000, wait_s: float = 0.0) -> MemoryLimit:
    return MemoryLimit(limit_mb * MB, wait_s, lambda: boxes)


def test_over_the_limit_only_the_box_with_the_most_memory_is_ended() -> None:
    boxes = (FakeBox(300), FakeBox(600), FakeBox(90))
    bound(*boxes).look()
    assert not any(box.ended for box in boxes)
    boxes[2].used_bytes = 110 * MB
    bound(*boxes).look()
    assert [bool(box.ended) for box in boxes] == [False, True, False]
    assert "1000 MB" in boxes[1].ended[0]
    assert "600 MB" in boxes[1].ended[0]


def test_busy_boxes_within_the_limit_are_not_ended_for_the_memory_of_idle_boxes() -> None:
    boxes = (FakeBox(400), FakeBox(300), FakeBox(700, busy=False))
    total = bound(*boxes)
    total.look()
    assert not any(box.ended for box in boxes)
    assert total.crowded, "idle boxes must be ended to free memory"


async def test_new_work_waits_for_free_memory_and_is_then_refused() -> None:
    full, mine = FakeBox(900), FakeBox(0, busy=False)
    with pytest.raises(BoxesFull, match="900 of 1000 MB"):
        await bound(full, mine).admit(mine)
    total = bound(full, mine, wait_s=10)
    await total.admit(full)  # a box at work is admitted at once
    admitted: list[str] = []

    async def enter(name: str, box: FakeBox | None = None) -> None:
        await total.admit(box)
        admitted.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enter, "first", mine)
        for _ in range(5):  # in this time `admit` begins to wait
            await anyio.lowlevel.checkpoint()
        assert admitted == []
        full.used_bytes = 100 * MB
        await enter("second")
    assert admitted == ["first", "second"], "later work must not overtake earlier work"


async def test_the_number_of_boxes_at_work_is_limited() -> None:
    boxes = [FakeBox(1) for _ in range(14)]
    await bound(*boxes, limit_mb=1000).admit()
    boxes.append(FakeBox(1))
    with pytest.raises(BoxesFull):
        await bound(*boxes, limit_mb=1000).admit()
    boxes[0].busy = False
    await bound(*boxes, limit_mb=1000).admit()


def test_the_default_limit_is_half_of_the_machines_memory(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  4000000 kB\nMemFree: 1 kB\n")
    assert half_of_machine(tmp_path / "meminfo") == 2_000_000 * 1024
    assert half_of_machine(tmp_path / "nowhere") == 2 * 1024 * MB


@pytest.fixture
async def tight() -> AsyncIterator[JailBackend]:
    """A jail whose boxes may use 250 MB together. Each may use 192 MB for its processes, and
    more for its files."""
    settings = SandboxSettings(total_memory_mb=250, total_wait_seconds=0.5)
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(settings, tasks)
        yield backend
        await backend.aclose()
        tasks.cancel_scope.cancel()


TAKE = """
    kept = bytearray(b"x") * ({mb} * 1024**2)
    import time
    time.sleep({seconds})
    print("kept", len(kept) // 1024**2)
"""


@pytest.mark.jail
async def test_boxes_that_keep_their_own_limits_must_also_keep_the_common_limit(
    tight: JailBackend,
) -> None:
    small, large = await tight.create(SMALL), await tight.create(SMALL)
    results = {}

    async def take(name: str, box: Box, mb: int) -> None:
        results[name] = await play(box, TAKE.format(mb=mb, seconds=3), RunLimits(seconds=20))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take, "small", small, 80)
        await anyio.sleep(0.5)
        tasks.start_soon(take, "large", large, 160)
    assert results["small"].output == "kept 80\n", results
    assert results["large"].stop is StopReason.OUT_OF_MEMORY, results
    assert "all sandboxes together used more than 250 MB" in results["large"].error
    assert (await play(large, "print('again')")).output == "again\n"


@pytest.mark.jail
async def test_files_of_idle_boxes_count_until_the_boxes_are_destroyed(
    tight: JailBackend,
) -> None:
    full = await tight.create(SMALL)
    for number in range(15):
        await full.write_file(str(number), bytes(MB))
    boxes = [full]
    for _ in range(20):
        if tight.crowded:
            break
        boxes.append(box := await tight.create(SMALL))
        for number in range(15):
            await box.write_file(str(number), bytes(MB))
        await anyio.sleep(1)  # in this time an idle box frees the memory of its ready interpreter
    assert tight.crowded
    assert len(boxes) < 16, "250 MB are enough for fewer than 16 boxes with 15 MB of files each"
    with pytest.raises(BoxesFull):
        await tight.create(SMALL)
    with pytest.raises(BoxesFull):
        await full.start_run([], Tools().handle)
    with pytest.raises(BoxesFull):
        await full.execute("true")
    for box in boxes[1:5]:
        await box.destroy()
    assert (await play(full, "print('room')")).output == "room\n"


@pytest.mark.jail
async def test_the_self_check_names_the_limit_of_all_boxes(tight: JailBackend) -> None:
    checked = await tight.self_check()
    assert "all boxes together at most 250 MB" in checked.checks[0].seen
