"""``DBChatMessage``: a row for each record of a chat's history."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Self

from nekro_core.chat import Author, ChatKey, Record, Sender, Text, plain_text
from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.compat.nekro_agent.legacy_message import (
    BOT_ID,
    LegacyChatMessage,
    content_data_text,
)
from nekro_core.compat.nekro_agent.legacy_segments import (
    ChatMessageSegment,
    ChatType,
    segments_from_list,
)
from nekro_core.compat.nekro_agent.rows.conditions import (
    ColumnCondition,
    flag_column,
    number_column,
    second_column,
    text_column,
)
from nekro_core.compat.nekro_agent.rows.errors import NotKept
from nekro_core.compat.nekro_agent.rows.query import Row
from nekro_core.compat.nekro_agent.rows.source import RowSource, TableSource
from nekro_core.store.messages import record_of, unique_id_of
from nekro_core.store.pending_seq import final_seq
from nekro_core.store.queries import Column, WhereClause

_NO_PERSON = {BOT_ID, -1, "0", 0}
"""The sender ids that plugins use for the bot and the framework."""


def _person(column: str) -> ColumnCondition:
    plain = text_column(column)

    def condition(lookup: str, value: Any) -> WhereClause | None:
        if lookup in ("", "exact", "not") and value in _NO_PERSON:
            return Column("author").compare("=" if lookup == "not" else "<>", "person")
        if lookup in ("in", "not_in") and _NO_PERSON & set(value):
            return None
        return plain(lookup, value)

    return condition


_COLUMNS: Mapping[str, ColumnCondition] = {
    "id": number_column("seq"),
    "message_id": text_column("message_id"),
    "sender_id": _person("user_id"),
    "platform_userid": _person("user_id"),
    "sender_bind_qq": _person("user_id"),
    "chat_key": text_column("chat_key"),
    "send_timestamp": second_column("time"),
    "create_time": second_column("time"),
    "is_tome": flag_column("to_bot"),
    "is_recalled": flag_column("recalled"),
}
_ORDERS = {
    "id": "seq",
    "send_timestamp": "time",
    "create_time": "time",
    "update_time": "time",
    "chat_key": "chat_key",
}


class DBChatMessage(Row):
    """A record of a chat's history.

    ``sender_id`` and ``platform_userid`` are the author's id on the platform. For the bot and the
    framework (``SYSTEM``) they are ``-1`` and ``0``.
    """

    id: int = 0
    message_id: str = ""
    sender_id: str = ""
    sender_bind_qq: str = ""
    sender_name: str = ""
    sender_nickname: str = ""
    adapter_key: str = ""
    platform_userid: str = ""
    is_tome: int = 0
    is_recalled: bool = False
    chat_key: str = ""
    chat_type: str = str(ChatType.UNKNOWN)
    content_text: str = ""
    content_data: str = "[]"
    raw_cq_code: str = ""
    ext_data: Any = "{}"
    send_timestamp: int = 0
    create_time: datetime | None = None
    update_time: datetime | None = None

    _host: NekroAgentHost | None = None

    @classmethod
    async def source(cls) -> RowSource:
        """See `Row.source`."""
        host = current_host()
        return TableSource(
            queries=host.store.queries,
            table="messages",
            read=lambda row: (host, record_of(row)),
            columns=_COLUMNS,
            orders=_ORDERS,
            default_order="seq",
        )

    @classmethod
    def of(cls, row: Any) -> Self:
        """See `Row.of`."""
        host, record = row
        return cls.of_record(host, record)

    @classmethod
    def of_record(cls, host: NekroAgentHost, record: Record) -> Self:
        """Make the row of a record."""
        names = _own_names(host.agent.names) if record.author is Author.BOT else ""
        if record.author is Author.SYSTEM:
            names = "SYSTEM"
        person = record.author is Author.PERSON
        at = datetime.fromtimestamp(record.time).astimezone()
        name = names or record.sender.name
        row = cls(
            id=record.seq,
            message_id=record.message_id,
            sender_id=record.sender.user_id if person else BOT_ID,
            sender_bind_qq=record.sender.user_id if person else "0",
            sender_name=name,
            sender_nickname=name,
            adapter_key=host.adapter_of(record.chat_key),
            platform_userid=record.sender.user_id if person else "0",
            is_tome=int(record.to_bot),
            is_recalled=record.recalled,
            chat_key=str(record.chat_key),
            chat_type=record.chat_key.kind.value,
            content_text=plain_text(record.segments),
            content_data=content_data_text(record.segments),
            ext_data=LegacyChatMessage.of_record(record).ext_data,
            send_timestamp=int(record.time),
            create_time=at,
            update_time=at,
        )
        row._host = host
        return row

    def parse_content_data(self) -> list[ChatMessageSegment]:
        """The segments of the message."""
        data = json.loads(self.content_data) if self.content_data else []
        return segments_from_list(data)

    def parse_ext_data(self) -> dict[str, Any]:
        """The message's extra data."""
        return dict(self.ext_data)

    @property
    def is_system(self) -> bool:
        """True if the framework is the author."""
        return self.sender_id == BOT_ID and self.sender_name == "SYSTEM"

    def parse_chat_history_prompt(self, *_: Any, **__: Any) -> str:
        """Write the message as one line for a prompt, with time, author and text."""
        at = self.create_time.strftime("%m-%d %H:%M:%S") if self.create_time else ""
        return f'[{at} id:{self.platform_userid}] "{self.sender_nickname}": {self.content_text}'

    def to_chat_message(self) -> LegacyChatMessage:
        """Convert the row to the form of a message that hooks get."""
        fields = set(LegacyChatMessage.model_fields) & set(self.FIELDS)
        facts = {name: getattr(self, name) for name in fields}
        facts["content_data"] = self.parse_content_data()
        return LegacyChatMessage(**facts)

    async def save(self, *_: Any, **__: Any) -> None:
        """Add a new row to its chat's history. In a stored row, only ``is_recalled`` can be
        changed.

        Raises `NotKept`, `ChatKeyError`.
        """
        host = self._host or current_host()
        key = ChatKey.parse(self.chat_key)
        if self.id:
            stored = await host.store.messages.get(self.id)
            if self.is_recalled and stored is not None and not stored.recalled:
                await host.store.messages.recall(key, self.message_id)
                return
            if stored is None or plain_text(stored.segments) != self.content_text:
                raise NotKept("a stored message cannot be changed; only is_recalled can be set")
            return
        no_person = self.sender_id in _NO_PERSON
        if no_person and self.sender_name.upper() in ("SYSTEM", ""):
            await host.reach.journal.note(key, self.content_text)
            return
        record = Record(
            seq=host.store.messages.reserve(),
            chat_key=key,
            author=Author.BOT if no_person else Author.PERSON,
            segments=(Text(self.content_text),),
            time=float(self.send_timestamp or datetime.now().astimezone().timestamp()),
            message_id=self.message_id,
            sender=Sender(
                "" if no_person else str(self.platform_userid or self.sender_id),
                self.sender_nickname or self.sender_name,
            ),
            from_history=True,
        )
        await host.store.messages.add(record, unique_id=unique_id_of(self.message_id))
        self.id = final_seq(record.seq)

    async def delete(self, *_: Any, **__: Any) -> None:
        """Mark the message as recalled. The model no longer sees it, but its record is not
        deleted."""
        host = self._host or current_host()
        if not self.message_id:
            raise NotKept("a message without a platform's id cannot be recalled")
        await host.store.messages.recall(ChatKey.parse(self.chat_key), self.message_id)


@lru_cache(16)
def _own_names(names: tuple[str, ...]) -> str:
    return names[0]
