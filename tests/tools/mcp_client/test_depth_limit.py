"""Values that are nested too deeply for JSON readers are cut; the rest stays unchanged."""

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.tools.mcp_client.depth_limit import _SIGN, INSTEAD, MAX_DEPTH, limit_depth


def nested(levels: int, inner: Any = None, kind: str = "list") -> Any:
    for _ in range(levels):
        inner = [inner, "]}"] if kind == "list" else {"{[": inner, "b": 1}
    return inner


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("levels", [0, 1, MAX_DEPTH, 190])
def test_messages_within_the_depth_limit_are_unchanged(kind: str, levels: int) -> None:
    text = json.dumps(nested(levels, "x", kind)).encode()
    assert limit_depth(text) is text


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("levels", [250, 900])
def test_values_deeper_than_the_limit_are_cut_and_values_beside_them_stay(
    kind: str, levels: int
) -> None:
    text = json.dumps([{"a": 1}, nested(levels, "x", kind), {"z": [2]}]).encode()
    first, deep, last = json.loads(limit_depth(text))
    assert (first, last) == ({"a": 1}, {"z": [2]})
    depth = 1
    while isinstance(deep, list | dict):
        deep = deep[0] if isinstance(deep, list) else deep["{["]
        depth += 1
    assert depth == MAX_DEPTH
    assert deep == json.loads(INSTEAD)


@given(st.binary(max_size=50) | st.sampled_from([b'"', b'"\\', b"[", b"]"]), st.integers(0, 300))
def test_malformed_input_causes_no_error(inner: bytes, levels: int) -> None:
    for text in (b"[" * levels + inner, b"[" * levels + inner + b"]" * levels):
        assert isinstance(limit_depth(text), bytes)


def plain_signs(text: bytes) -> list[bytes]:
    """The matches of `_SIGN`, found byte by byte."""
    found, at = [], 0
    while at < len(text):
        size = 2 if text[at : at + 1] == b"\\" else 1
        if at + size <= len(text) and text[at] in b'\\"[]{}':
            found.append(text[at : at + size])
        at += size
    return found


def test_the_pattern_finds_the_same_brackets_as_a_simple_reader() -> None:
    dice = random.Random(12)
    for _ in range(20_000):
        text = bytes(dice.choices(b'a\n\xe9\\"[]{}', k=dice.randrange(30)))
        assert _SIGN.findall(text) == plain_signs(text), text


@pytest.mark.parametrize("inner", [b'\\"', b'"', b"\\", b"[", b'""'])
def test_a_hostile_message_takes_linear_time(inner: bytes) -> None:
    for begin in (b"", b'"'):
        text = b"[" * 300 + begin + inner * (1_000_000 // len(inner))
        began = time.process_time()
        assert limit_depth(text) == text
        # 1 MB takes at most 0.2 s. An earlier version took quadratic time: 10 s for 64 kB.
        assert time.process_time() - began < 5
