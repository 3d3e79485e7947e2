"""Values from a guest are decoded, and values for a guest are encoded. These tests need no box."""

import contextlib
import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nekro_core.sandbox import guest
from nekro_core.sandbox.box import GuestCall
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.jail import remedies
from nekro_core.sandbox.link import calls
from nekro_core.sandbox.link.calls import InvalidCall, decode_call
from nekro_core.sandbox.link.handover import HandoverError, dump
from nekro_core.system.confinement import jail_filter


@pytest.fixture(scope="module")
def guest_values():
    """The guest's module, imported as in a box and then removed from `sys.modules`."""
    folder = str(Path(guest.__file__).parent)
    sys.path.insert(0, folder)
    try:
        import guest_values  # noqa: PLC0415 - only while its folder is on the path
    finally:
        sys.path.remove(folder)
        for name in ("guest_wire", "guest_values"):
            sys.modules.pop(name, None)
    return guest_values


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["$", "$b", "$t", "$d", "x" * 5000]
)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


names = st.from_regex("[a-z]+", fullmatch=True)


@given(args=st.lists(plain, max_size=3), kwargs=st.dictionaries(names, plain, max_size=3))
def test_the_host_decodes_what_a_guest_encodes(guest_values, args, kwargs) -> None:
    text, body = guest_values.encode_call("name", tuple(args), kwargs, 10**7)
    assert decode_call(text, body) == GuestCall(name="name", args=tuple(args), kwargs=kwargs)


@given(text=st.binary(max_size=200), body=st.binary(max_size=20))
def test_any_bytes_are_decoded_as_a_call_or_refused(text: bytes, body: bytes) -> None:
    with contextlib.suppress(InvalidCall):
        decode_call(text, body)


any_json = st.recursive(
    st.integers() | st.text() | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(value=any_json)
def test_any_json_is_decoded_as_a_call_or_refused(value: object) -> None:
    try:
        call = decode_call(json.dumps(value).encode(), b"")
    except InvalidCall:
        return
    for arg in call.args:
        assert not isinstance(arg, float) or math.isfinite(arg)


a_value = st.integers() | st.floats() | st.text(st.sampled_from('aé:,"{}[]1e \\\n'), max_size=6)
some_calls = st.tuples(
    st.text(max_size=3), st.lists(a_value, max_size=3), st.dictionaries(names, a_value, max_size=3)
)


@given(value=some_calls, spoilt=st.tuples(st.integers(0, 60), st.binary(max_size=6)))
@example(value=("name", [], {}), spoilt=(10, b'{"a":1,"a":2}'))
@example(value=("name", [10**30], {}), spoilt=(0, b""))
@example(value=("name", [], {}), spoilt=(8, b"1e999"))
def test_both_decoders_of_calls_agree(value, spoilt: tuple[int, bytes]) -> None:
    place, replaced = spoilt
    text = json.dumps(value, separators=(",", ":")).encode()
    text = text[:place] + replaced + text[place + len(replaced) :]
    if (quickly := calls.decode_quickly(text)) is not None:
        assert repr(quickly) == repr(calls.decode_strictly(text, b""))


short = st.binary(max_size=50)
a_frame = st.tuples(st.integers(0, 99), st.integers(0, 2**32 - 1), short, short)


@given(frames=st.lists(a_frame, max_size=5), cut=st.integers(1, 30))
def test_frames_are_the_same_however_their_stream_is_cut(frames, cut: int) -> None:
    sent = b"".join(wire.frame(*frame) for frame in frames)
    buffer, received = bytearray(), []
    for start in range(0, len(sent), cut):
        buffer += sent[start : start + cut]
        while found := wire.split(buffer, 1000):
            received.append(found)
    assert received == frames
    assert not buffer


def test_a_frame_that_claims_too_large_a_size_is_refused_at_once() -> None:
    with pytest.raises(wire.ProtocolError):
        wire.split(bytearray(wire.HEAD.pack(1, 1, 0, 101)), 100)
    with pytest.raises(wire.ProtocolError):
        wire.split(bytearray(wire.HEAD.pack(1, 1, wire.TEXT_LIMIT + 1, 0)), 100)


def test_the_error_names_the_type_of_a_value_that_cannot_be_pickled() -> None:
    with pytest.raises(HandoverError, match="generator cannot be handed over"):
        dump(n for n in ())


def test_an_object_of_a_class_that_guests_cannot_import_is_sent_as_a_view_of_its_attributes() -> (
    None
):
    assert b"make_view" in dump(GuestCall(name="x", args=(), kwargs={}))


@pytest.mark.parametrize("machine", jail_filter.MACHINES)
def test_every_jump_of_the_filter_ends_inside_the_filter(machine: str) -> None:
    program = jail_filter.build_filter(machine)
    count = len(program) // 8
    assert len(program) % 8 == 0
    assert 70 < count < 256
    for place in range(count):
        code, if_true, if_false = program[place * 8], program[place * 8 + 2], program[place * 8 + 3]
        if code != 0x06:
            assert place + 1 + max(if_true, if_false) < count
    assert program[-8] == 0x06


@pytest.mark.parametrize(
    ("complaint", "word"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: No permissions to create new namespace, likely because ...", "Docker"),
        ("bwrap: Creating new namespace failed: Operation not permitted", "pivot_root"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths"),
        ("no Python that the boxes' user can run: ...", "NEKRO_SANDBOX__INTERPRETER"),
        ("something else", ""),
    ],
)
def test_an_error_of_bubblewrap_has_its_remedy(complaint: str, word: str) -> None:
    assert word in remedies.find_remedy(complaint)
    assert bool(remedies.find_remedy(complaint)) == bool(word)
