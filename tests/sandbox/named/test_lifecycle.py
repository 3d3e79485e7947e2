"""Tests of named boxes from their first use to their end, with sleep and death. The tests set the
clock.

The boxes are in memory here. `tests/sandbox/tools` tests real boxes.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.sandbox.box import BackendUnavailable, BoxLost, ImageUnavailable
from nekro_core.sandbox.named import (
    FolderStorage,
    ImageMismatch,
    NamedBoxes,
    NamedBoxLimits,
    OwnerBoxes,
    TooManyBoxes,
    UseEffect,
)
from nekro_core.sandbox.preview.registry import PreviewTargetState
from tests.sandbox.named.memory_boxes import Clock, MemorySource

NOTE = "/home/user/note"
LIMITS = NamedBoxLimits(sleep_after_s=600, running=8, per_owner=3)


class World:
    """`NamedBoxes` with a fake source and clock."""

    def __init__(self, folder: Path, limits: NamedBoxLimits = LIMITS) -> None:
        self.folder = folder
        self.source = MemorySource()
        self.clock = Clock()
        self.limits = limits
        self.fit = 100
        """How many living boxes the memory limit allows."""
        self.begin()

    def begin(self) -> None:
        """Start or restart the process: make `NamedBoxes` on the same folder."""
        self.pool_bytes = 0
        self.keeper = NamedBoxes(
            self.source,
            FolderStorage(self.folder),
            self.limits,
            clock=self.clock,
            crowded=lambda: len(self.source.living) > self.fit,
            pool_bytes=lambda: self.pool_bytes,
        )
        self.lin: OwnerBoxes = self.keeper.of("lin")

    async def write(self, text: str, name: str = "default") -> None:
        async with self.lin.use(name, UseEffect.FILES) as used:
            await used.box.write_file(NOTE, text.encode())

    async def read(self, name: str = "default") -> str:
        async with self.lin.use(name, UseEffect.NOTHING) as used:
            return (await used.box.read_file(NOTE, limit=100)).decode()

    async def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        await self.keeper.end_idle()

    async def listed(self) -> list[tuple[str, str, bool]]:
        return [(each.name, each.image, each.running) for each in await self.lin.list()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "boxes")


async def test_the_first_use_creates_the_box_and_later_uses_find_it(world: World) -> None:
    assert await world.listed() == []
    await world.write("milk")
    assert await world.listed() == [("default", "python", True)]
    assert await world.read() == "milk"
    assert len(world.source.made) == 1


async def test_an_unused_box_sleeps_and_its_next_use_wakes_it(world: World) -> None:
    await world.write("milk")
    await world.pass_time(599)
    assert len(world.source.living) == 1
    await world.pass_time(1)
    assert world.source.living == []
    assert await world.listed() == [("default", "python", False)]
    async with world.lin.use() as used:
        assert used.named.pop_notices() == {"woke": True}
        assert used.named.pop_notices() == {}
    assert await world.read() == "milk"
    assert len(world.source.living) == 1


async def test_the_time_until_sleep_begins_at_the_end_of_the_last_call(world: World) -> None:
    async with world.lin.use():
        await world.pass_time(10_000)
        assert len(world.source.living) == 1, "a running call keeps the box awake"
    await world.pass_time(599)
    assert len(world.source.living) == 1
    await world.pass_time(1)
    assert world.source.living == []


async def test_each_box_sleeps_after_its_own_time(world: World) -> None:
    await world.lin.create("quick", image="node:22", sleep_after_s=5)
    await world.lin.create("slow", image="python", sleep_after_s=500)
    await world.pass_time(5)
    assert await world.listed() == [("quick", "node:22", False), ("slow", "python", True)]


async def test_listing_boxes_wakes_no_box_and_keeps_no_box_awake(world: World) -> None:
    await world.write("milk")
    for _ in range(6):
        await world.pass_time(100)
        await world.listed()
        named = await world.lin.find("default")
        assert named is not None
        _ = named.preview_state
    assert world.source.living == []
    assert named.preview_state is PreviewTargetState.SLEEPING
    with pytest.raises(BoxLost, match="sleeps"):
        await named.connect(8000)
    await world.listed()
    assert world.source.living == []


async def test_create_returns_true_only_for_a_new_box(world: World) -> None:
    assert await world.lin.create("x", image="node:22", sleep_after_s=60)
    assert not await world.lin.create("x", image="node:22", sleep_after_s=5)
    await world.pass_time(59)
    assert len(world.source.living) == 1, "creating the box again must change nothing"
    await world.pass_time(1)
    assert not await world.lin.create("x", image="node:22", sleep_after_s=60)
    assert world.source.living == [], "creating the box again must not wake it"
    await world.write("milk")
    assert not await world.lin.create("default", image="python", sleep_after_s=60)


async def test_concurrent_calls_for_a_new_box_make_only_one_box(world: World) -> None:
    world.source.pause_s = 0.01
    created: list[bool] = []

    async def create() -> None:
        created.append(await world.lin.create("x", image="python", sleep_after_s=60))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(create)
            tasks.start_soon(world.write, "milk", "x")
    assert len(world.source.made) == 1
    assert sum(created) <= 1
    assert created.count(False) >= 9


async def test_another_image_is_refused_and_the_box_stays(world: World) -> None:
    await world.lin.create("x", image="node:22", sleep_after_s=60)
    with pytest.raises(ImageMismatch, match=r"x is there already, from the image node:22"):
        await world.lin.create("x", image="python", sleep_after_s=60)
    assert not await world.lin.create("x", image="python", sleep_after_s=60, any_image=True)
    assert await world.listed() == [("x", "node:22", True)]


@pytest.mark.parametrize(
    ("image", "error"),
    [("no/such", ImageUnavailable("no/such", ())), ("python", BackendUnavailable("not now"))],
)
async def test_a_box_that_could_not_start_is_not_listed_and_its_name_is_free(
    world: World, image: str, error: Exception
) -> None:
    world.source.failing = [error]
    with pytest.raises(type(error)):
        await world.lin.create("x", image=image, sleep_after_s=60)
    assert await world.listed() == []
    world.source.failing = []
    assert await world.lin.create("x", image="python", sleep_after_s=60), "its name is free"


async def test_a_box_that_cannot_be_woken_still_sleeps(world: World) -> None:
    await world.write("milk")
    await world.pass_time(600)
    world.source.failing = [BackendUnavailable("not now")]
    with pytest.raises(BackendUnavailable):
        await world.read()
    assert await world.listed() == [("default", "python", False)]
    assert await world.read() == "milk"


async def test_the_number_of_boxes_of_an_owner_is_limited(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.write("milk", name)
    with pytest.raises(TooManyBoxes, match=r"there are 3 already.*a, b, c"):
        await world.write("milk", "d")
    assert await world.lin.destroy("b")
    await world.write("milk", "d")
    mei = world.keeper.of("mei")
    assert await mei.create("d", image="python", sleep_after_s=60)


async def test_with_too_many_running_boxes_the_one_unused_longest_sleeps(tmp_path: Path) -> None:
    world = World(tmp_path, NamedBoxLimits(running=2))
    for name in ("a", "b", "c"):
        world.clock.now += 1
        await world.write(name, name)
    async with world.lin.use("a"):
        await world.keeper.make_room()
    assert [name for name, _, running in await world.listed() if running] == ["a", "c"]
    assert await world.read("b") == "b"


async def test_when_boxes_use_too_much_memory_all_that_must_go_sleep_but_not_one_in_use(
    world: World,
) -> None:
    for name in ("a", "b", "c"):
        world.clock.now += 1
        await world.write(name, name)
    world.fit = 1
    async with world.lin.use("a"):
        await world.keeper.look()
        assert [name for name, _, running in await world.listed() if running] == ["a"]
    assert await world.read("b") == "b"


async def test_when_idle_boxes_use_too_much_memory_the_one_unused_longest_sleeps(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, NamedBoxLimits(idle_bytes=20))
    for name in ("a", "b", "c"):
        world.clock.now += 1
        await world.write(name, name)
    world.clock.now += 2
    await world.keeper.look()
    assert len(world.source.living) == 3  # the three boxes use 18 of 20 bytes
    world.pool_bytes = 5
    async with world.lin.use("a"):  # a box in use does not count
        await world.keeper.look()
        assert len(world.source.living) == 3
    await world.keeper.look()  # nor does a box that was in use a moment ago
    assert len(world.source.living) == 3
    world.clock.now += 2
    await world.keeper.look()
    assert [name for name, _, running in await world.listed() if running] == ["a", "c"]
    assert await world.read("b") == "b"


async def test_a_use_that_begins_while_the_box_falls_asleep_keeps_it_awake(world: World) -> None:
    await world.write("milk")
    world.clock.now += 600
    (box,) = world.source.made
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.keeper.end_idle)
        while not box.exports:
            await anyio.sleep(0)
        async with world.lin.use():
            await anyio.sleep(0.01)
            assert box.alive


async def test_a_write_while_the_box_falls_asleep_is_not_lost(world: World) -> None:
    await world.write("milk")
    world.clock.now += 600
    (box,) = world.source.made
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.keeper.end_idle)
        while not box.exports:
            await anyio.sleep(0)
        box.hold = anyio.Event()  # the archive has only what was written before this
        await world.write("tea")
        box.hold.set()
    assert box.alive
    await world.pass_time(600)
    assert await world.read() == "tea"


async def test_if_the_next_use_is_the_first_to_notice_a_boxs_death_it_is_told_of_it(
    world: World,
) -> None:
    await world.write("milk")
    await world.lin.save()
    await world.write("lost")
    world.source.made[0].alive = False
    assert await world.listed() == [("default", "python", False)]
    async with world.lin.use() as used:
        news = used.named.pop_notices()
    assert news["woke"] is True
    assert "died" in str(news["fault"])
    assert await world.read() == "milk"


async def test_a_boxs_death_during_a_call_is_an_error_of_that_call_and_not_told_to_later_uses(
    world: World,
) -> None:
    await world.write("milk")
    await world.lin.save()

    async def call() -> None:
        async with world.lin.use() as used:
            world.source.made[0].alive = False
            await used.box.read_file(NOTE, limit=1)

    with pytest.raises(BoxLost):
        await call()
    async with world.lin.use() as used:
        assert used.named.pop_notices() == {"woke": True}
    assert await world.read() == "milk"


async def test_the_death_of_an_idle_box_is_reported_to_the_next_use(world: World) -> None:
    await world.write("milk")
    await world.keeper.look()
    world.source.made[0].alive = False
    await world.keeper.look()
    assert world.source.made[0].destroyed, "the dead box must be destroyed"
    async with world.lin.use() as used:
        assert "died" in str(used.named.pop_notices()["fault"])
    assert await world.read() == "milk"


async def test_a_box_that_sleeps_long_is_removed_from_memory_and_found_again(world: World) -> None:
    await world.write("milk", "shown")
    await world.write("tea")
    shown = await world.lin.find("shown")
    await world.pass_time(600)
    world.keeper.forget_quiet()
    assert len(world.lin.known) == 2, "both boxes must be in memory until then"
    await world.pass_time(4000)
    world.keeper.forget_quiet()
    assert world.lin.known == ()
    assert await world.listed() == [("default", "python", False), ("shown", "python", False)]
    assert await world.lin.find("shown") is shown, "an object that is in use must stay in memory"
    assert (await world.read("shown"), await world.read()) == ("milk", "tea")


async def test_destroying_ends_calls_and_frees_the_name(world: World) -> None:
    await world.write("milk", "x")
    await world.lin.save()
    named = await world.lin.find("x")

    async def call() -> None:
        async with world.lin.use("x") as used:
            assert await world.lin.destroy("x")
            await used.box.write_file(NOTE, b"more")

    with pytest.raises(BoxLost):
        await call()
    assert named is not None
    assert named.preview_state is PreviewTargetState.GONE
    assert await world.listed() == []
    assert not await world.lin.destroy("x")
    assert [path for path in world.folder.rglob("*") if path.is_file()] == []
    assert await world.lin.create("x", image="python", sleep_after_s=60)
    assert world.source.living[0].files == {}


async def test_a_box_that_is_destroyed_during_its_start_is_replaced_for_the_waiting_caller(
    world: World,
) -> None:
    world.source.pause_s = 0.01
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.write, "milk", "x")
        await anyio.sleep(0.003)
        assert await world.lin.destroy("x")
    # The write, which waited for the box, got a new box of the same name.
    assert len(world.source.living) == 1
    assert await world.read("x") == "milk"


async def test_a_box_that_is_destroyed_while_it_falls_asleep_stays_destroyed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.write("milk", "x")
    named = await world.lin.find("x")
    assert named is not None
    stored, destroying = anyio.Event(), anyio.Event()
    save = named._storage.save

    async def slow_disk(*args: Any) -> Any:
        saved = await save(*args)
        stored.set()
        await destroying.wait()
        return saved

    monkeypatch.setattr(named._storage, "save", slow_disk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(named.sleep)
        await stored.wait()
        tasks.start_soon(world.lin.destroy, "x")
        await anyio.sleep(0.01)
        destroying.set()
    assert named.destroyed
    assert named.preview_state is PreviewTargetState.GONE


async def test_boxes_are_kept_after_the_end_of_the_process(world: World) -> None:
    await world.lin.create("x", image="node:22", sleep_after_s=60)
    await world.write("milk", "x")
    await world.write("tea")
    await world.keeper.aclose()
    assert world.source.living == []
    world.begin()
    assert await world.listed() == [("default", "python", False), ("x", "node:22", False)]
    assert await world.read("x") == "milk"
    assert await world.read() == "tea"
    assert not await world.lin.create("x", image="node:22", sleep_after_s=60)
    await world.pass_time(60)
    assert await world.listed() == [("default", "python", True), ("x", "node:22", False)]


async def test_a_box_that_saves_too_slowly_at_the_end_does_not_cost_the_files_of_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "slow", "c"):
        await world.write("milk", name)
    world.source.made[1].hold = anyio.Event()
    with caplog.at_level(logging.ERROR):
        await world.keeper.aclose()
    assert world.source.living == []
    assert [each.getMessage() for each in caplog.records] == [
        "the last changes of the files of slow (lin) are lost: saving took over 2 s"
    ]
    world.begin()
    assert await world.read("a") == "milk"
    assert await world.read("c") == "milk"


async def test_a_changed_box_is_saved_after_a_short_time_and_an_unchanged_one_is_not(
    world: World,
) -> None:
    async with watching(world.keeper):
        await world.write("milk")
        box = world.source.made[0]
        with anyio.fail_after(30):
            while not [*world.folder.glob("*/default.tar")]:
                await anyio.sleep(0.01)
        await world.lin.save()  # this waits for a save that may be under way
    await world.read()
    await world.keeper.look()
    assert box.exports == 1
    world.begin()  # the process starts again, as after a kill
    assert await world.read() == "milk"


@asynccontextmanager
async def watching(keeper: NamedBoxes) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keeper.watch)
        yield
        tasks.cancel_scope.cancel()


async def test_after_a_command_a_box_is_saved_again_when_it_sleeps(
    world: World,
) -> None:
    async with world.lin.use(effect=UseEffect.PROCESSES):
        pass
    await world.lin.save()
    world.source.made[0].files[NOTE] = b"written by a daemon"
    await world.pass_time(600)
    assert await world.read() == "written by a daemon"


async def test_files_that_cannot_be_saved_keep_their_box_awake(world: World) -> None:
    world.folder.parent.mkdir(exist_ok=True)
    world.folder.write_text("no folder can be made here")
    with pytest.raises(Exception, match="cannot be read now"):
        await world.write("milk")
    world.folder.unlink()
    await world.write("milk")
    world.folder.write_text("no folder can be made here")
    await world.keeper.look()
    tried = world.source.made[0].exports
    await world.keeper.look()
    assert world.source.made[0].exports == tried, "the save must not be tried every second"
    await world.pass_time(600)
    assert len(world.source.living) == 1
    world.folder.unlink()
    await world.pass_time(600)
    assert world.source.living == []
    assert await world.read() == "milk"


async def test_a_save_that_was_cancelled_is_done_again(world: World) -> None:
    await world.write("milk")
    named = await world.lin.find("default")
    assert named is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(named.save)
        while not world.source.made[0].exports:
            await anyio.sleep(0)
        tasks.cancel_scope.cancel()
    assert named.changed
    await world.lin.save()
    world.begin()  # the process starts again, as after a kill
    assert await world.read() == "milk"


async def test_files_of_a_killed_save_are_deleted(world: World) -> None:
    await world.write("milk")
    await world.lin.save()
    await world.keeper.aclose()
    (half,) = world.folder.glob("*/default.tar")
    half.with_name("default.tar.new").write_bytes(b"half")
    world.begin()
    assert await world.read() == "milk"
    assert [path.name for path in half.parent.iterdir()] == ["default.tar"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".a", "-a", "a b", "ä", "a\n", "x" * 65])
async def test_an_invalid_name_is_refused(world: World, name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        await world.write("milk", name)


async def test_no_two_owners_share_a_folder(world: World) -> None:
    owners = ["a", "A", "a/b", "a%2Fb", "..", ".", "", "x" * 300, "x" * 301, "ä", "a~b", "\ud800"]
    for owner in owners:
        async with world.keeper.of(owner).use() as used:
            await used.box.write_file(NOTE, repr(owner).encode())
    await world.keeper.aclose()
    world.begin()
    for owner in owners:
        async with world.keeper.of(owner).use() as used:
            assert await used.box.read_file(NOTE, limit=1000) == repr(owner).encode()
    assert all(path.parent == world.folder for path in world.folder.iterdir())
