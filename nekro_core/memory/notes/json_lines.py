"""Writes notes as JSON lines and reads them again, for export and import."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.memory.notes.book import MAX_CHARS, NewNote, NoteBook, NoteRefused
from nekro_core.store import NoteKind, NoteOrigin, NoteRow

MAX_LINES = 20_000
"""Maximum number of lines of one import."""
MAX_LINE = 10_000
"""Maximum number of characters of a line."""
_MAX_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedNotes:
    """The outcome of an import.

    Attributes:
        kept: The number of new notes.
        existed: The number of notes that were stored before.
        refused: The reasons why lines were left out, each with the number of the line: of the first
            20 such lines, and of the line at which the import ended because there were too many.
        refused_count: How many lines were left out.
    """

    kept: int
    existed: int
    refused: tuple[str, ...]
    refused_count: int


_SHOWN = 20


def export_lines(notes: Iterable[NoteRow]) -> str:
    """Return one line of JSON for each note, the oldest first."""
    lines = []
    for note in sorted(notes, key=lambda each: each.note_id):
        fields = {
            "chat_key": str(note.chat_key),
            "text": note.text,
            "about_id": note.about_id,
            "about_name": note.about_name,
            "said_by": note.said_by,
            "kind": note.kind.value,
            "since": note.since,
            "until": note.until,
        }
        lines.append(json.dumps({k: v for k, v in fields.items() if v}, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)


async def import_lines(
    book: NoteBook, text: str, *, chat_key: ChatKey | None = None, first_line: int = 1
) -> ImportedNotes:
    """Keep the notes of an export. Lines that cannot be read are left out, and so are notes about a
    person about whom nothing may be remembered, or who was erased since. The result lists the
    reasons.

    Args:
        book: Stores the notes.
        text: The lines.
        chat_key: The chat that gets all notes; None for the chats that the lines name.
        first_line: The number of the first line, if the text is a part of a file.

    Raises:
        StoreError: A note cannot be stored. The notes before it are kept. The same import may be
            repeated.
    """
    kept = existed = count = 0
    refused: list[str] = []
    for number, line in enumerate(text.split("\n"), first_line):
        if not line.strip():
            continue
        if number >= first_line + MAX_LINES:
            count += 1
            refused.append(
                f"line {number} and all after it: one import has at most {MAX_LINES} lines"
            )
            break
        try:
            where, new = _note_of(line, chat_key)
            done = await book.keep(where, new)
            assert done is not None, "nothing was read, so nothing can be gone"
        except NoteRefused as error:
            count += 1
            if len(refused) < _SHOWN:
                refused.append(f"line {number}: {error}")
            continue
        existed += done.existed
        kept += not done.existed
    return ImportedNotes(kept=kept, existed=existed, refused=tuple(refused), refused_count=count)


def _note_of(line: str, chat_key: ChatKey | None) -> tuple[ChatKey, NewNote]:
    """Read a line. Raises `NoteRefused`."""
    if len(line) > MAX_LINE:
        raise NoteRefused(f"it has {len(line)} characters; at most {MAX_LINE}")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise NoteRefused("it is no JSON") from None
    if not isinstance(fields, dict):
        raise NoteRefused("it is no JSON object")
    known = {"text", "about_id", "about_name", "said_by", "kind", "since", "until", "chat_key"}
    if unknown := fields.keys() - known:
        raise NoteRefused(f"it has {min(unknown)!r}; known are {', '.join(sorted(known))}")
    kind = _text(fields, "kind", 20) or NoteKind.FACT.value
    if kind not in {each.value for each in NoteKind}:
        raise NoteRefused(f"kind {kind!r}: expected {', '.join(NoteKind)}")
    if chat_key is None:
        try:
            chat_key = ChatKey.parse(_text(fields, "chat_key", 255))
        except ChatKeyError as error:
            raise NoteRefused(str(error)) from None
    return chat_key, NewNote(
        text=_text(fields, "text", MAX_CHARS),
        about_id=_text(fields, "about_id", _MAX_ID),
        about_name=_text(fields, "about_name", _MAX_ID),
        said_by=_text(fields, "said_by", _MAX_ID),
        kind=NoteKind(kind),
        origin=NoteOrigin.IMPORTED,
        since=_time(fields, "since"),
        until=_time(fields, "until"),
    )


def _text(fields: Mapping[str, object], name: str, most: int) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise NoteRefused(f"{name}: expected a text of at most {most} characters")
    return value


def _time(fields: Mapping[str, object], name: str) -> float:
    value = fields.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise NoteRefused(f"{name}: expected seconds since 1970")
    return float(value)
