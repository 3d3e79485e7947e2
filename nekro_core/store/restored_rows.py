"""Changes the rows of a database that was restored from a backup, before a bot uses it.

A backup has the state of an earlier time. It does not show what the bot did after that time, for
example that it sent a waiting message. Without these changes, a restored bot would do the same
things a second time.
"""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from nekro_core.chat import (
    ChatKey,
    ChatKeyError,
    ChatKind,
    DeliveryState,
    File,
    Forward,
    Image,
    Segments,
    Video,
    Voice,
    decode_segments,
)
from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.media_paths import MEDIUM
from nekro_core.store.person import like_pattern

_UNFINISHED = (DeliveryState.PENDING.value, DeliveryState.SENDING.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRows:
    """How many rows were changed: messages that waited to be sent, turns that were running, and
    questions and tasks that waited for an answer."""

    deliveries: int
    turns: int
    waiting: int


_ROWS_AT_ONCE = 500
"""Number of rows that are searched for paths of media together. A row has at most some 100 kB."""

_OF_MONITORING = ("alert", "findings", "probe", "process", "node")
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
        - Questions and tasks that waited are deleted, because the bot would report them as
          interrupted. Alerts are deleted too. So is the note that the bot ran, because the next
          start would take it for a crash.
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

    async def move_all_media(self, after: str) -> None:
        """Call `move_media` for every data folder in which media of messages are. In a cluster, the
        path of a medium is in the data folder of the process that stored the message. Raises
        `StoreError`."""
        for folder in sorted(await self._media_folders() - {after}):
            await self.move_media(folder, after)

    async def _media_folders(self) -> set[str]:
        """Return the data folders in which the media of messages are."""
        found: set[str] = set()
        for table, key in (("messages", "seq"), ("deliveries", "id")):
            last = 0
            while rows := await self._database.read(
                f"SELECT {key} AS number, segments FROM {table} WHERE {key} > ? AND segments "
                f"LIKE '%/uploads/%' ORDER BY {key} LIMIT {_ROWS_AT_ONCE}",
                last,
            ):
                for row in rows:
                    found |= _folders_in(decode_segments(row["segments"]))
                last = rows[-1]["number"]
        return found

    async def forget_objects(self) -> None:
        """Delete the rows of the files in the object store. A backup has these files in the data
        folder, and the objects may be gone. Raises `StoreError`."""
        await self._database.write(
            SqlStatement("DELETE FROM media_files"), SqlStatement("DELETE FROM box_files")
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


def _folders_in(segments: Segments) -> set[str]:
    found = set()
    for segment in segments:
        match segment:
            case Image() | Voice() | Video() | File():
                if (medium := MEDIUM.search(segment.media.path)) is not None:
                    found.add(segment.media.path[: medium.start()])
            case Forward():
                for message in segment.messages:
                    found |= _folders_in(message.segments)
            case _:
                pass
    return found
