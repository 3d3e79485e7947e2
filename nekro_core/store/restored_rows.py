"""Changes the rows of a database that was restored from a backup, before a bot uses it.

A backup has the state of an earlier time. It does not show what the bot did after that time, for
example that it sent a waiting message. Without these changes, a restored bot would do the same
things a second time.
"""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from nekro_core.chat import ChatKey, ChatKeyError, ChatKind, DeliveryState
from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.person import like_pattern

_UNFINISHED = (DeliveryState.PENDING.value, DeliveryState.SENDING.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRows:
    """How many rows were changed: messages that waited to be sent, turns that were running, and
    questions and tasks that waited for an answer."""

    deliveries: int
    turns: int
    waiting: int


_OF_MONITORING = ("alert", "probe", "process")
"""The kinds of rows of ``waiting`` that the bot writes about itself."""


class RestoredRows:
    """The changes to a restored database. No bot may use the database meanwhile."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def settle(self, reason: str, now: float) -> SettledRows:
        """End what was unfinished when the backup was made. Raises `StoreError`.

        - A message that was waiting or being sent becomes ``unknown`` with this reason: it was
          probably sent later. It is not sent by itself, and the operator may resend it.
        - A turn that ran ends as ``given_up``; it was probably finished later.
        - All messages of people count as handled, for the same reason.
        - Questions and tasks that waited are deleted. The bot would report them as interrupted. So
          are alerts, and the note that the bot ran, which would count as a crash.
        """
        marks = ", ".join("?" * len(_UNFINISHED))
        results = await self._database.write(
            SqlStatement(
                "UPDATE messages SET state = ? WHERE seq IN (SELECT record_seq FROM deliveries "
                f"WHERE record_seq > 0 AND state IN ({marks}))",
                (DeliveryState.UNKNOWN.value, *_UNFINISHED),
            ),
            SqlStatement(
                f"UPDATE deliveries SET state = ?, reason = ?, changed = ? WHERE state IN ({marks})"
                " RETURNING id",
                (DeliveryState.UNKNOWN.value, reason, now, *_UNFINISHED),
            ),
            SqlStatement("UPDATE runs SET stop = 'cut_off' WHERE stop = ''"),
            SqlStatement(
                "UPDATE turns SET running_chat = NULL, stop = 'given_up', ended = ? "
                "WHERE running_chat IS NOT NULL RETURNING id",
                (now,),
            ),
            SqlStatement(
                "UPDATE chats SET handled_seq = (SELECT MAX(seq) FROM messages "
                "WHERE messages.chat_key = chats.chat_key) WHERE handled_seq < (SELECT MAX(seq) "
                "FROM messages WHERE messages.chat_key = chats.chat_key)"
            ),
            SqlStatement(
                f"DELETE FROM waiting WHERE kind IN ({', '.join('?' * len(_OF_MONITORING))})",
                _OF_MONITORING,
            ),
            SqlStatement("DELETE FROM waiting RETURNING id"),
        )
        return SettledRows(
            deliveries=len(results[1]), turns=len(results[3]), waiting=len(results[6])
        )

    async def move_media(self, before: str, after: str) -> None:
        """Replace the folder of stored media in all messages. ``before`` and ``after`` are absolute
        paths. Raises `StoreError`."""
        old, new = (msgspec.json.encode(f"{each}/").decode()[:-1] for each in (before, after))
        if old == new:
            return
        for table in ("messages", "deliveries"):
            await self._database.write(
                SqlStatement(
                    f"UPDATE {table} SET segments = REPLACE(segments, ?, ?) "
                    "WHERE segments LIKE ? ESCAPE '!'",
                    (old, new, like_pattern(before)),
                )
            )

    async def people(self) -> frozenset[tuple[str, str]]:
        """Return all people about whom there are rows, each as instance and user id. Raises
        `StoreUnavailable`."""
        found: set[tuple[str, str]] = set()
        for row in await self._database.read("SELECT instance, user_id FROM users"):
            found.add((row["instance"], row["user_id"]))
        for row in await self._database.read(
            "SELECT DISTINCT instance, user_id FROM messages WHERE user_id <> ''"
        ):
            found.add((row["instance"], row["user_id"]))
        for table in ("turns", "steps", "model_uses"):
            for row in await self._database.read(
                f"SELECT DISTINCT chat_key, user_id FROM {table} WHERE user_id <> ''"
            ):
                found.add((row["chat_key"].partition("-")[0], row["user_id"]))
        chats = [row["chat_key"] for row in await self._database.read("SELECT chat_key FROM chats")]
        keys = await self._database.read("SELECT DISTINCT chat_key, user_key FROM plugin_data")
        found |= _in_private(chats)
        found |= _in_private({row["chat_key"] for row in keys})
        instances = {instance for instance, _ in found}
        for row in keys:
            # A plugin's key of a person may be ``instance:id`` or only the id.
            for each in {row["user_key"], row["user_key"].rpartition(":")[2]} - {""}:
                found |= {(instance, each) for instance in instances}
        return frozenset(found)


def _in_private(chats: Collection[str]) -> set[tuple[str, str]]:
    found = set()
    for text in chats:
        try:
            key = ChatKey.parse(text)
        except ChatKeyError:
            continue
        if key.kind is ChatKind.PRIVATE:
            found.add((key.instance, key.native_id))
    return found
