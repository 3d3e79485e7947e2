"""Removes a person's id, name and words from rows that belong to other people. These rows are not
deleted."""

from collections.abc import Callable, Sequence

from nekro_core.chat import ChatKey, Segments, decode_segments, encode_segments
from nekro_core.chat.redact import SHORTEST, RedactionTarget
from nekro_core.store.database import Database, Rows, SqlStatement
from nekro_core.store.person import Person, chat_key_in, like_pattern

_SLICE = 20_000
"""Number of rows of the history that one query searches. The query takes 30 ms. With SQLite, all
other reads wait for it."""
_TEXTS = {
    "runs": ("run_id", ("code", "output", "error")),
    "tool_calls": ("id", ("arguments", "outcome", "result")),
    "steps": ("id", ("reply", "tail")),
    "timers": ("id", ("text", "title")),
    "waiting": ("id", ("data",)),
    "audit_log": (
        "id",
        ("actor", "parameters", "subject", "old", "new", "error", "undo_parameters"),
    ),
}
"""For each table: its key column, and the columns whose texts may contain an id."""


class RowRedactor:
    """Rewrites rows. It calls ``changed`` for each chat whose history was rewritten."""

    def __init__(self, database: Database, changed: Callable[[ChatKey], None]) -> None:
        self._database = database
        self._changed = changed

    async def redact(self, person: Person, forgotten: RedactionTarget) -> int:
        """Rewrite all rows that mention the person. Returns the number of changed rows. May be
        repeated. Raises `StoreUnavailable`."""
        changed = await self._redact_history(person, forgotten)
        changed += await self._redact_texts(person, forgotten)
        return changed + await self._redact_plugins(person, forgotten)

    async def _redact_history(self, person: Person, forgotten: RedactionTarget) -> int:
        changed = 0
        there, beginnings = chat_key_in(person.instances)
        for table, key in (("messages", "seq"), ("deliveries", "id")):
            (last,) = await self._database.read(f"SELECT MAX({key}) AS last FROM {table}")
            for begin in range(0, int(last["last"] or 0) + 1, _SLICE):
                rows = await self._database.read(
                    f"SELECT {key} AS at, chat_key, segments FROM {table} WHERE {key} >= ? "
                    f"AND {key} < ? AND {there} AND (segments LIKE ? ESCAPE '!' "
                    'OR segments LIKE \'%"type":"reply"%\')',
                    begin,
                    begin + _SLICE,
                    *beginnings,
                    like_pattern(person.user_id),
                )
                changed += await self._rewrite(table, key, rows, forgotten)
        return changed

    async def _rewrite(self, table: str, key: str, rows: Rows, forgotten: RedactionTarget) -> int:
        statements, chats = [], set()
        for row in rows:
            before = decode_segments(row["segments"])
            after: Segments = forgotten.segments(before)
            if after != before:
                chats.add(ChatKey.parse(row["chat_key"]))
                sql = f"UPDATE {table} SET segments = ? WHERE {key} = ?"
                statements.append(SqlStatement(sql, (encode_segments(after), row["at"])))

        def committed(_: list[Rows]) -> None:
            for chat_key in chats:
                self._changed(chat_key)

        if statements:
            await self._database.write(*statements, committed=committed)
        return len(statements)

    async def _redact_texts(self, person: Person, forgotten: RedactionTarget) -> int:
        if len(person.user_id) < SHORTEST:
            return 0
        changed = 0
        for table, (key, columns) in _TEXTS.items():
            either = " OR ".join(f"{column} LIKE ? ESCAPE '!'" for column in columns)
            rows = await self._database.read(
                f"SELECT {key} AS at, {', '.join(columns)} FROM {table} WHERE {either}",
                *[like_pattern(person.user_id)] * len(columns),
            )
            changed += await self._replace(table, key, columns, rows, forgotten)
        return changed

    async def _replace(
        self, table: str, key: str, columns: Sequence[str], rows: Rows, forgotten: RedactionTarget
    ) -> int:
        statements = []
        for row in rows:
            after = tuple(forgotten.text(row[column]) for column in columns)
            if after != tuple(row[column] for column in columns):
                setting = ", ".join(f"{column} = ?" for column in columns)
                sql = f"UPDATE {table} SET {setting} WHERE {key} = ?"
                statements.append(SqlStatement(sql, (*after, row["at"])))
        if statements:
            await self._database.write(*statements)
        return len(statements)

    async def _redact_plugins(self, person: Person, forgotten: RedactionTarget) -> int:
        """Remove the person from plugins' values that belong to other persons or to no person. A
        value whose key contains the person's id is deleted."""
        there, beginnings = chat_key_in(person.instances)
        rows = await self._database.read(
            "SELECT id, store_key, value FROM plugin_data WHERE "
            f"(chat_key = '' OR {there}) AND (value LIKE ? ESCAPE '!' "
            "OR store_key LIKE ? ESCAPE '!')",
            *beginnings,
            *[like_pattern(person.user_id)] * 2,
        )
        statements = []
        for row in rows:
            if forgotten.text(row["store_key"]) != row["store_key"]:
                statements.append(
                    SqlStatement("DELETE FROM plugin_data WHERE id = ?", (row["id"],))
                )
            elif (after := forgotten.stored(row["value"])) != row["value"]:
                sql = "UPDATE plugin_data SET value = ? WHERE id = ?"
                statements.append(SqlStatement(sql, (after, row["id"])))
        if statements:
            await self._database.write(*statements)
        return len(statements)
