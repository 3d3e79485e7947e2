"""The PostgreSQL server of the tests can be killed as a crash would end it, and starts again with
what was committed."""

import asyncpg
import pytest

from tests.peers.postgres import PostgresServer, is_running, programs


@pytest.mark.long
@pytest.mark.skipif(programs() is None, reason="install Debian's package postgresql")
async def test_a_killed_server_ends_all_its_connections_and_keeps_what_was_committed() -> None:
    with PostgresServer() as server:
        url = await server.empty_database()
        await server.run("CREATE TABLE words (word text)", url=url)
        open_one = await asyncpg.connect(url.replace("asyncpg", "postgresql", 1))
        (backend,) = await server.run(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid()",
            url=url,
        )
        await open_one.execute("INSERT INTO words VALUES ('kept')")
        server.kill()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await open_one.fetch("SELECT 1")
        assert not is_running(backend["pid"])
        server.start()
        assert [row["word"] for row in await server.run("SELECT word FROM words", url=url)] == [
            "kept"
        ]
