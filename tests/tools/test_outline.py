"""Outlines, the short form of tools that large models read."""

from typing import Any, Literal

import pytest

from nekro_core.tools.stub import outline
from nekro_core.tools.tool import ToolKind
from tests.tools.make import tool_of


async def search(
    _ctx: Any,
    words: str,
    kind: Literal["image", "link"] | None = None,
    sort: Literal["best", "newest"] = "best",
    limit: int = 10,
    minutes: float = 0,
    strict: bool = False,
    where: str | list[str] = "here",
    *,
    since: str | None = None,
) -> list[str]:
    """Search for words.

    Args:
        limit: At most 50.
    """
    return [words]


def test_types_that_a_default_shows_are_left_out() -> None:
    assert outline(tool_of(search)) == (
        'search(words: str, kind: "image"|"link" = None, sort: "best"|"newest" = \'best\', '
        "limit=10, minutes: float = 0, strict=False, where: str | list[str] = 'here', *, "
        "since: str = None) -> list[str]\n    Search for words.\n    limit: At most 50."
    )


async def keep(_ctx: Any, text: str) -> str:
    """Keep a text.

    Returns:
        Its number.
    """
    return text


async def post(_ctx: Any, text: str) -> str:
    """Post a text."""
    return text


@pytest.mark.parametrize("kind", [ToolKind.BEHAVIOR, ToolKind.AGENT])
def test_a_result_type_is_left_out_if_the_model_reads_the_text_anyway(kind: ToolKind) -> None:
    assert outline(tool_of(post, kind)) == "post(text: str)\n    Post a text."
    assert outline(tool_of(post)) == "post(text: str) -> str\n    Post a text."


def test_the_result_of_a_tool_that_only_confirms_is_left_out() -> None:
    assert outline(tool_of(keep)) == "keep(text: str)\n    Keep a text.\n    Returns: Its number."
    assert outline(tool_of(keep, confirms=True)) == "keep(text: str)\n    Keep a text."


async def strange(_ctx: Any, sign: Literal["it's", "a, b", "]"], level: Literal[1, 2]) -> None:
    """Do it."""


def test_choices_with_quotes_commas_brackets_or_numbers_keep_their_python_form() -> None:
    shown = outline(tool_of(strange)).splitlines()[0]
    assert shown == """strange(sign: Literal["it's", 'a, b', ']'], level: Literal[1, 2]) -> None"""
