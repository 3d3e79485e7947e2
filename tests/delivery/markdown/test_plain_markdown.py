"""On a platform without markup, people see Markdown without marks, and other text unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.delivery.markdown.styled import plain_from_markdown, styled_text

UNCHANGED = (
    "2 * 3 * 4 = 24; __init__ and snake_case_name",
    "好的~~哈哈~~",
    ">_< oh no",
    "#channel is over there",
    "costs $5 or $6",
    "¯\\_(ツ)_/¯",
    "&lt;b&gt; is written so",
    "    four spaces\n  two spaces",
    "a ** b ** c",
    "C:\\new\\table",
    "*waves* hello",
    "2024. A good year",
    "- one\n- two",
    "3) three\n4) four",
    "<b>no tag</b> | no table",
    "Title\n===\ntext",
)


@pytest.mark.parametrize("text", UNCHANGED)
def test_text_that_only_looks_like_markdown_stays_unchanged(text: str) -> None:
    assert plain_from_markdown(text) == text


WRITTEN = {
    "**Bold** and `code`": "Bold and code",
    "# Title\ntext": "Title\ntext",
    "* one\n* two": "• one\n• two",
    "1. one\n   - nested\n2. two": "1. one\n   - nested\n2. two",
    "see [the page](https://example.org/x)": "see the page (https://example.org/x)",
    "see [https://example.org](https://example.org)": "see https://example.org",
    "<https://example.org>": "https://example.org",
    "[x](javascript:alert) **y**": "[x](javascript:alert) y",
    "![a cat](https://example.org/cat.png)": "a cat (https://example.org/cat.png)",
    "before\n```python\nx = 1\n\n  y = 2\n```\nafter": "before\nx = 1\n\n  y = 2\nafter",
    "> quoted\n> twice\n\nown": "> quoted\n> twice\n\nown",
    "| City | Temp |\n|:--|--:|\n| 北京 | 21 |\n| Rome | 3 |": (
        "City  Temp\n────  ────\n北京    21\nRome     3"
    ),
    "$a^2$ is **it**": "$a^2$ is it",
    "\\*not bold\\* **b**": "*not bold* b",
}


@pytest.mark.parametrize(("source", "shown"), WRITTEN.items())
def test_marks_are_left_out(source: str, shown: str) -> None:
    assert plain_from_markdown(source) == shown


def test_a_wide_table_becomes_a_list() -> None:
    source = (
        "| name | what it is good for | price |\n|-|-|-|\n"
        "| spade | digging in heavy, wet soil | 20 |\n| rake | leaves | |"
    )
    assert plain_from_markdown(source) == (
        "spade\n  what it is good for: digging in heavy, wet soil\n  price: 20\n\n"
        "rake\n  what it is good for: leaves"
    )


@given(st.text(alphabet="*`#>[]()|!$\\-_~ \na1.<:/", max_size=200))
def test_any_text_keeps_every_letter_as_styled_text_and_as_plain_text(source: str) -> None:
    plain = plain_from_markdown(source)
    styled = "".join(part.text for part in styled_text(source))
    letters = source.count("a")
    assert plain.count("a") <= letters + source.count("a")
    assert (plain == "") <= (source.strip("*`#>[]()|!$\\-_~ \n1.<:/") == "")
    assert isinstance(styled, str)


@given(st.text(max_size=300))
def test_a_text_without_marks_is_not_changed_by_a_second_pass(source: str) -> None:
    once = plain_from_markdown(source)
    if once == source:
        assert plain_from_markdown(once) == once
