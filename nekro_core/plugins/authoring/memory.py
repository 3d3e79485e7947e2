"""Lets plugins read and change the memory of a call's chat: `AgentCtx.memory`."""

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nekro_core.chat import ChatKind
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.knowledge.library import cited
from nekro_core.memory.notes.book import NewNote, NoSuchNote, NoteRefused
from nekro_core.store import NoteKind, NoteOrigin, NoteRow
from nekro_core.tools.outcome import ToolFailure

if TYPE_CHECKING:
    from nekro_core.plugins.authoring.context import AgentCtx


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatNote:
    """A note, as plugins see it.

    Attributes:
        note_id: The number of the note.
        text: The note.
        about_id: The platform's id of the person whom the note is about; empty for the chat.
        about_name: The name of that person; may be empty.
        said_by: The platform's id of the person who said it; may be empty.
        kind: ``fact``, ``wish`` or ``decision``.
        since: When the note became true, in seconds since 1970.
        until: When the note stopped being true; 0 if it is still true.
    """

    note_id: int
    text: str
    about_id: str
    about_name: str
    said_by: str
    kind: str
    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeEntry:
    """A piece of a document.

    Attributes:
        source: The file, page and heading of the piece.
        text: The piece.
    """

    source: str
    text: str


class ChatMemory:
    """The memory of one chat. It does not contain words of other chats, unless an operator has
    linked the chats. All methods about notes raise `ToolFailure` if the operator has switched notes
    off.

    Args:
        ctx: The context of the call.
    """

    def __init__(self, ctx: "AgentCtx") -> None:
        self._ctx = ctx

    @property
    def _keeper(self) -> MemoryKeeper:
        found = self._ctx.services.memory
        if found is None or not found.settings.notes:
            raise ToolFailure("notes are switched off here (NEKRO_MEMORY__NOTES)")
        return found

    async def remember(self, text: str, *, about: str = "", kind: str = "fact") -> ChatNote:
        """Keep a note. It replaces a note about the same person that says nearly the same.

        Args:
            text: The note, at most 500 characters.
            about: The id or name of the person whom it is about; empty for the chat.
            kind: ``fact``, ``wish`` or ``decision``.

        Returns:
            The note.

        Raises:
            ToolFailure: The note is empty or too long, there is no such ``kind``, the chat does not
                know that person, or nothing may be remembered about the person. The text of the
                error says which.
        """
        ctx, keeper = self._ctx, self._keeper
        if kind not in {each.value for each in NoteKind}:
            raise ToolFailure(f"kind {kind!r}: expected {', '.join(NoteKind)}")
        person = await ctx.known_person(about) if about else None
        source = await keeper.source_of(ctx.chat, ctx.message_id)
        new = NewNote(
            text=text,
            about_id=person.user_id if person else "",
            about_name=person.name if person else "",
            said_by=ctx.from_user_id,
            kind=NoteKind(kind),
            origin=NoteOrigin.BOT if ctx.run_id else NoteOrigin.PLUGIN,
            source_seq=source,
        )
        try:
            kept = await keeper.notes.keep(ctx.chat, new)
        except NoteRefused as error:
            raise ToolFailure(str(error)) from None
        assert kept is not None, "nothing was read, so nothing can be gone"
        return _shown(kept.note)

    async def forget(self, note_id: int) -> ChatNote:
        """Delete a note.

        In a run of the model's code, a note of a group is deleted only if the person who asks said
        it or is the person whom it is about. In a private chat, this person may have every note
        deleted. A plugin's own code can delete every note of the chat.

        Args:
            note_id: The number of the note.

        Returns:
            The deleted note.

        Raises:
            ToolFailure: This chat has no such note, or the person who asks may not delete it.
        """
        ctx, notes = self._ctx, self._keeper.notes
        try:
            note = await notes.get(ctx.chat, note_id)
            if ctx.run_id and not self._may_delete(note):
                raise ToolFailure(
                    f"note {note_id} is not about the person who asks, and they did not say it: "
                    "remember what is true instead, or let an administrator of the chat where it "
                    f"was said write /memory forget {note_id}"
                )
            return _shown(await notes.delete(ctx.chat, note_id))
        except NoSuchNote as error:
            raise ToolFailure(str(error)) from None

    def _may_delete(self, note: NoteRow) -> bool:
        """Return True if the person who asks may delete a note, as with ``/memory forget``."""
        ctx = self._ctx
        if note.chat_key != ctx.chat:
            return False
        asks = ctx.from_user_id
        alone = ctx.chat.kind is ChatKind.PRIVATE
        return alone or (bool(asks) and asks in (note.about_id, note.said_by))

    async def find(self, words: str = "", *, about: str = "", limit: int = 10) -> list[ChatNote]:
        """Search the notes. With words, notes that are no longer true are found too.

        Args:
            words: The words to search for; empty for the newest notes that are still true.
            about: The id or name of a person; empty for all notes.
            limit: The maximum number of notes, 1 to 50.

        Returns:
            The notes, the best first.

        Raises:
            ToolFailure: The chat does not know that person.
        """
        ctx = self._ctx
        person = (await ctx.known_person(about)).user_id if about else None
        found = await self._keeper.notes.find(ctx.chat, words, about=person, limit=limit)
        return [_shown(each) for each in found]

    async def search_knowledge(self, words: str, *, limit: int = 5) -> list[KnowledgeEntry]:
        """Find pieces of the documents of the bot and of the chat.

        Args:
            words: The words.
            limit: The maximum number of pieces, 1 to 20.

        Returns:
            The pieces, the best first.

        Raises:
            ToolFailure: The bot does not read documents, there are none for this chat, or they
                cannot be read.
        """
        keeper = self._ctx.services.memory
        if keeper is None or not keeper.settings.knowledge:
            raise ToolFailure("documents are switched off here (NEKRO_MEMORY__KNOWLEDGE)")
        try:
            found = await keeper.knowledge.search(self._ctx.chat, words, limit)
            if not found and not await keeper.knowledge.files(self._ctx.chat):
                raise ToolFailure("there are no documents here: /learn with a file adds one")
        except (OSError, sqlite3.Error) as error:
            raise ToolFailure(f"the documents cannot be read: {error}") from None
        return [KnowledgeEntry(source=cited(each), text=each.text) for each in found]


def _shown(note: NoteRow) -> ChatNote:
    return ChatNote(
        note_id=note.note_id,
        text=note.text,
        about_id=note.about_id,
        about_name=note.about_name,
        said_by=note.said_by,
        kind=note.kind.value,
        since=note.since,
        until=note.until,
    )
