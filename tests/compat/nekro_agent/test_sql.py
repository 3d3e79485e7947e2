"""Plugins run SQL on Tortoise's connection ``default``. This works with SQLite and with
PostgreSQL."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tortoise import Tortoise, connections
from tortoise.connection import get_connection
from tortoise.exceptions import ConfigurationError, OperationalError

from nekro_core.compat.nekro_agent.host import NekroAgentHost
from nekro_core.compat.nekro_agent.rows.chats import DBChatChannel
from nekro_core.compat.nekro_agent.rows.messages import DBChatMessage
from nekro_core.compat.nekro_agent.sql import offer_connection
from nekro_core.store.message_view import literal, message_view
from tests.compat.nekro_agent.test_queries import host, url

__all__ = ["host", "url"]

RANK = """
SELECT m.sender_id AS sender_id, MAX(m.sender_nickname) AS nick, COUNT(*) AS cnt,
       COUNT(*) FILTER (WHERE m.raw_cq_code LIKE '%CQ:image%') AS img_n
FROM chat_message m  -- the newest
WHERE m.chat_key = $1 AND m.is_recalled = FALSE AND m.sender_id <> '-1' AND m.sender_id <> ''
  AND m.send_timestamp >= $2
GROUP BY m.sender_id
ORDER BY cnt DESC, m.sender_id
LIMIT $3;
"""


@pytest.fixture
async def connection(host: NekroAgentHost) -> AsyncIterator[Any]:
    await host.load()
    end = offer_connection()
    assert end is not None
    yield Tortoise.get_connection("default")
    await end()


async def test_a_query_counts_who_wrote_most_in_a_chat(connection: Any) -> None:
    for _ in range(2):
        rows = await connection.execute_query_dict(RANK, ["web-group_1", 100, 3])
        assert rows == [
            {"sender_id": "ann", "nick": "Ann", "cnt": 2, "img_n": 0},
            {"sender_id": "bob", "nick": "Bob", "cnt": 1, "img_n": 0},
        ]
    assert len(await connection.execute_query_dict(RANK, ["web-group_1", 101, 1])) == 1


async def test_rows_have_the_values_of_the_query_classes(connection: Any) -> None:
    rows = await connection.execute_query_dict("SELECT * FROM chat_message ORDER BY id")
    assert len(rows) == 6
    for row, message in zip(rows, await DBChatMessage.all().order_by("id"), strict=True):
        for column in row.keys() - {"create_time", "update_time"}:
            assert row[column] == getattr(message, column), column
    count, chats = await connection.execute_query(
        "SELECT * FROM chat_channel WHERE chat_key = $1", ["web-group_2"]
    )
    assert count == 1
    channel = await DBChatChannel.get_channel("web-group_2")
    assert {name: getattr(channel, name) for name in chats[0]} == chats[0]


async def test_tables_are_joined_and_subqueries_have_names(connection: Any) -> None:
    rows = await connection.execute_query_dict(
        "WITH said AS (SELECT chat_key, COUNT(*) AS n FROM chat_message "
        "WHERE chat_type IN ('group', 'private') GROUP BY chat_key) "
        "SELECT c.channel_type AS kind, s.n AS n FROM said s "
        "JOIN chat_channel c ON c.chat_key = s.chat_key WHERE c.is_active = TRUE "
        "ORDER BY n DESC, kind LIMIT 1"
    )
    assert rows == [{"kind": "group", "n": 4}]


REFUSED = (
    "DELETE FROM chat_message",
    "WITH gone AS (SELECT 1) DELETE FROM chat_message",
    "SELECT 1; SELECT 2",
    "SELECT * FROM messages",
    "SELECT * FROM main.messages",
    "SELECT * FROM public.messages",
    'SELECT * FROM "public" . "messages"',
    "WITH chat_message AS (SELECT * FROM messages) SELECT * FROM chat_message",
    "WITH chat_message AS (SELECT * FROM main.messages) SELECT segments FROM chat_message",
    "WITH chat_message AS (SELECT * FROM public.messages) SELECT segments FROM chat_message",
    "SELECT * FROM users",
    "SELECT COUNT(*) FROM plugin_data",
    "SELECT COUNT(*) FROM main.plugin_data",
    "SELECT COUNT(*) FROM public.plugin_data",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM pragma_table_info('messages')",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_class",
    "SELECT * FROM information_schema.tables",
    "SELECT query_to_xml('SELECT * FROM public.messages', true, true, '')",
    "SELECT pg_read_file('/etc/hostname')",
    "SELECT load_extension('x')",
    "SELECT set_config('search_path', 'public', false)",
    """SELECT * FROM U&"pzz0067_class" UESCAPE 'z'""",
    "SELECT E'\\' FROM messages --'",
    "SELECT $$ FROM chat_message $$ FROM messages",
    "SELECT segments FROM chat_message",
    "SELECT 1 INTO TEMP kept",
    "CREATE TABLE kept (a INT)",
    "ATTACH 'other.sqlite3' AS other",
    "PRAGMA query_only = OFF",
    "",
)


@pytest.mark.parametrize("sql", REFUSED)
async def test_a_statement_that_is_not_a_select_from_the_two_tables_is_refused(
    connection: Any, sql: str
) -> None:
    with pytest.raises(OperationalError, match=r"DBChatMessage\.filter"):
        await connection.execute_query_dict(sql)
    rows = await connection.execute_query_dict("SELECT COUNT(*) AS n FROM chat_message")
    assert rows == [{"n": 6}]


async def test_a_long_result_and_a_slow_query_are_refused(
    connection: Any,
) -> None:
    many = " CROSS JOIN ".join(f"chat_message m{number}" for number in range(6))
    with pytest.raises(OperationalError, match="over 10000 rows: write a LIMIT"):
        await connection.execute_query_dict(f"SELECT m0.id FROM {many}")
    endless = " CROSS JOIN ".join(f"chat_message m{number}" for number in range(12))
    with pytest.raises(OperationalError, match="took over 5 s"):
        await connection.execute_query_dict(f"SELECT COUNT(*) AS n FROM {endless}")


async def test_methods_and_connections_that_the_bot_does_not_offer_are_refused_with_a_hint(
    connection: Any,
) -> None:
    with pytest.raises(OperationalError, match=r"no execute_script here.*DBChatMessage\.filter"):
        await connection.execute_script("DROP TABLE messages")
    with pytest.raises(ConfigurationError, match="there is 'default'"):
        get_connection("other")
    assert connections.get("default").capabilities.dialect in ("sqlite", "postgres")


async def test_the_connection_ends_with_the_last_bot(host: NekroAgentHost) -> None:
    end, end_of_other = offer_connection(), offer_connection()
    assert end is not None
    assert end_of_other is not None
    await end_of_other()
    assert await get_connection("default").execute_query_dict("SELECT 1 AS n") == [{"n": 1}]
    await end()
    with pytest.raises(RuntimeError, match="No TortoiseContext"):
        get_connection("default")


def test_a_constant_column_of_the_view_is_quoted() -> None:
    sql = message_view("sqlite", {"name": literal("O'Neil {x}")})
    assert sql == "SELECT 'O''Neil {x}' AS name FROM messages m"
