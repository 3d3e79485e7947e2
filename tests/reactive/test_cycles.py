"""Tests of cells that depend on themselves, and of loads that change their own inputs."""

from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

from nekro_core.api.reactive import (
    AsyncCell,
    Circle,
    cell,
    computed,
    load,
    scope,
    settled,
)
from tests.reactive.counted_calls import NOTHING, CountedCalls


async def test_a_circle_is_an_error_instead_of_an_endless_loop() -> None:
    calls, closed = CountedCalls(), cell(False)
    async with scope(NOTHING):
        circle: list[AsyncCell[str]] = []
        output = load(calls.run, item=computed(lambda: closed() and circle[0].result))
        circle.append(output)
        closed.set(True)
        await settled()
        assert isinstance(output.error, Circle)
        assert str(output.error) == "run depends on itself"
        assert calls.started == []


@pytest.mark.parametrize("first", range(3))
async def test_computed_values_in_a_circle_raise_an_error_whichever_is_read_first(
    first: int,
) -> None:
    closed, ring = cell(False), list[Any]()
    ring += [computed(partial(lambda n: closed() and ring[(n + 1) % 3](), n)) for n in range(3)]
    others = [computed(each) for each in ring]
    assert [each() for each in others] == [False] * 3
    closed.set(True)
    for place in range(3):
        with pytest.raises(Circle):
            ring[(first + place) % 3]()
    closed.set(False)
    with pytest.raises(Circle):
        others[first]()


async def test_a_circle_of_many_values_is_found() -> None:
    closed, ring = cell(False), list[Any]()
    middle = computed(lambda: closed() and ring[0]())
    ring.append(computed(middle))
    assert ring[0]() is False
    for value in (True, False, True):
        closed.set(value)
        for each in (ring[0], middle):
            with suppress(Circle):
                each()
    with pytest.raises(Circle):
        ring[0]()


async def test_a_load_that_triggers_itself_is_stopped() -> None:
    number, runs = cell(1), 0

    async def count_up(number_now: int) -> int:
        nonlocal runs
        runs += 1
        await anyio.sleep(0)
        number.set(number_now + 1)
        return number_now

    async with scope(NOTHING):
        counter = load(count_up, number_now=number)
        await settled()
        assert isinstance(counter.error, Circle)
        assert runs == 100
        number.set(1000)
        assert counter.pending, "a change from outside must start a new load"
        await settled()
        assert runs == 200


async def test_loads_that_trigger_each_other_are_stopped() -> None:
    there, back, runs = cell(1), cell(0), 0

    async def hit(ball: int, to: int) -> int:
        nonlocal runs
        runs += 1
        await anyio.sleep(0)
        (there if to else back).set(ball + 1)
        return ball

    async with scope(NOTHING):
        left, right = load(hit, ball=there, to=0), load(hit, ball=back, to=1, needed=("ball",))
        await settled()
        assert isinstance(left.error or right.error, Circle)
        assert 90 < runs <= 202


async def test_a_long_chain_of_cells_is_not_a_circle() -> None:
    async def add(number: int) -> int:
        return number + 1

    start = cell(1)
    async with scope(NOTHING):
        cells: list[Any] = [start]
        for _ in range(30):
            cells.append(load(add, number=cells[-1]))
        for value in (1, 10, 100):
            start.set(value)
            await settled()
            assert cells[-1].result == value + 30


async def test_a_load_that_changes_its_inputs_changes_only_its_copy() -> None:
    basket, seen = cell(["egg"]), []

    async def spoil(basket: list[str]) -> int:
        seen.append(list(basket))
        basket.append("mould")
        return len(basket)

    async with scope(NOTHING):
        spoiled = load(spoil, basket=basket)
        await settled()
        spoiled.refresh()
        await settled()
    assert basket() == ["egg"]
    assert seen == [["egg"], ["egg"]]
