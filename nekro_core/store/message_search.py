"""Searches the text of messages, in one chat or in all, newest first.

The console uses this search, not `nekro_core.store.search_index`. The index finds whole terms in
one chat. This search finds any part of a word, in one chat or in all. A call reads messages from
the newest on and stops after a short time; the next call continues where this call stopped. So a
search never delays the storing of messages that arrive meanwhile.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from nekro_core.chat import ChatKey, plain_text
from nekro_core.store.chat_list import LINE_COLUMNS, HistoryLine, like_containing, line_of
from nekro_core.store.database import Database, Rows, Value
from nekro_core.store.messages import MessageRepository

_WINDOW = 10_000
"""Number of messages that one query reads. The query takes 5 to 20 ms. With SQLite, all other reads
wait for it."""
_OF_A_CHAT = 2_500
"""Number of messages that one query reads in a search of a single chat. Messages of one chat are
far apart in the file, so reading them takes longer."""
_LONGEST_S = 0.04
"""A call begins no further query after this many seconds."""
_MOST_FOUND = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessages:
    """A part of the results of a search.

    Attributes:
        lines: The messages, newest first.
        before: The argument for the next call; 0 if all messages were searched.
    """

    lines: tuple[HistoryLine, ...]
    before: int = 0


class MessageSearch:
    """Searches messages. ``clock`` is a monotonic clock."""

    def __init__(
        self,
        database: Database,
        messages: MessageRepository,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._messages = messages
        self._clock = clock

    async def find(
        self, text: str, *, chat_key: ChatKey | None = None, before: int = 0, limit: int = 50
    ) -> FoundMessages:
        """Find messages that contain a text, without regard to the case of Latin letters. Recalled
        messages are not found.

        A call takes about 0.1 s. If none of the messages that a call read contains the text, the
        result has no messages. It still has a ``before``, with which the next call continues.

        Args:
            text: What to find; not empty.
            chat_key: One chat; None for all.
            before: `FoundMessages.before` of the last call; 0 to begin with the newest message.
            limit: Maximum number of messages, at most 200.

        Raises:
            ValueError: The text is empty.
        """
        if not text.strip():
            raise ValueError("nothing to search for: expected a word or a part of a message")
        words, limit = text.casefold(), max(1, min(limit, _MOST_FOUND))
        found: list[HistoryLine] = []
        before = before or await self._messages.newest_seq() + 1
        until = self._clock() + _LONGEST_S
        while before > 1:
            after = await self._window_end(chat_key, before)
            wanted = limit - len(found)
            rows = await self._matches(text, chat_key, after, before, wanted)
            # If the query returned as many rows as wanted, it may have stopped before the end of
            # the window. Then the next query continues after its last row.
            before = rows[-1]["seq"] if len(rows) == wanted else after + 1
            # The pattern may also match other parts of the JSON, such as the address of a picture.
            # Keep only messages whose text contains the words.
            lines = map(line_of, rows)
            found += (
                each for each in lines if words in plain_text(each.record.segments).casefold()
            )
            if len(found) >= limit or self._clock() >= until:
                break
        return FoundMessages(lines=tuple(found), before=before if before > 1 else 0)

    async def _window_end(self, chat_key: ChatKey | None, before: int) -> int:
        """Return the lower end of the next window. The next query reads only messages with a
        greater number."""
        if chat_key is None:
            return max(before - _WINDOW - 1, 0)
        rows = await self._database.read(
            "SELECT seq FROM messages WHERE chat_key = ? AND seq < ? "
            "ORDER BY seq DESC LIMIT 1 OFFSET ?",
            str(chat_key),
            before,
            _OF_A_CHAT,
        )
        return int(rows[0]["seq"]) if rows else 0

    async def _matches(
        self, text: str, chat_key: ChatKey | None, after: int, before: int, limit: int
    ) -> Rows:
        like = "ILIKE" if self._database.dialect == "postgres" else "LIKE"
        # The segments are stored as JSON, in which quotes and backslashes are escaped.
        encoded = msgspec.json.encode(text).decode()[1:-1]
        values: list[Value] = [after, before, False, like_containing(encoded)]
        where = f"seq > ? AND seq < ? AND recalled = ? AND segments {like} ? ESCAPE '!'"
        if chat_key is not None:
            where += " AND chat_key = ?"
            values.append(str(chat_key))
        return await self._database.read(
            f"SELECT {LINE_COLUMNS} FROM messages WHERE {where} ORDER BY seq DESC LIMIT ?",
            *values,
            limit,
        )
