"""The file names of media and the requested ranges come from strangers. Both are checked."""

import pytest

from nekro_core.chat import Media
from nekro_core.operator.media_response import media_response


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("bytes=1-2", 206),
        ("bytes=-2", 206),
        ("bytes=9-", 416),
        (f"bytes={'9' * 5000}-", 200),  # Python refuses to convert a number with so many digits
        (f"bytes=0-{'9' * 5000}", 200),
    ],
)
def test_a_range_of_any_length_gets_an_answer(asked: str, status: int) -> None:
    assert media_response(Media(mime="image/png"), b"1234", asked).status_code == status


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: b=c", 'a"; x=y', "\ud800", "../../a", "犬.png"])
def test_a_file_name_cannot_add_a_header(name: str) -> None:
    answer = media_response(Media(mime="text/html", name=name), b"<script>", "")
    shown = answer.headers["content-disposition"]
    assert shown.startswith("attachment; filename*=UTF-8''")
    assert not set(shown.partition("''")[2]) & set(" \r\n\";/'")
    assert answer.headers["content-type"] == "application/octet-stream"
