"""The types of parameters are written as JSON schema for programs and as text for readers."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from nekro_core.tools.schema import function_schema, type_text
from tests.tools.make import tool_of


class Point(BaseModel):
    x: int


async def place(_ctx: Any, at: Point, mode: Literal["a", "b"] = "a", *more: int) -> None:
    """Put it.

    Somewhere.

    Args:
        at: Where.
    """


def test_the_json_schema_of_a_function_in_tool_mode() -> None:
    assert function_schema(tool_of(place), "mod.place") == {
        "type": "function",
        "function": {
            "name": "mod__place",
            "description": "Put it.\n\nSomewhere.",
            "parameters": {
                "type": "object",
                "properties": {
                    "at": {
                        "type": "object",
                        "title": "Point",
                        "properties": {"x": {"title": "X", "type": "integer"}},
                        "required": ["x"],
                        "description": "Where.\nA dict with x: integer.",
                    },
                    "mode": {"enum": ["a", "b"], "type": "string", "default": "a"},
                },
                "required": ["at"],
                "additionalProperties": False,
            },
        },
    }


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (str | None, "str | None"),
        (list[dict[str, Point]], "list[dict[str, Point]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Literal["a", 1], "Literal['a', 1]"),
    ],
)
def test_types_are_written_in_the_form_that_authors_use(annotation: Any, text: str) -> None:
    assert type_text(annotation) == text
