"""A command line is parsed into arguments: examples, and properties that hold for every line."""

import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.plugins.commands.arguments import Arg, signature_of
from nekro_core.plugins.commands.parsing import (
    ArgumentFault,
    BadArgument,
    read_answer,
    read_arguments,
    split_words,
)
from nekro_core.policy.permissions import folded, is_name


class Colour(Enum):
    RED = "red"


async def find(
    context: object,
    place: Annotated[str, Arg(positional=True)],
    days: int = 3,
    tags: list[str] = Arg(default=()),  # noqa: B008 - plugins describe arguments this way
    colour: Colour | None = None,
    exact: bool = False,
) -> None: ...


async def note(
    context: object,
    title: str = Arg(positional=True),
    size: str = Arg(default="m", choices=("s", "m", "L")),
    text: str = Arg(default="", greedy=True),
) -> None: ...


async def anything(context: object, **more: str) -> None: ...


@pytest.mark.parametrize(
    ("handler", "line", "expected"),
    [
        (find, "Kyōto", {"place": "Kyōto"}),
        (find, "Kyōto 5 a,b，c", {"place": "Kyōto", "days": 5, "tags": ["a", "b", "c"]}),
        (find, 'days:5 "New York"', {"place": "New York", "days": 5}),
        (find, "place:'New York'", {"place": "New York"}),
        (find, "“New York” DAYS：7", {"place": "New York", "days": 7}),
        (find, "x exact:yes colour:red", {"place": "x", "exact": True, "colour": Colour.RED}),
        (find, "https://a.example/b", {"place": "https://a.example/b"}),
        (find, "12:30", {"place": "12:30"}),
        (find, r'"say \"hi\""', {"place": 'say "hi"'}),
        (find, "don't", {"place": "don't"}),
        (find, '"open', {"place": '"open'}),
        (find, 'place:"open', {"place": '"open'}),
        (find, "a\nb:c exact:1", {"place": "a", "fault": ArgumentFault.KIND}),
        (note, "todo buy  milk, \n eggs", {"title": "todo", "text": "buy  milk, \n eggs"}),
        (note, "todo size:s a b", {"title": "todo", "size": "s", "text": "a b"}),
        (note, "todo a size:l b", {"title": "todo", "size": "L", "text": "a b"}),
        (note, 'todo "a b"', {"title": "todo", "text": "a b"}),
        (note, 'todo "a b" c', {"title": "todo", "text": '"a b" c'}),
        (note, "todo at 12:30 see: me", {"title": "todo", "text": "at 12:30 see: me"}),
        (anything, "a:1 b:'2 3'", {"a": "1", "b": "2 3"}),
        (note, "", {"fault": ArgumentFault.MISSING}),
        (note, "a size:xl", {"fault": ArgumentFault.CHOICES}),
        (anything, "loose", {"fault": ArgumentFault.TOO_MUCH}),
    ],
)
def test_a_line_is_read_into_arguments_or_refused(
    handler: Callable[..., Any], line: str, expected: dict[str, Any]
) -> None:
    fault = expected.pop("fault", None)
    if fault is not None:
        with pytest.raises(BadArgument) as raised:
            read_arguments(signature_of(handler), line)
        assert raised.value.fault is fault
        return
    read = read_arguments(signature_of(handler), line)
    assert {name: read[name] for name in expected} == expected


@settings(max_examples=60)
@given(st.text())
def test_any_line_is_read_or_refused(line: str) -> None:
    words = split_words(line)
    assert all(line[word.start : word.end] for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)
    left = list(line)
    for word in words:
        left[word.start : word.end] = [""] * (word.end - word.start)
    assert not "".join(left).strip(), "every character must be in a word or be a blank"
    for handler in (find, note, anything):
        with suppress(BadArgument):
            read_arguments(signature_of(handler), line)


@settings(max_examples=60)
@given(st.text(), st.dictionaries(st.sampled_from(["place", "days", "other"]), st.integers()))
def test_any_answer_is_read_or_refused(line: str, data: dict[str, int]) -> None:
    try:
        read = read_answer(signature_of(find), line, data)
    except BadArgument:
        return
    assert all(read[name] is value for name, value in data.items() if name in read)


@pytest.mark.parametrize("line", ['"' * 20_000, '" ' * 10_000, "a:" * 10_000, '\\"' * 10_000])
def test_a_long_line_is_split_quickly(line: str) -> None:
    begun = time.process_time()
    split_words(line)
    assert time.process_time() - begun < 1.0


@given(st.text())
def test_normalizing_a_name_twice_equals_normalizing_it_once(name: str) -> None:
    if is_name(name):
        assert folded(folded(name)) == folded(name)
    assert folded("Roll-Dice") == folded("ｒｏｌｌ_dice")


async def agreed(
    context: Any, choice: str, context_data: dict[str, Any] | None = None, **more: Any
) -> None: ...


async def bound(context: Any, choice: str, context_data: dict[str, Any]) -> None: ...


@pytest.mark.parametrize("name", ["context_data", "context-data", "CONTEXT_DATA", "ｃontext_data"])
@pytest.mark.parametrize("line", ["yes {}", "{} yes", "choice:yes {}"])
def test_the_stored_data_of_a_question_cannot_be_typed_as_a_command(name: str, line: str) -> None:
    forged = line.format(name + ':{"owner":"me"}')
    for handler in (agreed, bound):
        with pytest.raises(BadArgument):
            read_arguments(signature_of(handler), forged)
        answered = read_answer(signature_of(handler), forged, {"owner": "Lin"})
        assert answered["context_data"] == {"owner": "Lin"}
        assert "owner" not in answered
