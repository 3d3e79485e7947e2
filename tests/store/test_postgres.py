"""Tests of faults that only a database server has: it is stopped, restarted, or in use by another
bot."""

import subprocess
import sys

import anyio
import asyncpg
import pytest
from tortoise.context import TortoiseContext

from nekro_core.store import (
    DatabaseInUse,
    DatabaseTooNew,
    MigrationFailed,
    NoteRow,
    Store,
    StoreSettings,
    StoreUnavailable,
)
from nekro_core.store.engines import is_postgres
from nekro_core.store.migrate import configuration
from nekro_core.store.upgrade import known_migrations
from tests.peers.postgres import PostgresServer

from .conftest import GROUP, say

pytestmark = [pytest.mark.long]
QUICK = StoreSettings(busy_timeout_s=1.0)

HOLD = """
import sys, anyio
from nekro_core.store import Store
async def main():
    async with Store.open(sys.argv[1]):
        print("held", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


# ---- only one bot may use a database


async def test_a_second_bot_is_refused_with_the_process_id_of_the_first(postgres_url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, postgres_url], stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            assert await anyio.to_thread.run_sync(other.stdout.readline) == "held\n"
            with pytest.raises(DatabaseInUse, match=rf"process {other.pid} on .*from 127\.0\.0\.1"):
                async with Store.open(postgres_url, QUICK):
                    pass
        finally:
            other.kill()
    # The server notices a moment later that the first bot has died. `Store.open` waits until then.
    async with Store.open(postgres_url) as store:
        await say(store)


async def test_a_bot_that_lost_its_lock_to_another_bot_stops_writing(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """After a network failure, the server may have given the lock to another bot."""
    async with Store.open(postgres_url, QUICK) as first:
        await say(first, "mine")
        database = first.plugin_data._database
        engine = database._engine
        await engine._writer.close()  # type: ignore[attr-defined]
        async with Store.open(postgres_url, QUICK) as second:
            await say(second, "now mine")
            with pytest.raises(DatabaseInUse, match="nekro-core, process"):
                await say(first, "still mine?")
            assert len(await first.messages.newest(GROUP, 10)) == 1
            assert len(await second.messages.newest(GROUP, 10)) == 2
        await say(first, "mine again")


# ---- a server that cannot be used


async def test_a_url_is_of_postgresql_if_the_store_would_open_it_as_such(
    postgres: PostgresServer,
) -> None:
    at = f"nekro:only-for-tests@127.0.0.1:{postgres.port}/postgres"
    for scheme in ("asyncpg", "postgres", "postgresql"):
        assert is_postgres(f"{scheme}://{at}")
        async with Store.open(f"{scheme}://{at}", QUICK):
            pass
    assert not is_postgres("sqlite:///data/nekro.sqlite3")
    assert not is_postgres(f"psycopg://{at}")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("asyncpg://nekro:wrong@{at}/postgres", "check user and password"),
        ("asyncpg://nekro:only-for-tests@{at}/nowhere", "make the database"),
        ("asyncpg://nekro:only-for-tests@127.0.0.1:9/postgres", "no server answers there"),
        ("psycopg://nekro:only-for-tests@{at}/postgres", "expected sqlite:// or asyncpg://"),
    ],
)
async def test_the_error_says_why_a_server_cannot_be_used(
    postgres: PostgresServer, bad: str, said: str
) -> None:
    with pytest.raises(StoreUnavailable, match=said) as caught:
        async with Store.open(bad.format(at=f"127.0.0.1:{postgres.port}"), QUICK):
            pass
    assert "only-for-tests" not in str(caught.value)


async def test_a_restart_of_the_server_loses_no_write(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with Store.open(postgres_url) as store:
        await say(store, "before")
        await anyio.to_thread.run_sync(postgres.stop)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, store, "meanwhile")
            await anyio.sleep(0.2)
            await anyio.to_thread.run_sync(postgres.start)
        await say(store, "after")
        assert len(await store.messages.newest(GROUP, 10)) == 3


async def test_writes_fail_with_a_reason_while_the_server_is_stopped(
    postgres: PostgresServer, postgres_url: str
) -> None:
    patient = StoreSettings(busy_timeout_s=3)
    async with Store.open(postgres_url, patient) as store:
        await say(store, "before")
        await anyio.to_thread.run_sync(lambda: postgres.stop(at_once=True))
        try:
            with pytest.raises(StoreUnavailable, match="no server answers there"):
                await say(store, "lost")
            # The next writes fail without waiting for the whole timeout again.
            began = anyio.current_time()
            for _ in range(5):
                with pytest.raises(StoreUnavailable):
                    await say(store, "lost")
            assert anyio.current_time() - began < 5 * patient.busy_timeout_s
            with pytest.raises(StoreUnavailable):
                await store.messages.newest(GROUP, 10)
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        await say(store, "after")
        assert len(await store.messages.newest(GROUP, 10)) == 2


async def test_a_locked_table_is_an_error_and_nothing_is_half_written(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with Store.open(postgres_url, QUICK) as store:
        await say(store)
        other = await asyncpg.connect(postgres_url.replace("asyncpg", "postgresql"))
        try:
            async with other.transaction():
                await other.execute("LOCK TABLE messages")
                with pytest.raises(StoreUnavailable, match="another session holds a table"):
                    await say(store, "refused")
        finally:
            await other.close()
        assert len(await store.messages.newest(GROUP, 10)) == 1
        await say(store)


# ---- numbers and tables


async def test_sequence_numbers_are_never_reused(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with Store.open(postgres_url) as store:
        last = [await say(store) for _ in range(5)][-1]
    await postgres.run("DELETE FROM messages", url=postgres_url)
    async with Store.open(postgres_url) as store:
        assert store.messages.reserve() > last.seq


async def schema(postgres: PostgresServer, url: str) -> set[str]:
    """Every column and every index, in the server's notation."""
    columns = await postgres.run(
        "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, "
        "character_maximum_length) FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name NOT LIKE 'tortoise%'",
        url=url,
    )
    indexes = await postgres.run(
        "SELECT regexp_replace(indexdef, 'INDEX \\S+', 'INDEX') FROM pg_indexes "
        "WHERE schemaname = 'public' AND tablename NOT LIKE 'tortoise%'",
        url=url,
    )
    return {row[0] for row in (*columns, *indexes)}


