"""Worked examples (calls after a comment "User: ...") are read from docstrings."""

import pytest

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.examples import example_code, script_language, worked_examples
from nekro_core.tools.stub import stub
from tests.tools.make import tool_of


def test_an_example_ends_at_the_next_comment_that_begins_with_user() -> None:
    code = example_code(
        """
        print("for readers")

        # User: roll a die
        value = roll(6)
        if value == 6:
            send("six!")

        # User：おはよう
        # a comment stays
        send("おはよう")

        # User: no answer

        # User: broken
        send(
        """
    )
    first, second = worked_examples(code)
    assert first.says == "roll a die"
    assert first.code == 'value = roll(6)\nif value == 6:\n    send("six!")'
    assert (second.says, second.language) == ("おはよう", "ja")
    assert second.code == '# a comment stays\nsend("おはよう")'


async def greet(_ctx: AgentCtx, words: str) -> str:
    """Greet somebody.

    Args:
        words: What to say.

    Example:
        greet("for readers")

        # User: one
        greet("1")

        # User: two
        greet("2")

        # User: three
        greet("3")
    """
    return words


def test_a_stub_shows_two_examples_and_the_tool_stores_all() -> None:
    tool = tool_of(greet)
    assert [example.says for example in tool.examples] == ["one", "two", "three"]
    shown = stub(tool)
    assert shown.endswith('# User: two\n        greet("2")\n    """')
    assert 'greet("for readers")' in shown
    compile(shown, "stub", "exec")


@pytest.mark.parametrize("fence", ["```python\n{}\n```", "```\n{}\n```", "{}", "\n    {}\n"])
def test_code_fences_are_removed(fence: str) -> None:
    assert example_code(fence.format("f(1)")) == "f(1)"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("hello", "en"),
        ("你好", "zh"),
        ("こんにちは", "ja"),
        ("東京はどこ", "ja"),
        ("カ", "ja"),
        ("", "en"),
    ],
)
def test_the_language_of_an_example_is_recognized_by_its_script(text: str, language: str) -> None:
    assert script_language(text) == language
