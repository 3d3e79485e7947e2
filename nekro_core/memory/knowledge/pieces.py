"""Cuts documents into pieces along their headings and sentences."""

import re
from collections.abc import Iterator

from nekro_core.media.documents import DocumentText
from nekro_core.memory.words import split_words
from nekro_core.store.knowledge_index import IndexedPiece

PIECE_CHARS = 1_200
"""Characters of a piece: two or three paragraphs, about 300 tokens of English."""
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
_MAX_HEADING = 200


def indexed_pieces(document: DocumentText, *, markdown: bool) -> Iterator[IndexedPiece]:
    """Yield the pieces of a document. A piece never contains text of two sections. This function
    blocks: 2,000,000 characters take about a second and are about 2,000 pieces."""
    # Import the splitter here: it takes half a MiB of memory, and only a bot with documents needs
    # it.
    from semantic_text_splitter import MarkdownSplitter, TextSplitter  # noqa: PLC0415

    splitter = (MarkdownSplitter if markdown else TextSplitter)(PIECE_CHARS)
    for section in document.sections:
        parts = _parts(section.text) if markdown else [(section.heading, section.text)]
        for heading, part in parts:
            for text in splitter.chunks(part):
                if not text.strip():
                    continue
                above = heading[:_MAX_HEADING]
                yield IndexedPiece(
                    text=text,
                    heading=above,
                    page=section.page,
                    words=searchable(text),
                    heading_words=searchable(above),
                )


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a Markdown text with their headings. A line with ``#`` in a block of code
    is not a heading."""
    fences = [each.start() for each in _FENCE.finditer(text)]
    begin, heading, fence = 0, "", 0
    for found in _HEADING.finditer(text):
        while fence < len(fences) and fences[fence] < found.start():
            fence += 1
        if fence % 2:
            continue
        if text[begin : found.start()].strip():
            yield heading, text[begin : found.start()]
        begin, heading = found.start(), found.group(1)
    yield heading, text[begin:]


def searchable(text: str) -> str:
    """Return the words of a text for the word index. Chinese and Japanese characters are returned
    in pairs."""
    return " ".join(split_words(text))
