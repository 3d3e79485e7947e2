"""Chooses the notes that a prompt shows, and writes them."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import tzinfo

from nekro_core.chat import ChatKey
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.memory.notes.book import NoteBook
from nekro_core.memory.quoted import day, one_line
from nekro_core.store import NoteRow

_MARK_TOKENS = 2
"""Tokens of the line end, and of the mark of quoted text that the prompt writes before a line."""
_MORE_TOKENS = 15
"""Tokens of the line that says how many notes are left out."""


async def notes_section(
    book: NoteBook,
    chat_key: ChatKey,
    people: Collection[str],
    *,
    tokens: int,
    zone: tzinfo | None,
) -> str:
    """Write the notes about the chat and these people, in at most ``tokens`` tokens; empty if there
    are none. If not all notes fit, the newest of each author are chosen, so that a flood of notes
    by one person does not hide those of others. The chosen notes are written in the order in which
    they were made, so that the text changes as little as possible when a note is added. The prompt
    quotes the lines. Raises `StoreError`."""
    notes = await book.listed(chat_key, about={"", *people})
    left = tokens - _MORE_TOKENS
    shown: dict[int, str] = {}
    for note in _in_turn(notes):
        line = note_line(note, chat_key, zone)
        left -= estimate_tokens(line) + _MARK_TOKENS
        if left < 0:
            break
        shown[note.note_id] = line
    if not shown:
        return ""
    lines = [shown[number] for number in sorted(shown)]
    if more := len(notes) - len(shown):
        lines.append(f"{more} more: find_notes(words)")
    return "\n".join(lines)


def _in_turn(notes: Sequence[NoteRow]) -> Iterator[NoteRow]:
    """Yield the newest note of each author, then the next one of each, and so on."""
    queues: defaultdict[str, list[NoteRow]] = defaultdict(list)
    for note in notes:
        queues[note.author].append(note)
    for place in range(max(map(len, queues.values()), default=0)):
        yield from (each[place] for each in queues.values() if place < len(each))


def note_line(note: NoteRow, chat_key: ChatKey, zone: tzinfo | None) -> str:
    """Write a note on one line: its number, the person whom it is about, its text, and the date
    since which it is true."""
    about = ""
    if note.about_id:
        name = one_line(note.about_name, 60)
        about = f"about {name} ({note.about_id})" if name else f"about {note.about_id}"
        if note.said_by and note.said_by != note.about_id:
            about += f", said by {note.said_by}"
        about += ", "
    held = f"since {day(note.since, zone)}"
    if note.until:
        held = f"from {day(note.since, zone)} to {day(note.until, zone)}, not any more"
    where = "" if note.chat_key == chat_key else f", in {note.chat_key}"
    source = f", #{note.source_seq}" if note.source_seq and not where else ""
    return f"{note.note_id}: {note.text} ({about}{held}{source}{where})"
