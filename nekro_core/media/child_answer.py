"""Reads the answer of a confined child process. A hostile file may control the child, so nothing is
trusted."""

import json
from typing import Any

from nekro_core.media.errors import CodecMissing, UnusableMedia

MOST_OUT = 64 * 1024 * 1024
"""The largest answer of a child in bytes: ten minutes of sound at 48 kHz are 58 MB."""
_MOST_WORDS = 300


def read_answer(answer: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the answer's fields and the bytes after them.

    Raises `UnusableMedia`, also for an incomplete answer, and `CodecMissing`."""
    head, _, made = answer.partition(b"\n")
    fields = _fields(head)
    if fields is None or fields.get("length") != len(made) or len(answer) > MOST_OUT:
        raise UnusableMedia("the decoder gave up on it: it is damaged, or made to do harm")
    if missing := fields.get("missing"):
        raise CodecMissing(str(missing)[:_MOST_WORDS])
    if unusable := fields.get("unusable"):
        raise UnusableMedia(str(unusable)[:_MOST_WORDS])
    return fields, made


def _fields(head: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(head)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None
