"""Removes a person from notes and summaries.

A note is deleted if it is about the person, if the person said it, if it comes from a deleted
message, or if it belongs to a private chat of the person. It is also deleted if its text contains
the person's id, name or a line that the person wrote. A summary of records is emptied if it
summarizes a deleted message or its text contains the person's id, name or a line of the person. It
is then made again from the remaining messages. A summary of summaries is deleted in these cases.
"""

import re
from collections.abc import Iterable, Sequence

from nekro_core.chat.redact import SHORTEST, RedactionTarget
from nekro_core.store.database import Database, Row, SqlStatement
from nekro_core.store.memory_summaries import stale_statements
from nekro_core.store.person import Person, chat_key_in
from nekro_core.store.prompt_eraser import ErasedWords
from nekro_core.store.traces import PersonTraces

_SLICE = 500
"""Number of rows that one query reads."""
_SHORTEST_NAME = 2
"""Minimum number of characters of a name that is looked for. A name of ASCII letters is found only
as a whole word."""


class MemoryEraser:
    """Deletes and empties rows of ``memory_notes`` and ``memory_summaries``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def erase(
        self, person: Person, traces: PersonTraces, forgotten: RedactionTarget, words: ErasedWords
    ) -> None:
        """Remove the person. May be repeated. ``words`` must have been read before the person's
        messages were deleted. Raises `StoreError`."""
        there, beginnings = chat_key_in(person.instances)
        statements = [
            SqlStatement(
                f"DELETE FROM memory_notes WHERE (about_id = ? OR said_by = ?) AND {there}",
                (person.user_id, person.user_id, *beginnings),
            )
        ]
        for chat_key in traces.private:
            statements += (
                SqlStatement(f"DELETE FROM {table} WHERE chat_key = ?", (str(chat_key),))
                for table in ("memory_notes", "memory_summaries", "memory_chats")
            )
        await self._database.write(*statements)
        await self._search_notes(traces, forgotten, words)
        await self._search_summaries(traces, forgotten, words)

    async def _search_notes(
        self, traces: PersonTraces, forgotten: RedactionTarget, words: ErasedWords
    ) -> None:
        after = 0
        while rows := await self._slice("memory_notes", "source_seq, text, about_name", after):
            after = int(rows[-1]["id"])
            found = [
                row["id"]
                for row in rows
                if row["source_seq"] in words.seqs
                or _has_person(f"{row['about_name']}\n{row['text']}", traces, forgotten, words)
            ]
            if found:
                marks = ", ".join("?" * len(found))
                sql = f"DELETE FROM memory_notes WHERE id IN ({marks})"
                await self._database.write(SqlStatement(sql, tuple(found)))

    async def _search_summaries(
        self, traces: PersonTraces, forgotten: RedactionTarget, words: ErasedWords
    ) -> None:
        gone, after = sorted(words.seqs), 0
        columns = "chat_key, from_seq, through_seq, text"
        while rows := await self._slice("memory_summaries", columns, after):
            after = int(rows[-1]["id"])
            statements: list[SqlStatement] = []
            shared = set(map(str, traces.shared))
            for row in rows:
                held = row["chat_key"] in shared and _any_between(
                    gone, int(row["from_seq"]), int(row["through_seq"])
                )
                if held or _has_person(row["text"], traces, forgotten, words):
                    statements += stale_statements(row["chat_key"], int(row["from_seq"]))
            if statements:
                await self._database.write(*statements)

    async def _slice(self, table: str, columns: str, after: int) -> Sequence[Row]:
        return await self._database.read(
            f"SELECT id, {columns} FROM {table} WHERE id > ? ORDER BY id LIMIT ?", after, _SLICE
        )


def _has_person(
    text: str, traces: PersonTraces, forgotten: RedactionTarget, words: ErasedWords
) -> bool:
    ids = (each for each in forgotten.ids if len(each) >= SHORTEST)
    named = any(each in text for each in ids) and forgotten.text(text) != text
    return named or _names_in(text, traces.names) or words.said_in(text)


def _names_in(text: str, names: Iterable[str]) -> bool:
    for name in names:
        if len(name) < _SHORTEST_NAME or name not in text:
            continue
        if not name.isascii() or re.search(
            rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", text
        ):
            return True
    return False


def _any_between(numbers: Sequence[int], first: int, last: int) -> bool:
    return any(first <= each <= last for each in numbers)
