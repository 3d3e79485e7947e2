"""An edit of settings.toml keeps the comments and the order of all other lines. Errors name the
line."""

import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nekro_core.app.settings_file import (
    HEAD,
    TomlFault,
    line_of,
    parse_toml,
    with_value,
    without_value,
)

WRITTEN = """\
# the bot of our library
port = 8081  # behind nginx

# who it is
[agent]
persona = \'\'\'
You are Mei.
[agent.turn]
max_steps = 99
\'\'\'
names = ["Mei"]

# what it costs
[agent.turn]
max_steps = 4
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("port",), 2),
        (("agent", "names"), 11),
        (("agent", "persona"), 6),
        (("agent", "turn", "max_steps"), 15),
        (("agent", "turn", "other"), 14),
        (("agent", "language"), 5),
        (("llm", "model"), None),
    ],
)
def test_the_line_of_a_name_is_found(path: tuple[str, ...], line: int | None) -> None:
    assert line_of(WRITTEN, path) == line


def test_an_edit_changes_nothing_else() -> None:
    assert with_value(WRITTEN, ("agent", "turn", "max_steps"), 5) == WRITTEN.replace(
        "max_steps = 4", "max_steps = 5"
    )
    assert with_value(WRITTEN, ("port",), 9000) == WRITTEN.replace("8081", "9000")


def test_a_new_name_goes_to_the_end_of_its_table_with_a_comment() -> None:
    assert with_value(WRITTEN, ("agent", "language"), "ja", "Language of notices.") == (
        WRITTEN.replace(
            'names = ["Mei"]\n',
            'names = ["Mei"]\n# Language of notices.\nlanguage = "ja"\n',
        )
    )
    assert with_value(WRITTEN, ("llm", "model"), "m") == f'{WRITTEN}\n[llm]\nmodel = "m"\n'
    assert "[agent]" not in with_value(WRITTEN, ("host",), "::1").partition("host")[0]


def test_removing_a_name_removes_only_the_comment_that_was_added_with_it() -> None:
    added = with_value(WRITTEN, ("agent", "language"), "ja", "Language of notices.")
    assert without_value(added, ("agent", "language"), "Language of notices.") == WRITTEN
    assert "# the bot of our library" in without_value(WRITTEN, ("port",), "Another sentence.")
    assert without_value(WRITTEN, ("agent", "nothing")) == WRITTEN


def test_a_table_disappears_with_its_last_name_unless_it_has_a_comment() -> None:
    text = "[models.a]\nx = 1\n[agent]\nn = 1\n[models.b]\n# mine\ny = 2\n"
    text = without_value(text, ("models", "a", "x"))
    assert text == "[agent]\nn = 1\n[models.b]\n# mine\ny = 2\n"
    assert without_value(text, ("models", "b", "y")) == "[agent]\nn = 1\n[models.b]\n# mine\n"


def test_a_table_that_is_written_in_one_line_is_edited_too() -> None:
    text = with_value("agent = { turn = { max_steps = 3 } }\n", ("agent", "turn", "max_tokens"), 9)
    assert parse_toml(text) == {"agent": {"turn": {"max_steps": 3, "max_tokens": 9}}}
    with pytest.raises(ValueError, match="agent is a value and not a table"):
        with_value("agent = 3\n", ("agent", "names"), ["Mei"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = ", 1),
        ("a = 1\n[b\n", 2),
        ("a = 1\nb = 'x\n", 2),
        ("a = 1\n\nb = [1,\n", 3),
        ("a = 1\na = 2\n", 2),
        ("ab\x00c", 1),
    ],
)
def test_the_error_for_a_text_that_is_not_toml_has_its_line(text: str, line: int) -> None:
    with pytest.raises(TomlFault) as fault:
        parse_toml(text)
    assert fault.value.line == line


names = st.sampled_from(["agent", "turn", "llm", "a b", "猫", "x.y", "adapters"])
paths = st.lists(names, min_size=1, max_size=3, unique=True).map(tuple)
plain = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


edits = st.lists(st.tuples(paths, values), min_size=1, max_size=8)


@given(edits, st.sampled_from(["", HEAD, WRITTEN]))
@example(
    [(("agent", "turn"), []), (("turn", "agent"), []), (("agent", "llm", "turn"), {})], WRITTEN
)
def test_a_written_value_is_read_back_unchanged(
    edits: list[tuple[tuple[str, ...], Any]], text: str
) -> None:
    wanted = parse_toml(text)
    for path, value in edits:
        try:
            text = with_value(text, path, value, "A sentence.")
        except ValueError:
            continue  # The document already has a value where this edit needs a table.
        table = wanted
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = value
        assert tomllib.loads(text) == wanted
        assert line_of(text, path) is not None
    for path, _ in edits:
        text = without_value(text, path, "A sentence.")
        assert parse_toml(text) is not None
