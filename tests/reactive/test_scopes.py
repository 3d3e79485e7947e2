"""Scopes: what was made in them ends with them."""

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
from tests.reactive.counted_calls import NOTHING, Kitchen, of


async def test_a_scope_ends_what_was_made_in_it() -> None:
    kitchen, dish = Kitchen(), cell("soup")
    async with scope(NOTHING):
        done = load(kitchen.cook, dish="rice")
        await settled()
        meal = load(kitchen.cook, dish=dish)
        follower = load(kitchen.cook, dish=meal)
        await anyio.sleep(0)
        await anyio.sleep(0)
    assert kitchen.thrown_away == ["soup"]
    assert of(meal) == of(follower) == (False, None, "")
    assert not follower.waiting
    assert of(done) == (False, "hot rice", ""), "what was finished can still be read"
    dish.set("fish")
    await idle()
    assert kitchen.begun == ["rice", "soup"]
    with pytest.raises(NoScope):
        load(kitchen.cook, dish="soup")


async def test_a_scope_inside_of_another_ends_its_own_part() -> None:
    kitchen = Kitchen()
    async with scope(NOTHING) as all_of_it:
        outer = load(kitchen.cook, dish="soup")
        with scope() as part:
            load(kitchen.cook, dish="rice")
            await anyio.sleep(0)
            await anyio.sleep(0)
            assert part.busy
        async with scope() as other:
            inner = load(kitchen.cook, dish="fish")
            await other.settled()
            assert inner.result == "hot fish"
        await all_of_it.settled()
        assert outer.result == "hot soup"
        assert not all_of_it.busy
    assert kitchen.thrown_away == ["rice"]


async def test_scopes_in_the_wrong_place_are_refused_in_words() -> None:
    with pytest.raises(NoScope, match="async with scope"), scope():
        pass
    with pytest.raises(NoScope, match="live in a scope"):
        load(Kitchen().cook, dish="soup")
    async with scope(NOTHING) as over:
        pass
    with pytest.raises(NoScope, match="over"):
        assert over.resources
    with pytest.raises(NoScope, match="entered once"):
        async with over:
            pass


async def test_the_bodys_error_is_not_wrapped() -> None:
    async def body() -> None:
        async with scope(NOTHING):
            load(Kitchen().cook, dish="soup")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await body()


async def test_whoever_is_cancelled_leaves_a_scope_with_all_in_it() -> None:
    kitchen = Kitchen()
    with anyio.move_on_after(0.001):
        async with scope(NOTHING):
            load(kitchen.cook, dish="soup")
            await anyio.sleep_forever()
    assert kitchen.thrown_away == ["soup"]


async def test_nothing_hangs_on_a_value_that_outlives_its_scope() -> None:
    dish, left = cell("soup"), list[weakref.ref[Any]]()
    for _ in range(3):
        async with scope(NOTHING):
            meal = load(Kitchen().cook, dish=computed(lambda: dish().strip()))
            line = computed(lambda meal=meal: meal.result)  # type: ignore[misc]
            await meal.settled()
            async for _glimpse in line.follow():
                pass
            left += [weakref.ref(meal), weakref.ref(line)]
        del meal, line
    gc.collect()
    assert [each() for each in left] == [None] * 6
    dish.set("rice")
