"""What is nested too deeply for any reader is cut there, and all else is as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.mcp_servers.shallow import DEEPEST, INSTEAD, shallow


def nested(levels: int, inner: Any = None, kind: str = "list") -> Any:
    for _ in range(levels):
        inner = [inner, "]}"] if kind == "list" else {"{[": inner, "b": 1}
    return inner


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("levels", [0, 1, DEEPEST, 190])
def test_what_can_be_read_is_as_it_was(kind: str, levels: int) -> None:
    text = json.dumps(nested(levels, "x", kind)).encode()
    assert shallow(text) is text


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("levels", [250, 900])
def test_what_cannot_is_cut_and_its_neighbours_stay(kind: str, levels: int) -> None:
    text = json.dumps([{"a": 1}, nested(levels, "x", kind), {"z": [2]}]).encode()
    first, deep, last = json.loads(shallow(text))
    assert (first, last) == ({"a": 1}, {"z": [2]})
    depth = 1
    while isinstance(deep, list | dict):
        deep = deep[0] if isinstance(deep, list) else deep["{["]
        depth += 1
    assert depth == DEEPEST
    assert deep == json.loads(INSTEAD)


@given(st.binary(max_size=50) | st.sampled_from([b'"', b'"\\', b"[", b"]"]), st.integers(0, 300))
def test_broken_input_stays_broken_input(inner: bytes, levels: int) -> None:
    for text in (b"[" * levels + inner, b"[" * levels + inner + b"]" * levels):
        assert isinstance(shallow(text), bytes)
