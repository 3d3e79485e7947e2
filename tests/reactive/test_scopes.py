"""When a scope ends, it closes the cells that were made in it."""

import gc
import weakref
from typing import Any

import anyio
import pytest

from nekro_core.api.reactive import (
    NoScope,
    cell,
    computed,
    idle,
    load,
    scope,
    settled,
)
from tests.reactive.counted_calls import NOTHING, CountedCalls, of


async def test_a_scope_closes_the_cells_made_in_it() -> None:
    calls, item = CountedCalls(), cell("soup")
    async with scope(NOTHING):
        done = load(calls.run, item="rice")
        await settled()
        output = load(calls.run, item=item)
        follower = load(calls.run, item=output)
        await anyio.sleep(0)
        await anyio.sleep(0)
    assert calls.cancelled == ["soup"]
    assert of(output) == of(follower) == (False, None, "")
    assert not follower.waiting
    assert of(done) == (False, "hot rice", ""), (
        "a finished result can be read after the end of the scope"
    )
    item.set("fish")
    await idle()
    assert calls.started == ["rice", "soup"]
    with pytest.raises(NoScope):
        load(calls.run, item="soup")


async def test_an_inner_scope_closes_only_its_own_cells() -> None:
    calls = CountedCalls()
    async with scope(NOTHING) as all_of_it:
        outer = load(calls.run, item="soup")
        with scope() as part:
            load(calls.run, item="rice")
            await anyio.sleep(0)
            await anyio.sleep(0)
            assert part.busy
        async with scope() as other:
            inner = load(calls.run, item="fish")
            await other.settled()
            assert inner.result == "hot fish"
        await all_of_it.settled()
        assert outer.result == "hot soup"
        assert not all_of_it.busy
    assert calls.cancelled == ["rice"]


async def test_the_error_of_a_scope_entered_in_the_wrong_place_says_why() -> None:
    with pytest.raises(NoScope, match="async with scope"), scope():
        pass
    with pytest.raises(NoScope, match="live in a scope"):
        load(CountedCalls().run, item="soup")
    async with scope(NOTHING) as over:
        pass
    with pytest.raises(NoScope, match="over"):
        assert over.resources
    with pytest.raises(NoScope, match="entered once"):
        async with over:
            pass


async def test_an_error_of_the_body_is_not_wrapped_in_a_group() -> None:
    async def body() -> None:
        async with scope(NOTHING):
            load(CountedCalls().run, item="soup")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await body()


async def test_cancelling_the_body_ends_the_scope_and_its_cells() -> None:
    calls = CountedCalls()
    with anyio.move_on_after(0.001):
        async with scope(NOTHING):
            load(calls.run, item="soup")
            await anyio.sleep_forever()
    assert calls.cancelled == ["soup"]


async def test_a_value_from_outside_a_scope_does_not_keep_the_cells_of_the_scope_in_memory() -> (
    None
):
    item, left = cell("soup"), list[weakref.ref[Any]]()
    for _ in range(3):
        async with scope(NOTHING):
            output = load(CountedCalls().run, item=computed(lambda: item().strip()))
            line = computed(lambda output=output: output.result)  # type: ignore[misc]
            await output.settled()
            async for _glimpse in line.follow():
                pass
            left += [weakref.ref(output), weakref.ref(line)]
        del output, line
    gc.collect()
    assert [each() for each in left] == [None] * 6
    item.set("rice")
