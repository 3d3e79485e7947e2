"""The connection breaks in the middle of a commit. No write is lost, and no write is done twice."""

import re
from collections.abc import AsyncIterator

import anyio
import pytest

from nekro_core.store import Store
from nekro_core.store.settings import StoreSettings
from tests.faults.line import Line
from tests.peers.postgres import PostgresServer

from .conftest import GROUP, say

pytestmark = [pytest.mark.long]

MOMENTS = {"before the server has it": b"COMMIT;", "after the server has done it": b"COMMIT\0"}
"""The connection breaks before the client's COMMIT reaches the server, or before the server's
answer reaches the client."""
_PATIENCE_S = 60.0
"""On a busy machine, the server that is killed below takes longer to start than the bot usually
waits for it."""


@pytest.fixture
async def line(postgres: PostgresServer) -> AsyncIterator[Line]:
    async with Line(postgres.port) as line:
        yield line


@pytest.fixture
async def store(postgres_url: str, line: Line) -> AsyncIterator[Store]:
    url = re.sub(r":\d+/", f":{line.port}/", postgres_url)
    async with Store.open(url, StoreSettings(busy_timeout_s=_PATIENCE_S)) as opened:
        await opened.accounts.bind("fake", "bot")
        yield opened


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_counter_is_increased_once_although_the_commit_was_lost(
    store: Store, line: Line, moment: str
) -> None:
    turn = await store.turns.begin(GROUP, trigger_seq=1, through_seq=1)
    line.ends_before = MOMENTS[moment]
    again = await store.turns.resume(turn.turn_id)
    assert line.ends_before == b"", "the connection was not cut"
    assert again.attempts == 2
    (kept,) = await store.turns.interrupted()
    assert kept.attempts == 2


@pytest.mark.parametrize("moment", MOMENTS)
async def test_many_messages_are_each_stored_once_although_commits_were_lost(
    store: Store, line: Line, moment: str
) -> None:
    for number in range(5):
        line.ends_before = MOMENTS[moment]
        async with anyio.create_task_group() as tasks:
            for each in range(20):
                tasks.start_soon(say, store, f"{number}.{each}")
    kept = await store.messages.newest(GROUP, 200)
    said = sorted(segment.text for each in kept for segment in each.segments)  # type: ignore[union-attr]
    assert said == sorted(f"{number}.{each}" for number in range(5) for each in range(20))


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_turn_is_begun_once_although_the_connection_that_asks_is_lost_too(
    store: Store, line: Line, moment: str
) -> None:
    line.ends_before, line.then_ends_before = MOMENTS[moment], b"SELECT mark FROM commit_marks"
    await store.turns.begin(GROUP, trigger_seq=1, through_seq=1)
    assert line.ends_before == b"", "the second connection was not cut"
    assert len(await store.turns.interrupted()) == 1


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_write_that_changes_no_row_returns_although_the_commit_was_lost(
    store: Store, line: Line, moment: str
) -> None:
    line.ends_before = MOMENTS[moment]
    await store.turns.end(123_456, stop="finished")
    assert line.ends_before == b""


async def test_a_message_is_stored_although_the_server_crashed_and_forgot_its_transaction(
    postgres: PostgresServer, store: Store, line: Line
) -> None:
    """The server that starts again gives the numbers of forgotten transactions to transactions of
    other clients. These are committed, and the transaction of the message is not."""
    for number in range(3):
        line.freezes_before = b"COMMIT;"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say, store, f"{number}")
            with anyio.fail_after(20):
                while not line.frozen:
                    await anyio.sleep(0.001)
            postgres.kill()
            await anyio.to_thread.run_sync(postgres.start)
            for _ in range(10):
                await postgres.run("SELECT txid_current()")
            line.cut()
        kept = await store.messages.newest(GROUP, 10)
        assert [segment.text for each in kept for segment in each.segments] == [  # type: ignore[union-attr]
            str(each) for each in range(number + 1)
        ]
