"""Arguments of a call are checked against all rules in the schema of its tool."""

import time
from typing import Any

import pytest
from pydantic import BaseModel, Field

from nekro_core.compat.maibot.formats.schema import object_schema
from nekro_core.tools.arguments import ArgumentError, bind_arguments
from tests.compat.maibot.test_schema import our_tool


def bound(schema: dict[str, Any], value: Any, *, required: bool = True) -> Any:
    """The value that the handler gets for a parameter with this schema."""
    whole = {
        "type": "object",
        "properties": {"it": schema},
        "required": ["it"] if required else [],
    }
    return given_to(whole, {"it": value})["it"]


def given_to(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the handler of a tool with this schema gets, by name."""
    tool = our_tool(object_schema(schema))
    bound = bind_arguments(tool, (), arguments)
    names = [each.name for each in tool.parameters]
    return {**dict(zip(names, bound.args, strict=False)), **bound.kwargs}


WHOLE, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
PAIR = {
    "type": "object",
    "properties": {"x": WHOLE | {"minimum": 0}, "tag": TEXT | {"maxLength": 3}},
    "required": ["x"],
    "additionalProperties": False,
}
LIMITS: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    (WHOLE | {"minimum": 4, "maximum": 9}, [4, 9, "5"], [3, 10, "2", "four"]),
    (WHOLE | {"minimum": 3.5}, [4], [3]),
    (WHOLE | {"exclusiveMinimum": 3, "exclusiveMaximum": 6}, [4, 5], [3, 6]),
    (WHOLE | {"multipleOf": 5}, [10], [11]),
    (NUMBER | {"minimum": -1.5, "maximum": 1.5}, [0, "0.5"], [-2, 1.6]),
    (NUMBER | {"enum": [0.5, 1.5]}, [0.5], [1.0]),
    (TEXT | {"minLength": 2, "maxLength": 4}, ["ab", "汉字"], ["a", "abcde"]),
    (TEXT | {"pattern": "^#[0-9a-f]{6}$"}, ["#ffcc00"], ["ffcc00", "#ff"]),
    (TEXT | {"pattern": "^(?!bad)"}, ["good"], ["badly"]),
    (TEXT | {"pattern": "("}, ["anything"], []),
    (TEXT | {"enum": ["a", "b"]}, ["a"], ["c"]),
    (TEXT | {"const": "yes"}, ["yes"], ["no"]),
    ({"type": "boolean", "const": True}, [True], [False]),
    ({"type": "array", "items": WHOLE | {"minimum": 1}}, [[1, 2], []], [[0], "x"]),
    ({"type": "array", "minItems": 1, "maxItems": 2}, [[1]], [[], [1, 2, 3]]),
    ({"type": "array", "items": WHOLE, "uniqueItems": True}, [[1, 2]], [[1, 1]]),
    ({"type": "array", "items": PAIR}, [[{"x": 1}]], [[{"x": -1}], [{}], [{"x": 1, "y": 2}]]),
    (PAIR, [{"x": 1, "tag": "abc"}], [{"x": 1, "tag": "abcd"}, {"tag": "a"}]),
    ({"anyOf": [WHOLE | {"minimum": 4}, {"type": "null"}]}, [4], [3]),
    ({"anyOf": [WHOLE, {"type": "array", "items": TEXT}]}, [4, ["a"]], [{"a": 1}]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), LIMITS, ids=[str(each[0]) for each in LIMITS])
@pytest.mark.parametrize("required", [True, False])
def test_a_value_outside_its_limits_is_refused(
    schema: dict[str, Any], good: list[Any], bad: list[Any], required: bool
) -> None:
    for value in good:
        bound(schema, value, required=required)
    for value in bad:
        with pytest.raises(ArgumentError, match="it"):
            bound(schema, value, required=required)


def test_a_number_as_text_is_converted_before_it_is_checked() -> None:
    assert bound(WHOLE | {"minimum": 4}, "5") == 5


def test_a_pattern_with_endless_backtracking_is_stopped() -> None:
    began = time.thread_time()
    with pytest.raises(ArgumentError, match="takes too long"):
        bound(TEXT | {"pattern": "^(a|aa)+$"}, "a" * 60 + "b")
    assert time.thread_time() - began < 2


class Dish(BaseModel):
    name: str = Field(max_length=5)
    size: int | None = Field(default=None, ge=1)


class Order(BaseModel):
    dishes: list[Dish] = Field(min_length=1)


def test_a_schema_with_definitions_is_checked_in_depth() -> None:
    schema = Order.model_json_schema()
    dishes = [{"name": "rice", "size": 2}]
    assert given_to(schema, {"dishes": dishes}) == {"dishes": dishes}
    for wrong in ([], [{"name": "potatoes"}], [{"name": "rice", "size": 0}], [{"size": 1}]):
        with pytest.raises(ArgumentError):
            given_to(schema, {"dishes": wrong})


def test_a_recursive_schema_is_accepted() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {
        "type": "object",
        "properties": {"list": {"$ref": "#/$defs/Node"}},
        "required": ["list"],
        "$defs": {"Node": node},
    }
    nested = {"next": {"next": {}}}
    assert given_to(schema, {"list": nested}) == {"list": nested}
