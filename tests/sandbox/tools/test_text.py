"""A slice of a file becomes text, even if the slice cuts a character."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nekro_core.sandbox.tools.text import UTF8_MARGIN, SliceText, slice_text

PRINTABLE = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t\n\r\f\x1b")
)


@pytest.mark.parametrize(
    ("before", "data", "after", "text"),
    [
        (b"", b"", b"", SliceText("")),
        (b"", b"plain", b"", SliceText("plain")),
        (b"", "hé".encode(), b"", SliceText("hé")),
        (b"h", "é!".encode(), b"", SliceText("é!")),
        (b"h\xc3", b"\xa9!", b"", SliceText("!", skipped=1)),
        (b"", b"h\xc3", b"\xa9!", SliceText("h", left=1)),
        (b"\xe4\xbd", b"\xa0ok\xe4", b"\xbd\xa0", SliceText("ok", skipped=1, left=1)),
        (b"", "\ufeffbom".encode(), b"", SliceText("\ufeffbom")),
        (b"", b"\x1b[31mred", b"", SliceText("\x1b[31mred")),
        # Bytes that are not text
        (b"", b"\x00\x01", b"", None),
        (b"", b"bell\x07", b"", None),
        (b"", b"del\x7f", b"", None),
        (b"", "c1\x85".encode(), b"", None),
        (b"", b"\xff\xfe", b"", None),
        (b"", b"\xa9!", b"", None),
        (b"x", b"\xa9!", b"", None),
        (b"", b"h\xc3", b"", None),
        (b"", b"h\xc3", b"x", None),
        # Bytes without a whole character
        (b"\xe4", b"\xbd", b"\xa0", None),
    ],
)
def test_a_slice_of_a_file_becomes_text(
    before: bytes, data: bytes, after: bytes, text: SliceText | None
) -> None:
    assert slice_text(data, before=before, after=after) == text


@given(PRINTABLE, st.integers(0, 40), st.integers(1, 40))
@example("a\U0001f600b", 2, 3)
def test_any_slice_of_a_text_has_its_whole_code_points(text: str, start: int, length: int) -> None:
    whole = text.encode()
    data = whole[start : start + length]
    before = whole[max(0, start - UTF8_MARGIN) : start]
    after = whole[start + length : start + length + UTF8_MARGIN]
    found = slice_text(data, before=before, after=after)
    if found is None:
        assert data
        with pytest.raises(UnicodeDecodeError):
            data.decode()
        assert len(data) < 6, "only a slice without a whole code point is not text"
    else:
        end = len(data) - found.left
        assert data[found.skipped : end].decode() == found.text
        assert found.skipped <= UTF8_MARGIN
        assert found.left <= UTF8_MARGIN
        assert whole[: start + found.skipped].decode() is not None


@given(st.binary(max_size=3), st.binary(max_size=60), st.binary(max_size=3))
def test_a_slice_of_any_bytes_becomes_exactly_its_text_or_none(
    before: bytes, data: bytes, after: bytes
) -> None:
    found = slice_text(data, before=before, after=after)
    if found is not None:
        assert data[found.skipped : len(data) - found.left] == found.text.encode()