async def test_migrations_lead_to_the_schema_of_the_database_models(
    postgres: PostgresServer,
) -> None:
    migrated, fresh = await postgres.database(), await postgres.empty_database()
    async with TortoiseContext() as context:
        host, _, name = fresh.rpartition("@")[2].partition("/")
        credentials = {
            "host": "127.0.0.1",
            "port": int(host.rpartition(":")[2]),
            "user": "nekro",
            "password": "only-for-tests",
            "database": name,
        }
        await context.init(configuration("tortoise.backends.asyncpg", credentials))
        await context.generate_schemas()
    found = await schema(postgres, migrated)
    assert found == await schema(postgres, fresh)
    assert len(found) > 100


async def test_a_database_of_a_newer_version_is_refused(
    postgres: PostgresServer, postgres_url: str
) -> None:
    await postgres.run(
        "INSERT INTO tortoise_migrations (app, name, applied_at) VALUES ('store', '9999_x', now())",
        url=postgres_url,
    )
    with pytest.raises(DatabaseTooNew, match=r"9999_x.*Install the newer version"):
        async with Store.open(postgres_url):
            pass


async def test_a_failing_migration_leaves_nothing_behind(postgres: PostgresServer) -> None:
    url = await postgres.empty_database()
    await postgres.run("CREATE TABLE timers (something TEXT)", url=url)
    with pytest.raises(MigrationFailed, match=r"timers.*Nothing in it was changed"):
        async with Store.open(url):
            pass
    tables = await postgres.run(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1", url=url
    )
    assert [row[0] for row in tables] == ["timers", "tortoise_migrations"]
    await postgres.run("DROP TABLE timers", url=url)
    async with Store.open(url) as store:
        await say(store)
    done = await postgres.run("SELECT name FROM tortoise_migrations ORDER BY 1", url=url)
    assert [row[0] for row in done] == known_migrations()


async def test_no_byte_of_a_deleted_row_is_left_in_tables_and_indexes(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with Store.open(postgres_url) as store:
        # Random words, because the server compresses long texts.
        words = [f"vermilion-{n}-{hash((n, 'x'))}" for n in range(200)]
        for text in words:
            await store.notes.add(NoteRow(chat_key=GROUP, text=text, about_id="vermilion-person"))
        assert await postgres.bytes_have(b"vermilion", url=postgres_url)
        notes = await store.notes.of_chats([GROUP])
        await store.notes.delete([each.note_id for each in notes])
        assert await postgres.bytes_have(b"vermilion", url=postgres_url)
        await store.erasing.vacuum()
        assert not await postgres.bytes_have(b"vermilion", url=postgres_url)


async def test_a_table_that_another_client_has_locked_does_not_end_an_erasure(
    postgres: PostgresServer, postgres_url: str
) -> None:
    async with Store.open(postgres_url, QUICK) as store:
        await say(store)
        other = await asyncpg.connect(postgres_url.replace("asyncpg://", "postgresql://"))
        try:
            async with other.transaction():
                await other.execute("LOCK TABLE memory_notes IN ACCESS SHARE MODE")
                await store.erasing.vacuum()
        finally:
            await other.close()
        assert await store.messages.newest(GROUP, 1)
