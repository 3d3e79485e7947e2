"""Tortoise's connection ``default``, on which plugins for nekro-agent run their own SQL.

The tables ``chat_message`` and ``chat_channel`` have the columns of `DBChatMessage` and
`DBChatChannel` that SQL can compute. They can only be read, and only while a bot runs.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from loguru import logger
from tortoise.backends.base.client import Capabilities
from tortoise.connection import ConnectionHandler
from tortoise.context import TortoiseContext, set_global_context
from tortoise.exceptions import ConfigurationError, OperationalError

from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.compat.nekro_agent.rows.chats import DBChatChannel
from nekro_core.store import StoreError
from nekro_core.store.guest_queries import GuestQuery, GuestTable
from nekro_core.store.message_view import TABLES, literal, message_view

REMEDY = (
    "use the query classes: await DBChatMessage.filter(chat_key=...).order_by(...), "
    "from nekro_agent.models.db_chat_message"
)
_CHAT_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "chat_key": "TEXT",
        "adapter_key": "TEXT",
        "channel_id": "TEXT",
        "channel_type": "TEXT",
        "channel_name": "TEXT",
        "is_active": "BOOLEAN",
        "preset_id": "BIGINT",
        "data": "TEXT",
    }
)
_PERSON = "CASE WHEN {{author}} = 'person' THEN {{user_id}} ELSE '{otherwise}' END"


def _message_columns(own_name: str) -> dict[str, str]:
    """Write the columns of ``chat_message`` for `message_view`. ``own_name`` is the bot's name."""
    name = (
        "CASE {author} WHEN 'person' THEN {name} "
        f"WHEN 'bot' THEN {literal(own_name)} ELSE 'SYSTEM' END"
    )
    return {
        "id": "{seq}",
        "message_id": "{message_id}",
        "sender_id": _PERSON.format(otherwise="-1"),
        "sender_bind_qq": _PERSON.format(otherwise="0"),
        "platform_userid": _PERSON.format(otherwise="0"),
        "sender_name": name,
        "sender_nickname": name,
        "adapter_key": "{adapter}",
        "chat_key": "{chat_key}",
        "chat_type": "{kind}",
        "content_text": "{text}",
        "raw_cq_code": "''",
        "is_tome": "CASE WHEN {to_bot} THEN 1 ELSE 0 END",
        "is_recalled": "{recalled}",
        "send_timestamp": "{second}",
        "create_time": "{moment}",
        "update_time": "{moment}",
    }


class LegacyConnection:
    """The connection ``default``: runs a SELECT of a plugin. Each other method of a connection
    raises `OperationalError`, whose text says what to use instead."""

    connection_name = "default"

    @property
    def capabilities(self) -> Capabilities:
        """The name of the database, ``sqlite`` or ``postgres``, as ``dialect``."""
        return Capabilities(current_host().store.queries.dialect)

    async def execute_query_dict(
        self, query: str, values: Sequence[Any] | None = None
    ) -> list[dict[str, Any]]:
        """Run a SELECT and return its rows. Raises `OperationalError`.

        Args:
            query: The SQL, with ``$1``, ``$2`` for the values.
            values: The values.
        """
        host = current_host()
        columns = _message_columns(host.agent.names[0])
        views = {"chat_message": message_view(host.store.queries.dialect, columns)}
        wanted = GuestQuery(
            sql=query,
            values=tuple(values or ()),
            views=views,
            tables={"chat_channel": await _chats(host, query)},
            behind=TABLES,
        )
        try:
            return [dict(row) for row in await host.store.queries.guest_select(wanted)]
        except StoreError as error:
            raise OperationalError(f"{error}; {REMEDY}") from error

    async def execute_query(
        self, query: str, values: Sequence[Any] | None = None
    ) -> tuple[int, list[dict[str, Any]]]:
        """Run a SELECT and return the number of its rows, and the rows. See
        `execute_query_dict`."""
        rows = await self.execute_query_dict(query, values)
        return len(rows), rows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        _refuse(f"the connection has no {name} here: a plugin can only read its tables")


async def _chats(host: NekroAgentHost, query: str) -> GuestTable:
    if not re.search(r"\bchat_channel\b", query, re.IGNORECASE):
        return GuestTable(_CHAT_COLUMNS)
    rows = [await DBChatChannel.get_channel(str(key)) for key in await host.store.chats.all()]
    return GuestTable(
        _CHAT_COLUMNS, [tuple(getattr(row, column) for column in _CHAT_COLUMNS) for row in rows]
    )


def _refuse(text: str) -> NoReturn:
    raise OperationalError(f"{text}; {REMEDY}")


class _Connections(ConnectionHandler):
    def get(self, conn_alias: str) -> Any:
        if conn_alias != "default":
            raise ConfigurationError(f"there is no connection {conn_alias!r}; there is 'default'")
        return LegacyConnection()


class _LegacyTortoise(TortoiseContext):
    """Tortoise's state for code of plugins that has not initialized Tortoise itself."""

    @property
    def connections(self) -> ConnectionHandler:
        """The connections; there is only ``default``."""
        return _Connections()


_used: list[_LegacyTortoise] = []
"""All running bots of the process share one state, because Tortoise has only one place for it. This
list has the state once for each of these bots."""


def offer_connection() -> Callable[[], Awaitable[None]] | None:
    """Give a `LegacyConnection` to code that calls ``Tortoise.get_connection("default")`` and runs
    in no other state of Tortoise. Returns the function that ends this, or None if Tortoise is in
    use by other code."""
    state = _used[0] if _used else _LegacyTortoise()
    if not _used:
        try:
            set_global_context(state)
        except ConfigurationError:
            logger.info("Tortoise is used otherwise: plugins find no connection 'default' here")
            return None
    _used.append(state)

    async def end() -> None:
        _used.remove(state)
        if not _used:
            await state.close_connections()

    return end
