"""Worked examples (calls after a comment "User: ...") are read from docstrings."""

from pathlib import Path

import pytest

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.examples import (
    all_examples,
    example_code,
    read_examples,
    script_language,
    worked_examples,
)
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


def test_examples_of_the_decorator_follow_those_of_the_docstring() -> None:
    tool = tool_of(greet, examples="# User: four\ngreet('4')\n\n# User: five\ngreet('5')")
    assert [each.says for each in all_examples(tool)] == ["one", "two", "three", "four", "five"]
    assert "four" not in stub(tool)


def test_examples_are_read_from_a_text_a_file_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("# User: 二\nf(2)\n", "utf-8")
    (tmp_path / "a.txt").write_text("# User: one\nf(1)\n", "utf-8")
    (tmp_path / "notes.md").write_text("# User: three\nf(3)\n", "utf-8")
    assert read_examples("# User: hi\nf()") == "# User: hi\nf()"
    assert [each.says for each in worked_examples(read_examples(tmp_path / "b.txt"))] == ["二"]
    assert [each.says for each in worked_examples(read_examples(tmp_path))] == ["one", "二"]


@pytest.mark.parametrize(
    ("content", "says"), [(None, "No such file"), (b"\xff\xfe", "cannot be read as UTF-8")]
)
def test_a_file_of_examples_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "hello.txt"
    if content:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=rf"hello\.txt.*{says}"):
        read_examples(file)


def test_a_folder_without_files_of_examples_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a folder without \.txt files"):
        read_examples(tmp_path)
