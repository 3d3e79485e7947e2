"""Shows and changes what the bot remembers: notes, summaries, links between chats, documents.

The audit log never contains the text of a note: a note contains words of people, and the log stays
when people are erased. So deleting a note cannot be undone; `Memory.end_note` can be undone.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SecretStr

from nekro_core.chat import ChatKey
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.notes.book import NewNote
from nekro_core.memory.notes.json_lines import ImportedNotes, export_lines, import_lines
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import RECORDS_LEVEL, SUMMARIES_LEVEL, NoteOrigin, NoteRow, Store, SummaryRow
from nekro_core.store.knowledge_index import FoundPiece, KnownFile

UserId = Annotated[str, Field(max_length=200)]
LinkName = Annotated[str, Field(min_length=1, max_length=64)]
_SUMMARIES = 200
"""Number of newest summaries that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedChat:
    """How much the bot remembers of a chat.

    Attributes:
        chat_key: The chat.
        notes: The number of its notes, including those that no longer hold.
        summaries: The number of its summaries of older messages.
        link: The name of the link that it shares with other chats, whose notes it reads; empty if
            there is none.
    """

    chat_key: ChatKey
    notes: int
    summaries: int
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedNotes:
    """Notes as JSON lines. ``count`` is their number."""

    lines: str
    count: int


