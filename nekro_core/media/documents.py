"""Reads the text of documents, by page or heading. Office documents and PDFs are read in a confined
child process, plain text files directly.

A document can be damaged or made to do harm, for example by using up all memory. So the child has
no access to files or to the network, has little memory and time, and its answer is checked again
here.
"""

import json
from dataclasses import dataclass
from pathlib import PurePath

from anyio import CapacityLimiter

from nekro_core.media.confined_process import run_confined
from nekro_core.media.errors import UnusableMedia

MAX_BYTES = 32 * 1024 * 1024
"""Maximum size in bytes of a document that is read."""
MAX_CHARS = 2_000_000
"""Maximum number of characters that are read of one document: as many as a book of 800 pages
has."""
_MAX_PAGES = 2_000
_MAX_CELLS = 500_000
_MAX_SECTIONS = 20_000
_MAX_HEADING = 200
_SECONDS = 60
"""Maximum processor time for one document, in seconds. A PDF of 800 pages takes 20 s."""

_OFFICE = {".pdf": "pdf", ".docx": "docx", ".xlsx": "xlsx", ".xlsm": "xlsx"}
_TEXT = frozenset((".txt", ".md", ".markdown", ".csv", ".tsv", ".rst", ".json", ".yaml", ".yml"))
READABLE = frozenset((*_OFFICE, *_TEXT))
"""The endings of the files that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSection:
    """A part of a document.

    Attributes:
        text: The text.
        heading: The heading above it, or the name of the sheet; may be empty.
        page: The page, from 1; 0 if the document has no pages.
    """

    text: str
    heading: str = ""
    page: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentText:
    """The text of a document. ``cut`` says whether its end is missing."""

    sections: tuple[DocumentSection, ...]
    cut: bool = False


class DocumentReader:
    """Reads documents. At most ``at_once`` office documents and PDFs are read at the same time;
    each takes 0.5 s or more, and 100 MB while it is read."""

    def __init__(self, *, at_once: int = 1) -> None:
        self._places = CapacityLimiter(at_once)

    async def read(self, name: str, data: bytes) -> DocumentText:
        """Read a document. The ending of ``name`` decides how it is read. Raises `MediaError`. The
        text of `UnusableMedia` says for people why this document cannot be read."""
        ending = PurePath(name).suffix.lower()
        if ending not in READABLE:
            known = ", ".join(sorted(each[1:] for each in READABLE))
            raise UnusableMedia(
                f"files of the kind {ending[:20]!r} are not read; these are: {known}"
            )
        if len(data) > MAX_BYTES:
            raise UnusableMedia(f"it has more than {MAX_BYTES // 1024 // 1024} MB")
        if not data:
            raise UnusableMedia("it is empty")
        if ending in _TEXT:
            return _plain(data)
        most = {"chars": MAX_CHARS, "pages": _MAX_PAGES, "cells": _MAX_CELLS}
        request = {"kind": _OFFICE[ending], "most": most}
        async with self._places:
            fields, made = await run_confined(
                "nekro_core.media.document_worker", request, data, seconds=_SECONDS
            )
        sections = _sections(made)
        if not sections:
            raise UnusableMedia("it has no text")
        return DocumentText(sections=sections, cut=fields.get("cut") is True)


def _plain(data: bytes) -> DocumentText:
    if b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnusableMedia("it is no text")
    for encoding in (
        "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig",
        "gb18030",
    ):
        try:
            text = data.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    else:
        text = data.decode("utf-8", "replace")
    if not text.strip():
        raise UnusableMedia("it is empty")
    return DocumentText(
        sections=(DocumentSection(text=text[:MAX_CHARS]),), cut=len(text) > MAX_CHARS
    )


def _sections(made: bytes) -> tuple[DocumentSection, ...]:
    """Check what the child has written, since a hostile document may control the child."""
    try:
        found = json.loads(made)
    except (ValueError, RecursionError):
        raise UnusableMedia("the reader gave up on it: it is damaged") from None
    sections: list[DocumentSection] = []
    left = MAX_CHARS
    for each in found[:_MAX_SECTIONS] if isinstance(found, list) else ():
        match each:
            case {"heading": str(heading), "page": int(page), "text": str(text)} if text.strip():
                text = text[:left]
                left -= len(text)
                sections.append(
                    DocumentSection(
                        text=text, heading=heading[:_MAX_HEADING], page=max(0, min(page, 10**6))
                    )
                )
    return tuple(sections)
