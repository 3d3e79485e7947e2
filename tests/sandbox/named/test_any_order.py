"""In any order of events, each name has at most one living box, and no saved file is lost."""

import tempfile
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.named import (
    FolderStorage,
    ImageMismatch,
    NamedBoxes,
    NamedBoxLimits,
    UseEffect,
)
from tests.sandbox.named.memory_boxes import Clock, MemoryBox, MemorySource

NOTE = "/home/user/note"
NAMES = st.sampled_from(["a", "b"])
IMAGES = st.sampled_from(["python", "node:22"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES),
        st.tuples(st.just("read"), NAMES),
        st.tuples(st.just("create"), NAMES, IMAGES),
        st.tuples(st.just("die"), NAMES),
        st.tuples(st.just("refuse"), NAMES),
        st.tuples(st.just("destroy"), NAMES),
        st.tuples(st.just("rest"), st.integers(1, 20)),
        st.tuples(st.just("save")),
        st.tuples(st.just("stop")),
        st.tuples(st.just("kill")),
    ),
    max_size=25,
)


@dataclass
class Known:
    """The expected content of a named box: at present, and after the box's death."""

    image: str
    explicit: bool
    now: bytes = b""
    saved: bytes = b""


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_named_boxes_lose_no_saved_file_in_any_order_of_events(
    steps: list[tuple[object, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Context().run(anyio.run, live, Path(folder), steps)


async def live(folder: Path, steps: list[tuple[object, ...]]) -> None:
    """Carry out the steps. After each one, compare the boxes with what is expected."""
    source, clock = MemorySource(), Clock()
    keeper = begin(folder, source, clock)
    known: dict[str, Known] = {}
    for number, (what, *given_) in enumerate(steps):
        boxes = keeper.of("lin")
        name = str(given_[0]) if given_ else ""
        there = known.get(name)
        match what:
            case "write" | "read":
                there = known.setdefault(name, Known("python", explicit=False))
                effect = UseEffect.FILES if what == "write" else UseEffect.NOTHING
                async with boxes.use(name, effect) as used:
                    held = await content(used.box)  # type: ignore[arg-type]
                    assert held == there.now
                    if what == "write":
                        there.now = str(number).encode()
                        await used.box.write_file(NOTE, there.now)
            case "create":
                image = str(given_[1])
                try:
                    created = await boxes.create(name, image=image, sleep_after_s=10)
                except ImageMismatch:
                    assert there is not None
                    assert there.image != image
                else:
                    assert created == (there is None)
                    known.setdefault(name, Known(image, explicit=True))
            case "die":
                # Only the newest box of a name can be alive.
                if there is not None and (living := await living_box(keeper, name)):
                    living.alive = False
                    there.now = there.saved
            case "refuse":
                source.failing = [BackendUnavailable("not now")]
                try:
                    async with boxes.use(name, UseEffect.NOTHING):
                        known.setdefault(name, Known("python", explicit=False))
                except BackendUnavailable:
                    pass
                source.failing = []
            case "destroy":
                assert await boxes.destroy(name) == (there is not None)
                known.pop(name, None)
            case "rest":
                clock.now += int(str(given_[0]))
                before = {each.name for each in keeper.running}
                await keeper.end_idle()
                for slept in before - {each.name for each in keeper.running}:
                    known[slept].saved = known[slept].now
            case "save":
                await boxes.save()
                for each in keeper.running:
                    known[each.name].saved = known[each.name].now
            case "stop" | "kill":
                if what == "stop":
                    running = {each.name for each in keeper.running}
                    await keeper.aclose()
                    for each in running:
                        known[each].saved = known[each].now
                for box in source.made:
                    box.alive = False
                keeper = begin(folder, source, clock)
                # A box is forgotten if it has no saved files and was not made by `create`.
                known = {n: k for n, k in known.items() if k.explicit or k.saved}
                for each in known.values():
                    each.now = each.saved
        listed = await keeper.of("lin").list()
        assert [(each.name, each.image) for each in listed] == sorted(
            (each, its.image) for each, its in known.items()
        )
        assert len(source.living) == sum(each.running for each in listed)
    await keeper.aclose()
    assert source.living == []


def begin(folder: Path, source: MemorySource, clock: Clock) -> NamedBoxes:
    """Start a new process: new `NamedBoxes` on the same folder."""
    limits = NamedBoxLimits(sleep_after_s=10)
    return NamedBoxes(source, FolderStorage(folder), limits, clock=clock)


async def content(box: MemoryBox) -> bytes:
    """The content of the box's only file."""
    return box.files.get(NOTE, b"")


async def living_box(keeper: NamedBoxes, name: str) -> MemoryBox | None:
    """The living box of a name."""
    for named in keeper.running:
        if named.name == name:
            async with keeper.of("lin").use(name, UseEffect.NOTHING) as used:
                return used.box  # type: ignore[return-value]
    return None
