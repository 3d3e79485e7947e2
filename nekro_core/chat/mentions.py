"""Finds mentions in a text of a plugin or a model. The standard spelling is
``[@id:10001;nickname:Lin@]``.

Models also write many other spellings. A spelling is accepted only if it cannot mean anything but a
mention.
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
    """One mention. ``user_id`` is the platform's id of the person, or ``all``."""

    user_id: str
    name: str = ""

    @property
    def markup(self) -> str:
        """The mention in its standard spelling."""
        named = f";nickname:{self.name}" if self.name else ""
        return f"[@id:{self.user_id}{named}@]"


def split_at_markup(text: str) -> Iterator[str | AtMention]:
    """Yield the mentions in a text and the texts between them, in order. Empty texts are
    skipped."""
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
    """Return the text with all mentions in the standard spelling."""
    return "".join(
        piece if isinstance(piece, str) else piece.markup for piece in split_at_markup(text)
    )


def text_segments(text: str) -> tuple[Segment, ...]:
    """Split a text into text segments and mentions. A mention of everybody becomes the plain text
    ``@all``, which notifies nobody, because an untrusted person may have caused it."""
    segments: list[Segment] = []
    for piece in split_at_markup(text):
        if isinstance(piece, str):
            segments.append(Text(piece))
        elif piece.user_id == EVERYONE:
            segments.append(Text("@all"))
        else:
            segments.append(Mention(piece.user_id, piece.name))
    return tuple(segments)
