"""Tests of the cells that `load` makes: what they show, when they run their function, and how they
drop outdated results. A cell that `cell` makes only holds a value; here it is their input."""

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
from tests.reactive.counted_calls import NOTHING, CountedCalls, of


async def test_a_loaded_cell_is_idle_then_runs_then_has_a_result() -> None:
    calls, item = CountedCalls(), cell("")
    async with scope(NOTHING):
        output = load(calls.run, item=item)
        assert of(output) == (False, None, "")
        item.set("soup")
        assert of(output) == (True, None, "")
        await settled()
        assert of(output) == (False, "hot soup", "")
        assert calls.started == ["soup"]


async def test_no_old_result_is_shown_under_a_new_input() -> None:
    calls, item = CountedCalls(), cell("soup")
    async with scope(NOTHING):
        output = load(calls.run, item=item)
        await settled()
        with batch():
            item.set("rice")
            assert of(output) == (True, None, ""), (
                "the cell must be pending even before the batch ends"
            )
        item.set("burnt toast")
        assert of(output) == (True, None, "")
        await settled()
        assert of(output) == (False, None, "burnt toast!")
        item.set("soup")
        assert of(output) == (True, None, "")
        item.set("")
        assert of(output) == (False, None, "")


async def test_of_two_inputs_that_follow_quickly_only_the_last_is_loaded() -> None:
    calls, item = CountedCalls(), cell("soup")
    async with scope(NOTHING):
        output = load(calls.run, item=item)
        item.set("rice")
        item.set("fish")
        await settled()
        assert output.result == "hot fish"
        assert calls.started == ["fish"]


async def test_a_new_input_cancels_the_running_load() -> None:
    calls, item = CountedCalls(), cell("soup")
    async with scope(NOTHING):
        output = load(calls.run, item=item)
        await anyio.sleep(0)
        await anyio.sleep(0)
        item.set("rice")
        await settled()
        assert (calls.started, calls.cancelled) == (["soup", "rice"], ["soup"])
        assert output.result == "hot rice"
        item.set("fish")
        await anyio.sleep(0)
        await anyio.sleep(0)
        item.set(None)
        await settled()
        assert calls.cancelled == ["soup", "fish"]
        assert of(output) == (False, None, "")


async def test_the_cell_waits_for_a_load_that_stops_slowly_and_drops_its_result() -> None:
    item, at_work, most = cell("soup"), 0, 0

    async def stubborn(item: str) -> str:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            return item
        finally:
            at_work -= 1

    async with scope(NOTHING):
        output = load(stubborn, item=item)
        await anyio.sleep(0)
        await anyio.sleep(0)
        item.set("rice")
        assert of(output) == (True, None, "")
        assert (await output.settled()).result == "rice"
    assert (most, at_work) == (1, 0)


async def test_the_error_of_a_cancelled_load_is_not_remembered_for_its_input() -> None:
    item, tries = cell("soup"), 0

    async def sulk(item: str) -> str:
        nonlocal tries
        tries += 1
        try:
            await anyio.sleep(0.01)
        except BaseException as error:
            raise ValueError(f"nobody wants my {item}") from error
        return item

    async with scope(NOTHING):
        output = load(sulk, item=item)
        await anyio.sleep(0)
        await anyio.sleep(0)
        with batch():
            item.set("rice")
        await settled()
        assert of(output) == (False, "rice", "")
        item.set("soup")
        assert of(output) == (True, None, "")
        await settled()
        assert of(output) == (False, "soup", "")
    assert tries == 3


async def test_an_input_that_was_used_before_is_not_loaded_again_even_if_its_load_failed() -> None:
    calls, item = CountedCalls(), cell("burnt toast")
    async with scope(NOTHING):
        output = load(calls.run, item=computed(lambda: item().strip()))
        await settled()
        item.set(" burnt toast ")
        await settled()
        assert of(output) == (False, None, "burnt toast!")
        assert calls.started == ["burnt toast"]
        output.refresh()
        assert of(output) == (True, None, "")
        await settled()
        assert calls.started == ["burnt toast"] * 2


