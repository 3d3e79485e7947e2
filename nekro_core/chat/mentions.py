"""Mentions inside a text, as existing plugins and models write them: ``[@id:10001;nickname:Lin@]``.

Models spell it in many ways; every spelling that can only be meant as a mention is read.
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
        """The mention as it is written."""
        named = f";nickname:{self.name}" if self.name else ""
        return f"[@id:{self.user_id}{named}@]"


def split_at_markup(text: str) -> Iterator[str | AtMention]:
    """The pieces of a text between its mentions, and the mentions; empty pieces are left out."""
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
    """The text with every mention in the one right spelling."""
    return "".join(
        piece if isinstance(piece, str) else piece.markup for piece in split_at_markup(text)
    )


def text_segments(text: str) -> tuple[Segment, ...]:
    """The text as segments, its mentions among them. A mention of everybody becomes the words
    ``@all`` and calls nobody, because a stranger may have written the text."""
    segments: list[Segment] = []
    for piece in split_at_markup(text):
        if isinstance(piece, str):
            segments.append(Text(piece))
        elif piece.user_id == EVERYONE:
            segments.append(Text("@all"))
        else:
            segments.append(Mention(piece.user_id, piece.name))
    return tuple(segments)
