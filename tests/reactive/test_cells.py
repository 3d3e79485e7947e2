"""Cells: what they show, when they run, what becomes of what nobody wants any more."""

import threading
from typing import Any

import anyio
import pytest

from nekro_core.api.reactive import (
    BadInput,
    NoScope,
    NotHere,
    ReactiveError,
    batch,
    cell,
    computed,
    load,
    scope,
    settled,
)
from tests.reactive.counted_calls import NOTHING, Kitchen, of


async def test_a_cell_is_idle_then_runs_then_has_a_result() -> None:
    kitchen, dish = Kitchen(), cell("")
    async with scope(NOTHING):
        meal = load(kitchen.cook, dish=dish)
        assert of(meal) == (False, None, "")
        dish.set("soup")
        assert of(meal) == (True, None, "")
        await settled()
        assert of(meal) == (False, "hot soup", "")
        assert kitchen.begun == ["soup"]


async def test_no_old_result_is_shown_under_a_new_input() -> None:
    kitchen, dish = Kitchen(), cell("soup")
    async with scope(NOTHING):
        meal = load(kitchen.cook, dish=dish)
        await settled()
        with batch():
            dish.set("rice")
            assert of(meal) == (True, None, ""), "also before the batch is over"
        dish.set("burnt toast")
        assert of(meal) == (True, None, "")
        await settled()
        assert of(meal) == (False, None, "burnt toast!")
        dish.set("soup")
        assert of(meal) == (True, None, "")
        dish.set("")
        assert of(meal) == (False, None, "")


async def test_of_two_inputs_in_a_row_only_the_last_is_run() -> None:
    kitchen, dish = Kitchen(), cell("soup")
    async with scope(NOTHING):
        meal = load(kitchen.cook, dish=dish)
        dish.set("rice")
        dish.set("fish")
        await settled()
        assert meal.result == "hot fish"
        assert kitchen.begun == ["fish"]


async def test_a_new_input_cancels_the_running_load() -> None:
    kitchen, dish = Kitchen(), cell("soup")
    async with scope(NOTHING):
        meal = load(kitchen.cook, dish=dish)
        await anyio.sleep(0)
        await anyio.sleep(0)
        dish.set("rice")
        await settled()
        assert (kitchen.begun, kitchen.thrown_away) == (["soup", "rice"], ["soup"])
        assert meal.result == "hot rice"
        dish.set("fish")
        await anyio.sleep(0)
        await anyio.sleep(0)
        dish.set(None)
        await settled()
        assert kitchen.thrown_away == ["soup", "fish"]
        assert of(meal) == (False, None, "")


async def test_a_load_that_does_not_stop_at_once_is_waited_for_and_its_result_dropped() -> None:
    dish, at_work, most = cell("soup"), 0, 0

    async def stubborn(dish: str) -> str:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            return dish
        finally:
            at_work -= 1

    async with scope(NOTHING):
        meal = load(stubborn, dish=dish)
        await anyio.sleep(0)
        await anyio.sleep(0)
        dish.set("rice")
        assert of(meal) == (True, None, "")
        assert (await meal.settled()).result == "rice"
    assert (most, at_work) == (1, 0)


async def test_the_result_for_an_input_that_was_taken_back_is_dropped() -> None:
    dish, tries = cell("soup"), 0

    async def sulk(dish: str) -> str:
        nonlocal tries
        tries += 1
        try:
            await anyio.sleep(0.01)
        except BaseException as error:
            raise ValueError(f"nobody wants my {dish}") from error
        return dish

    async with scope(NOTHING):
        meal = load(sulk, dish=dish)
        await anyio.sleep(0)
        await anyio.sleep(0)
        with batch():
            dish.set("rice")
        await settled()
        assert of(meal) == (False, "rice", "")
        dish.set("soup")
        assert of(meal) == (True, None, "")
        await settled()
        assert of(meal) == (False, "soup", "")
    assert tries == 3


async def test_the_same_input_again_runs_nothing_and_a_failure_is_remembered_too() -> None:
    kitchen, dish = Kitchen(), cell("burnt toast")
    async with scope(NOTHING):
        meal = load(kitchen.cook, dish=computed(lambda: dish().strip()))
        await settled()
        dish.set(" burnt toast ")
        await settled()
        assert of(meal) == (False, None, "burnt toast!")
        assert kitchen.begun == ["burnt toast"]
        meal.refresh()
        assert of(meal) == (True, None, "")
        await settled()
        assert kitchen.begun == ["burnt toast"] * 2


async def test_true_1_and_1_0_are_three_inputs() -> None:
    seen: list[Any] = []

    async def see(what: Any) -> str:
        seen.append(what)
        return repr(what)

    what: Any = cell(1)
    async with scope(NOTHING):
        shown = load(see, what=computed(lambda: [what()]))
        for value in (1, True, 1.0, "1", b"1", -0.0, 0.0):
            what.set(value)
            await settled()
            assert shown.result == repr([value])
    assert len(seen) == 7