async def test_equal_values_of_different_types_are_different_inputs() -> None:
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


async def test_a_cell_can_be_the_input_of_another() -> None:
    calls, item = CountedCalls(), cell("soup")
    async with scope(NOTHING):
        first = load(calls.run, item=item)
        second = load(calls.run, item=computed(lambda: first.result and f"{first.result} again"))
        third = load(calls.run, item=second)
        menu = computed(lambda: [each.result for each in (first, second, third)])
        assert of(third) == (False, None, "")
        assert third.waiting
        assert menu.waiting
        assert (await third.settled()).result == "hot hot hot soup again"
        assert menu() == ["hot soup", "hot hot soup again", "hot hot hot soup again"]
        assert not menu.waiting
        item.set("burnt toast")
        assert menu() == [None] * 3
        await settled()
        assert [of(each)[2] for each in (first, second, third)] == ["burnt toast!", "", ""]


async def test_a_value_that_depends_on_an_input_in_two_ways_is_never_partly_old() -> None:
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


async def test_the_error_of_an_input_becomes_the_error_of_the_cell() -> None:
    divisor = cell(0)
    async with scope(NOTHING):
        calls = CountedCalls()
        output = load(calls.run, item="soup", times=computed(lambda: 2 // divisor()))
        assert isinstance(output.error, ZeroDivisionError)
        divisor.set(1)
        assert (await output.settled()).result == "hot souphot soup"
        assert calls.started == ["soup"]


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
async def test_an_input_that_is_not_plain_data_is_refused(strange: object) -> None:
    async def never(_what: object) -> None:
        raise AssertionError

    async with scope(NOTHING):
        shown = load(never, _what=[strange])
        assert isinstance(shown.error, BadInput | TypeError), shown.error


async def test_an_infinitely_nested_input_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    async with scope(NOTHING):
        output = load(CountedCalls().run, item=endless)
        assert isinstance(output.error, BadInput)


async def test_a_computed_value_cannot_make_or_set_cells() -> None:
    async with scope(NOTHING):
        one = cell(1)
        for attempt in (
            lambda: cell(2),
            lambda: computed(lambda: 2),
            lambda: load(CountedCalls().run, item="soup"),
        ):
            with pytest.raises(NotHere, match="make it before"):
                computed(attempt)()
        with pytest.raises(RuntimeError, match="Side effect"):
            computed(lambda: one.set(2))()


async def test_the_error_names_a_needed_input_that_was_not_given() -> None:
    async with scope(NOTHING):
        with pytest.raises(TypeError, match="needed: dich is no input; there are item"):
            load(CountedCalls().run, needed=("dich",), item="soup")


async def test_a_value_may_be_set_from_another_thread() -> None:
    calls, item = CountedCalls(), cell("")
    async with scope(NOTHING):
        output = load(calls.run, item=item)
        await anyio.to_thread.run_sync(item.set, "soup")
        assert output.pending
        assert (await output.settled()).result == "hot soup"


async def test_follow_yields_every_state_up_to_the_final_one() -> None:
    calls, item, seen = CountedCalls(), cell("soup"), []
    async with scope(NOTHING):
        output = load(calls.run, item=item)
        line = computed(lambda: output.result or f"cooking {item()} ...")
        async for glimpse in line.follow():
            seen.append((glimpse.value, glimpse.final))
            if glimpse.value == "cooking soup ...":
                item.set("rice")
    assert seen == [
        ("cooking soup ...", False),
        ("cooking rice ...", False),
        ("hot rice", True),
    ]


async def test_a_slow_follower_misses_states_but_not_the_final_one() -> None:
    item, seen = cell("a"), []
    async with scope(NOTHING):
        word = computed(item)
        async for glimpse in word.follow():
            seen.append(glimpse.value)
            if len(seen) == 1:
                item.set("b")
                item.set("c")
    assert seen == ["a", "c"]


async def test_all_errors_derive_from_the_root_error() -> None:
    assert all(issubclass(each, ReactiveError) for each in (BadInput, NoScope, NotHere))
