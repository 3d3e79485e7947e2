"""Cuts documents into pieces along their headings and sentences."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from nekro_core.media.documents import DocumentText

PIECE_CHARS = 1_200
"""Characters of a piece: two or three paragraphs, about 300 tokens of English."""
MAX_PIECES = 5_000
"""Maximum number of pieces of one document. 2,000,000 characters are about 2,000 pieces."""
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_MAX_HEADING = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a document, with the heading above it and its page (0 for none)."""

    text: str
    heading: str
    page: int


def pieces_of(document: DocumentText, *, markdown: bool) -> Iterator[Piece]:
    """Yield the pieces of a document, at most `MAX_PIECES`. It blocks: 2,000,000 characters take
    about a second."""
    splitter = (MarkdownSplitter if markdown else TextSplitter)(PIECE_CHARS)
    left = MAX_PIECES
    for section in document.sections:
        headings = list(_HEADING.finditer(section.text)) if markdown else []
        above = 0
        for begin, text in splitter.chunk_indices(section.text):
            # The heading of a piece is the last one before its end of the first line.
            first_line = begin + len(text.partition("\n")[0])
            while above < len(headings) and headings[above].start() <= first_line:
                above += 1
            heading = headings[above - 1].group(1) if above else section.heading
            if not text.strip():
                continue
            yield Piece(text=text, heading=heading[:_MAX_HEADING], page=section.page)
            left -= 1
            if not left:
                return