class Memory(Area):
    """What the bot remembers of all chats.

    Args:
        audit: The audit log.
        memory: The memory.
        store: The store.
    """

    name = "memory"

    def __init__(self, audit: AuditLog, memory: MemoryKeeper, store: Store) -> None:
        super().__init__(audit)
        self._memory = memory
        self._store = store

    @query(role=AccessRole.VIEWER)
    async def chats(self, actor: Actor) -> list[RememberedChat]:  # noqa: ARG002
        """List the chats of which the bot remembers something, or which are linked."""
        notes = dict(await self._store.notes.chats())
        summaries = await self._store.summaries.counts()
        links = {key: name for name, chats in self._memory.scope.links().items() for key in chats}
        return [
            RememberedChat(
                chat_key=key,
                notes=notes.get(key, 0),
                summaries=summaries.get(key, 0),
                link=links.get(key, ""),
            )
            for key in sorted({*notes, *summaries, *links})
        ]

    @query(role=AccessRole.VIEWER)
    async def notes(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        words: str = "",
        about_id: UserId | None = None,
        ended: bool = False,
    ) -> list[NoteRow]:
        """List the notes that may be read in a chat, newest first. With ``words``, search these
        notes.

        Args:
            chat_key: The chat.
            words: Only notes with one of these words, the best first.
            about_id: Only notes about this person; an empty id means notes about the chat.
            ended: Whether notes that no longer hold are included.
        """
        book = self._memory.notes
        if words.strip():
            found = await book.find(chat_key, words, about=about_id, limit=50)
            return [each for each in found if ended or each.holds]
        about = None if about_id is None else [about_id]
        return await book.listed(chat_key, about=about, ended=ended)

    @query(role=AccessRole.VIEWER)
    async def summaries(self, actor: Actor, *, chat_key: ChatKey) -> list[SummaryRow]:  # noqa: ARG002
        """List the newest summaries of a chat: first the summary of summaries, then the summaries
        of messages.

        Args:
            chat_key: The chat.
        """
        of = self._store.summaries.of_chat
        whole = await of(chat_key, level=SUMMARIES_LEVEL, limit=1)
        return [*whole, *await of(chat_key, level=RECORDS_LEVEL, limit=_SUMMARIES)]

    @query(role=AccessRole.VIEWER)
    async def links(self, actor: Actor) -> dict[str, list[ChatKey]]:  # noqa: ARG002
        """List the chats that share their notes, by the name of the link."""
        return self._memory.scope.links()

    @query(role=AccessRole.OPERATOR)
    async def export_notes(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey | None = None,
    ) -> ExportedNotes:
        """Get notes as JSON lines, including those that no longer hold.

        Args:
            chat_key: The chat to which the notes belong; none for all chats.
        """
        keys = [chat_key] if chat_key else [key for key, _ in await self._store.notes.chats()]
        notes: list[NoteRow] = []
        for key in keys:
            notes += await self._store.notes.of_chats([key], ended=True)
        return ExportedNotes(lines=export_lines(notes), count=len(notes))

    @action(role=AccessRole.OPERATOR, takes_file=True)
    async def import_notes(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        lines: SecretStr,
        chat_key: ChatKey | None = None,
        first_line: Annotated[int, Field(ge=1)] = 1,
    ) -> Change[ImportedNotes]:
        """Store the notes of an export. Notes about people who were erased since are left out.

        Args:
            lines: The JSON lines. They are not written into the audit log.
            chat_key: The chat that gets all notes; none for the chats that the lines name.
            first_line: The number of the first line in the file. Refused lines are named by their
                number.
        """
        text = lines.get_secret_value()
        done = await import_lines(
            self._memory.notes, text, chat_key=chat_key, first_line=first_line
        )
        counts = {"kept": done.kept, "existed": done.existed, "refused": done.refused_count}
        return Change(result=done, subject=str(chat_key or ""), new=counts)

    @action(role=AccessRole.OPERATOR)
    async def add_note(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        text: SecretStr,
        about_id: UserId = "",
        about_name: UserId = "",
    ) -> Change[NoteRow]:
        """Keep a note in a chat.

        Args:
            chat_key: The chat.
            text: The note. It is not written into the audit log.
            about_id: The platform's id of the person that the note is about; empty if it is about
                the chat.
            about_name: The person's name.
        """
        new = NewNote(
            text=text.get_secret_value(),
            about_id=about_id,
            about_name=about_name,
            origin=NoteOrigin.OPERATOR,
        )
        kept = await self._memory.notes.keep(chat_key, new)
        assert kept is not None, "a note that comes from no record is always stored"
        note = kept.note
        undo = None
        if not kept.existed and not kept.replaced:
            undo = UndoCall(
                action="memory.delete_note",
                parameters={"chat_key": str(chat_key), "note_id": note.note_id},
            )
        return Change(result=note, subject=f"{chat_key} {note.note_id}", undo=undo)

    @action(role=AccessRole.OPERATOR)
    async def rewrite_note(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        note_id: int,
        text: SecretStr,
    ) -> Change[NoteRow]:
        """Replace the text of a note.

        Args:
            chat_key: A chat in which it may be read.
            note_id: The number of the note.
            text: The new text. It is not written into the audit log.
        """
        await self._memory.notes.rewrite(chat_key, note_id, text.get_secret_value())
        note = await self._memory.notes.get(chat_key, note_id)
        return Change(result=note, subject=f"{chat_key} {note_id}")

    @action(role=AccessRole.OPERATOR)
    async def end_note(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        note_id: int,
    ) -> Change[NoteRow]:
        """Mark a note as no longer valid. Prompts no longer show it, but a search still finds it.

        Args:
            chat_key: A chat in which it may be read.
            note_id: The number of the note.
        """
        return await self._switch(chat_key, note_id, holds=False)

    @action(role=AccessRole.OPERATOR)
    async def hold_note(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        note_id: int,
    ) -> Change[NoteRow]:
        """Mark a note as valid again.

        Args:
            chat_key: A chat in which it may be read.
            note_id: The number of the note.
        """
        return await self._switch(chat_key, note_id, holds=True)

    async def _switch(self, chat_key: ChatKey, note_id: int, *, holds: bool) -> Change[NoteRow]:
        book = self._memory.notes
        note = await book.get(chat_key, note_id)
        subject, new = f"{note.chat_key} {note_id}", "holds" if holds else "ended"
        if note.holds is holds:  # Nothing changes, so there is nothing to undo.
            return Change(result=note, subject=subject, old=new, new=new)
        if holds:
            await book.rewrite(chat_key, note_id, note.text)
        else:
            await book.end(note.chat_key, [note_id])
        given = {"chat_key": str(note.chat_key), "note_id": note_id}
        back = "memory.end_note" if holds else "memory.hold_note"
        return Change(
            result=await book.get(chat_key, note_id),
            subject=subject,
            old="ended" if holds else "holds",
            new=new,
            undo=UndoCall(action=back, parameters=given),
        )

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def delete_note(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        note_id: int,
    ) -> Change[None]:
        """Delete a note. This cannot be undone, because the audit log does not contain words of
        people.

        Args:
            chat_key: A chat in which it may be read.
            note_id: The number of the note.
        """
        await self._memory.notes.delete(chat_key, note_id)
        return Change(result=None, subject=f"{chat_key} {note_id}")

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def delete_summaries(self, actor: Actor, *, chat_key: ChatKey) -> Change[int]:  # noqa: ARG002
        """Delete the summaries of a chat. The messages stay. When the chat goes on, the newest of
        the summarized messages are summarized again.

        Args:
            chat_key: The chat.
        """
        count = await self._store.summaries.count(chat_key)
        await self._store.summaries.delete_of_chat(chat_key)
        return Change(result=count, subject=str(chat_key), old=count, new=0)

    @action(role=AccessRole.OPERATOR)
    async def link(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_keys: Annotated[list[ChatKey], Field(min_length=1, max_length=50)],
        name: LinkName,
    ) -> Change[list[ChatKey]]:
        """Let chats share their notes and documents. What was said in one of these chats, also in a
        private chat, is then known in all of them.

        Args:
            chat_keys: The chats.
            name: The name of the link. The chats that have this link already share their notes too.
        """
        before = await self._memory.scope.link(chat_keys, name)
        return self._linked(before, name)

    @action(role=AccessRole.OPERATOR)
    async def unlink(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_keys: Annotated[list[ChatKey], Field(min_length=1, max_length=50)],
    ) -> Change[list[ChatKey]]:
        """End the links of chats. In each of these chats, the bot then knows only what was said in
        that chat.

        Args:
            chat_keys: The chats.
        """
        return self._linked(await self._memory.scope.link(chat_keys, ""), "")

    def _linked(self, before: dict[ChatKey, str], name: str) -> Change[list[ChatKey]]:
        keys = [*map(str, before)]
        names = set(before.values())
        undo = None
        if len(names) == 1:  # If the chats had several names, no single action can undo the change.
            (old,) = names
            undo = (
                UndoCall(action="memory.link", parameters={"chat_keys": keys, "name": old})
                if old
                else UndoCall(action="memory.unlink", parameters={"chat_keys": keys})
            )
        return Change(
            result=self._memory.scope.linked(name) if name else [],
            subject=name or ", ".join(keys),
            old={str(key): link for key, link in before.items()},
            new=name,
            undo=undo,
        )

    @query(role=AccessRole.VIEWER)
    async def documents(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey | None = None,
        all_chats: bool = False,
    ) -> list[KnownFile]:
        """List the documents, each with the reason if it cannot be searched.

        Args:
            chat_key: List the documents that may be read in this chat. Without a chat, list the
                documents for all chats.
            all_chats: Whether the documents of all chats are listed.
        """
        return [*await self._memory.knowledge.files(chat_key, all_chats=all_chats)]

    @query(role=AccessRole.VIEWER)
    async def search_documents(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        words: str,
    ) -> list[FoundPiece]:
        """Find pieces of documents with the search that the bot uses in a chat.

        Args:
            chat_key: The chat.
            words: The words.
        """
        return await self._memory.knowledge.search(chat_key, words, 10)

    @action(role=AccessRole.OPERATOR, takes_file=True)
    async def put_document(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        name: Annotated[str, Field(min_length=1, max_length=200)],
        content: SecretStr,
        chat_key: ChatKey | None = None,
    ) -> Change[KnownFile]:
        """Give the bot a document. A document with the same name is replaced, and then this cannot
        be undone.

        Args:
            name: The name of the file; its ending says its kind.
            content: The file in base64.
            chat_key: The chat that may read it; none for all chats.
        """
        try:
            data = base64.b64decode(content.get_secret_value(), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidParameters({"content": "no base64; encode the file in base64"}) from None
        replaces = self._memory.knowledge.has(chat_key, name)
        file = await self._memory.knowledge.learn(chat_key, name, data)
        given = {"scope": file.scope, "path": file.path}
        undo = None if replaces else UndoCall(action="memory.delete_document", parameters=given)
        about = {"pieces": file.pieces, "bytes": file.size}
        return Change(result=file, subject=f"{file.scope}/{file.path}", new=about, undo=undo)

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def delete_document(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        scope: Annotated[str, Field(max_length=200)],
        path: Annotated[str, Field(min_length=1, max_length=1000)],
    ) -> Change[None]:
        """Delete a document from its folder.

        Args:
            scope: ``bot`` or the folder of a chat: the ``scope`` in the list of documents.
            path: The path of the document in this folder.
        """
        await self._memory.knowledge.forget(scope, path)
        return Change(result=None, subject=f"{scope}/{path}")
