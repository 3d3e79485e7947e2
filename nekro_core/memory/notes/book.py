"""Keeps notes: stores, merges, corrects, finds and deletes them within their chats.

What a person said about themselves is corrected only by what the same person says, or by an
operator. Without this rule, a member of a group could end a true note about somebody else by having
the bot remember the opposite. With the rule, neither note ends, and prompts show who said each.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import anyio

from nekro_core.chat import ChatKey
from nekro_core.memory.notes.similar import contradicts, is_near, is_same, ranked
from nekro_core.memory.quoted import one_line
from nekro_core.memory.scope import MemoryScope
from nekro_core.store import NoteKind, NoteOrigin, NoteRow, RecordRange, Store
from nekro_core.system.errors import NekroError

MAX_CHARS = 500
"""Maximum number of characters of a note. A longer text should be a document."""
MAX_NOTES = 500
"""Maximum number of notes of a chat. If there are more, notes of the author who has the most are
deleted: first ended ones, then the oldest. So a flood of notes by one person does not delete the
notes of others."""
_MAX_NAME = 100
MAX_FOUND = 50
"""Maximum number of notes that a search returns."""
_MAX_WORDS = 1_000
"""Maximum number of characters of a search text that are read. The rest is ignored."""
_CORRECTED = 10
"""Maximum number of notes in `NewNote.replaces`."""


class NoteRefused(NekroError):
    """A note cannot be kept. The text says what came, what was expected and what to do."""


class NoSuchNote(NekroError):
    """There is no such note in the chats whose notes may be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote:
    """A note to be kept. See `NoteRow` for the fields. ``replaces`` are the numbers of the notes
    that it corrects."""

    text: str
    about_id: str = ""
    about_name: str = ""
    said_by: str = ""
    kind: NoteKind = NoteKind.FACT
    origin: NoteOrigin = NoteOrigin.BOT
    source_seq: int = 0
    since: float = 0.0
    until: float = 0.0
    replaces: Collection[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNote:
    """The outcome of `NoteBook.keep`: the note's row, whether the note existed before, and the
    numbers of the notes that it replaced."""

    note: NoteRow
    existed: bool = False
    replaced: tuple[int, ...] = ()


class NoteBook:
    """The notes of all chats. ``wall`` returns seconds since 1970."""

    def __init__(self, store: Store, scope: MemoryScope, wall: Callable[[], float]) -> None:
        self._notes = store.notes
        self._scope = scope
        self._wall = wall
        self._one = anyio.Lock()

    async def keep(
        self, chat_key: ChatKey, new: NewNote, *, read: RecordRange | None = None
    ) -> StoredNote | None:
        """Keep a note that was said in a chat.

        A note that exists already is not stored twice. If there is a note about the same person
        that says nearly the same, the new note replaces it: the old note stays stored, marked as
        ended. The new note does not replace a note that it may not correct (see the top of this
        module). If it contradicts a note that was said later, the new note itself is stored as
        ended.

        Args:
            chat_key: The chat in which the note was said.
            new: The note.
            read: The records from which the note was made. If one of them was deleted or recalled,
                nothing is stored, and the result is None.

        Raises:
            NoteRefused: The text is empty or too long, or nothing may be remembered about one of
                the people.
            StoreError: It cannot be stored.
        """
        text = self._checked(chat_key, new)
        async with self._one:
            known = await self._notes.of_chats(
                [chat_key], about=[new.about_id], ended=new.origin is NoteOrigin.IMPORTED
            )
            for each in known:
                if is_same(each.text, text) and _exists(each, new):
                    return StoredNote(note=each, existed=True)
            near = [each for each in known if each.holds and is_near(each.text, text)]
            near = [each for each in near if _may_correct(new, each)]
            now = self._wall()
            since, until, replaced_by = new.since or now, new.until, 0
            newer = [each for each in near if _is_older(new, each) and contradicts(each.text, text)]
            if newer and not until:
                # The newer note is the correction, though it was stored first.
                until, replaced_by = max(newer[0].since, since), newer[0].note_id
            if until:
                near = []
            replaced = {each.note_id for each in near}
            if not until:
                replaced.update(await self._corrected(chat_key, new))
            same = [each.since for each in near if not contradicts(each.text, text)]
            if same and len(same) == len(near):
                # The old notes say the same in other words. So the new note is true since the
                # earliest of them.
                since = min(since, *same)
            note = NoteRow(
                chat_key=chat_key,
                text=text,
                about_id=new.about_id,
                about_name=one_line(new.about_name, _MAX_NAME),
                said_by=new.said_by,
                kind=new.kind,
                origin=new.origin,
                source_seq=new.source_seq,
                since=since,
                until=until,
                replaced_by=replaced_by,
                changed=now,
            )
            number = await self._notes.add(note, replaces=replaced, read=read)
            if not number:
                return None
            await self._delete_surplus(chat_key)
        return StoredNote(note=replace(note, note_id=number), replaced=tuple(sorted(replaced)))

    async def _corrected(self, chat_key: ChatKey, new: NewNote) -> list[int]:
        """Return those numbers of ``new.replaces`` whose notes the new note may correct."""
        found = []
        for number in [*new.replaces][:_CORRECTED]:
            old = await self._notes.get(number, [chat_key])
            if old is not None and old.about_id == new.about_id and _may_correct(new, old):
                found.append(number)
        return found

    def _checked(self, chat_key: ChatKey, new: NewNote) -> str:
        text = one_line(new.text, MAX_CHARS + 10)
        if not text:
            raise NoteRefused("the note is empty: say in one sentence what shall be remembered")
        if len(text) > MAX_CHARS:
            raise NoteRefused(
                f"the note has more than {MAX_CHARS} characters: write it shorter, or as several"
            )
        for person in (new.about_id, new.said_by):
            if self._scope.is_off(chat_key, person):
                raise NoteRefused("this person wants nothing to be remembered (/memory on)")
        if self._scope.names_off(chat_key, text):
            raise NoteRefused("the note names a person who wants nothing to be remembered")
        if new.origin is NoteOrigin.IMPORTED and self._scope.was_erased(
            chat_key, (new.about_id, new.said_by), text, new.since
        ):
            raise NoteRefused("it is about a person who was erased since then, or of their words")
        return text

    async def _delete_surplus(self, chat_key: ChatKey) -> None:
        surplus = await self._notes.count(chat_key) - MAX_NOTES
        if surplus > 0:
            await self._notes.delete(await self._notes.oldest(chat_key, surplus))

    async def get(self, chat_key: ChatKey, note_id: int) -> NoteRow:
        """Get a note that may be read in a chat. Raises `NoSuchNote` and `StoreError`."""
        note = await self._notes.get(note_id, self._scope.readable(chat_key))
        if note is None:
            raise NoSuchNote(f"there is no note {note_id} here: find_notes and /memory list them")
        return note

    async def rewrite(
        self, chat_key: ChatKey, note_id: int, text: str, *, said_by: str | None = None
    ) -> NoteRow:
        """Replace the text of a note. If the note had ended, it is true again. Returns the note as
        it was. ``said_by`` is the person who says the new text; None if the author stays. Raises
        `NoSuchNote`, `NoteRefused` and `StoreError`."""
        note = await self.get(chat_key, note_id)
        author = note.said_by if said_by is None else said_by
        new = NewNote(text=text, about_id=note.about_id, said_by=author)
        clean = self._checked(note.chat_key, new)
        await self._notes.rewrite(
            note_id, text=clean, said_by=author, until=0.0, changed=self._wall()
        )
        return note

    async def end(self, chat_key: ChatKey, notes: Collection[int]) -> None:
        """Mark notes that were said in this chat as ended: they are no longer true."""
        if notes:
            now = self._wall()
            await self._notes.end(notes, chat_key=chat_key, until=now, changed=now)

    async def delete(self, chat_key: ChatKey, note_id: int) -> NoteRow:
        """Delete a note that may be read in a chat. Returns it. Raises `NoSuchNote` and
        `StoreError`."""
        note = await self.get(chat_key, note_id)
        await self._notes.delete([note_id])
        return note

    async def put_back(self, note: NoteRow) -> NoteRow:
        """Store a deleted note again, with a new number. Raises `StoreError`."""
        return replace(note, note_id=await self._notes.add(note))

    async def listed(
        self,
        chat_key: ChatKey,
        *,
        about: Collection[str] | None = None,
        ended: bool = False,
    ) -> list[NoteRow]:
        """Get the notes that may be read in a chat, newest first. See `NoteRepository.of_chats`."""
        return await self._notes.of_chats(self._scope.readable(chat_key), about=about, ended=ended)

    async def find(
        self, chat_key: ChatKey, words: str, *, about: str | None = None, limit: int = 10
    ) -> list[NoteRow]:
        """Search the notes that may be read in a chat. With words, ended notes are found too.

        Args:
            chat_key: The chat.
            words: The words to search for. If there are none, the newest notes that have not ended
                are returned.
            about: Only notes about this person; the empty id means notes about the chat.
            limit: The maximum number of notes, at most `MAX_FOUND`.
        """
        limit = max(1, min(limit, MAX_FOUND))
        people = None if about is None else [about]
        notes = await self.listed(chat_key, about=people, ended=True)
        words = words[:_MAX_WORDS]
        if not words.strip():
            return [each for each in notes if each.holds][:limit]
        places = ranked(words, [f"{each.about_name} {each.text}" for each in notes])
        return [notes[place] for place, _ in places[:limit]]


def _exists(known: NoteRow, new: NewNote) -> bool:
    """Return True if a known note with the same text is this note. An imported note also exists if
    it has ended here meanwhile: an old export must not bring back what was corrected."""
    if new.origin is NoteOrigin.IMPORTED and new.since:
        return known.since == new.since or (known.holds and not new.until)
    return known.holds and not new.until


def _may_correct(new: NewNote, old: NoteRow) -> bool:
    """Return True if a note may end another one. See the module's head."""
    if new.origin in (NoteOrigin.OPERATOR, NoteOrigin.IMPORTED):
        return True
    own = bool(old.about_id) and old.said_by == old.about_id
    return not own or new.said_by == old.said_by


def _is_older(new: NewNote, known: NoteRow) -> bool:
    """Return True if a note was said before a known one. This happens because notes are drawn out
    of a conversation only some time after it."""
    if new.source_seq and known.source_seq:
        return new.source_seq < known.source_seq
    return bool(new.since) and new.since < known.since
