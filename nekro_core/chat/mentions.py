"""Mentions inside a text, as existing plugins and models write them: ``[@id:10001;nickname:Lin@]``.

Models write it in many ways. Every spelling that can only be a mention is accepted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nekro_core.chat.segments import EVERYONE, Mention, Segment, Text

_MARKUP = re.compile(
    r"[\[【(（]\s*[@＠]\s*"
    r"(?:(?:id|qq|user_?id|uid)\s*[:：=]\s*)?"
    r"(?P<id>all|[A-Za-z0-9_.-]{1,64})"
    r"(?:\s*[;；,，]\s*(?:nickname|name|nick)\s*[:：=]\s*(?P<name>[^@＠\]】\n]{0,64}?))?"
    r"\s*[@＠]\s*[\]】)）]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AtMention:
    """One mention; ``user_id`` is the platform's, or ``all``."""

    user_id: str
    name: str = ""

    @property
    def markup(self) -> str:
        """The mention in its standard spelling."""
        named = f";nickname:{self.name}" if self.name else ""
        return f"[@id:{self.user_id}{named}@]"


def split_at_markup(text: str) -> Iterator[str | AtMention]:
    """Yield a text's mentions and the pieces between them, in order, without empty pieces."""
    end = 0
    for found in _MARKUP.finditer(text):
        if found.start() > end:
            yield text[end : found.start()]
        user_id = found["id"]
        yield AtMention(
            "all" if user_id.lower() == "all" else user_id, (found["name"] or "").strip()
        )
        end = found.end()
    if end < len(text):
        yield text[end:]


def normalize_at_markup(text: str) -> str:
    """Return the text with every mention in the standard spelling."""
    return "".join(
        piece if isinstance(piece, str) else piece.markup for piece in split_at_markup(text)
    )


def text_segments(text: str) -> tuple[Segment, ...]:
    """Split a text into segments of text and mentions. A mention of everybody becomes the text
    ``@all`` and notifies no one, because an untrusted person may have written it."""
    segments: list[Segment] = []
    for piece in split_at_markup(text):
        if isinstance(piece, str):
            segments.append(Text(piece))
        elif piece.user_id == EVERYONE:
            segments.append(Text("@all"))
        else:
            segments.append(Mention(piece.user_id, piece.name))
    return tuple(segments)