async def test_cells_follow_cells() -> None:
    kitchen, dish = Kitchen(), cell("soup")
    async with scope(NOTHING):
        first = load(kitchen.cook, dish=dish)
        second = load(kitchen.cook, dish=computed(lambda: first.result and f"{first.result} again"))
        third = load(kitchen.cook, dish=second)
        menu = computed(lambda: [each.result for each in (first, second, third)])
        assert of(third) == (False, None, "")
        assert third.waiting
        assert menu.waiting
        assert (await third.settled()).result == "hot hot hot soup again"
        assert menu() == ["hot soup", "hot hot soup again", "hot hot hot soup again"]
        assert not menu.waiting
        dish.set("burnt toast")
        assert menu() == [None] * 3
        await settled()
        assert [of(each)[2] for each in (first, second, third)] == ["burnt toast!", "", ""]


async def test_a_diamond_is_never_half_old() -> None:
    number, seen = cell(1), []

    async def times(number: int, by: int) -> int:
        await anyio.sleep(0.001 * by)
        return number * by

    async with scope(NOTHING):
        double, triple = (load(times, number=number, by=by) for by in (2, 3))

        async def add(left: int, right: int) -> int:
            seen.append((left, right))
            return left + right

        total = load(add, left=double, right=triple)
        for value in (1, 5, 7):
            number.set(value)
            assert (await total.settled()).result == value * 5
    assert seen == [(2, 3), (10, 15), (14, 21)]


async def test_an_input_that_fails_is_the_cells_error() -> None:
    divisor = cell(0)
    async with scope(NOTHING):
        kitchen = Kitchen()
        meal = load(kitchen.cook, dish="soup", times=computed(lambda: 2 // divisor()))
        assert isinstance(meal.error, ZeroDivisionError)
        divisor.set(1)
        assert (await meal.settled()).result == "hot souphot soup"
        assert kitchen.begun == ["soup"]


async def test_a_failing_computation_is_not_repeated_for_every_reader() -> None:
    divisor, computations = cell(0), 0

    def divide() -> int:
        nonlocal computations
        computations += 1
        return 2 // divisor()

    ratio = computed(divide)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            ratio()
    assert computations == 1
    divisor.set(2)
    assert ratio() == 1


@pytest.mark.parametrize("strange", [object(), 2**80, "\ud800", float, threading.Lock()])
async def test_what_cannot_be_compared_is_refused(strange: object) -> None:
    async def never(_what: object) -> None:
        raise AssertionError

    async with scope(NOTHING):
        shown = load(never, _what=[strange])
        assert isinstance(shown.error, BadInput | TypeError), shown.error


async def test_an_input_nested_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    async with scope(NOTHING):
        meal = load(Kitchen().cook, dish=endless)
        assert isinstance(meal.error, BadInput)


async def test_computations_only_read() -> None:
    async with scope(NOTHING):
        one = cell(1)
        for attempt in (
            lambda: cell(2),
            lambda: computed(lambda: 2),
            lambda: load(Kitchen().cook, dish="soup"),
        ):
            with pytest.raises(NotHere, match="make it before"):
                computed(attempt)()
        with pytest.raises(RuntimeError, match="Side effect"):
            computed(lambda: one.set(2))()


async def test_an_input_that_is_wanted_and_not_given_is_told() -> None:
    async with scope(NOTHING):
        with pytest.raises(TypeError, match="needed: dich is no input; there are dish"):
            load(Kitchen().cook, needed=("dich",), dish="soup")


async def test_a_value_may_be_set_from_another_thread() -> None:
    kitchen, dish = Kitchen(), cell("")
    async with scope(NOTHING):
        meal = load(kitchen.cook, dish=dish)
        await anyio.to_thread.run_sync(dish.set, "soup")
        assert meal.pending
        assert (await meal.settled()).result == "hot soup"


async def test_following_a_value_from_its_first_word_to_its_last() -> None:
    kitchen, dish, seen = Kitchen(), cell("soup"), []
    async with scope(NOTHING):
        meal = load(kitchen.cook, dish=dish)
        line = computed(lambda: meal.result or f"cooking {dish()} ...")
        async for glimpse in line.follow():
            seen.append((glimpse.value, glimpse.final))
            if glimpse.value == "cooking soup ...":
                dish.set("rice")
    assert seen == [
        ("cooking soup ...", False),
        ("cooking rice ...", False),
        ("hot rice", True),
    ]


async def test_a_follower_that_is_slow_sees_the_last_word() -> None:
    dish, seen = cell("a"), []
    async with scope(NOTHING):
        word = computed(dish)
        async for glimpse in word.follow():
            seen.append(glimpse.value)
            if len(seen) == 1:
                dish.set("b")
                dish.set("c")
    assert seen == ["a", "c"]


async def test_errors_know_their_root() -> None:
    assert all(issubclass(each, ReactiveError) for each in (BadInput, NoScope, NotHere))
