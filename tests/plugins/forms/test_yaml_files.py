"""Values of a YAML file are changed without removing its comments."""

import string
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from nekro_core.plugins.forms.yaml_files import changed_yaml

WORDS = st.one_of(
    st.sampled_from(["yes", "on", "null", "~", "1e3", "0o7", "012", "2020-01-01", "a: b", "# c"]),
    st.text(max_size=12),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), WORDS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=5), inner, max_size=3),
    ),
    max_leaves=10,
)
TABLES = st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=5), VALUES, max_size=4)


@given(TABLES, TABLES)
@example({"a": "yes"}, {"a": "no"})
@example({"a": True}, {"a": 1})
@example({"a": "x"}, {"a": "two\nlines"})
def test_the_new_values_are_read_back(before: dict[str, Any], after: dict[str, Any]) -> None:
    text = yaml.safe_dump(before, allow_unicode=True, sort_keys=False)
    read = yaml.safe_load(changed_yaml(text, after))
    found = {name: (read or {})[name] for name in after}
    assert found == after
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in after.items()
    }


def test_comments_and_the_other_values_stay() -> None:
    text = "# top\nb: yes  # on\n\n# about a\na: 'x'\nlist:\n- 1\nother: 0x1F\n"
    changed = changed_yaml(text, {"a": "w", "b": True, "list": [1], "other": 31})
    assert changed == text.replace("a: 'x'", "a: 'w'")


def test_a_file_that_is_not_a_table_is_replaced() -> None:
    assert changed_yaml("- 1\n", {"a": 1}) == "a: 1\n"
    assert changed_yaml("a: [\n", {"a": 1}) == "a: 1\n"
