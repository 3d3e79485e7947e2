"""Several processes that share a database have the same timers. If a timer is due, one of the
processes reports it to the chat, once."""

import anyio
import pytest

from nekro_core.timers import TimerRefused
from tests.peers.postgres import PostgresServer

from .test_timers import GROUP, HOURLY, NOON, OTHER, Bot

pytestmark = [pytest.mark.long]
HOUR = 3_600.0


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database()


async def until_set(bot: Bot, *texts: str) -> None:
    """Wait until a process knows the timers with these texts, and no others."""
    with anyio.fail_after(30):
        while sorted(row.text for row in bot.timers.all()) != sorted(texts):
            await anyio.sleep(0.01)


async def test_a_due_time_is_reported_once_although_two_processes_wait_for_it(url: str) -> None:
    one, two = Bot(url, node="one"), Bot(url, node="two")
    async with one.up(), two.up():
        await one.timers.create(GROUP, HOURLY, "tea")
        await two.timers.set_once(GROUP, NOON + 90 * 60, "cake")
        for bot in (one, two):
            await until_set(bot, "tea", "cake")
        for hour in range(1, 4):
            one.now = two.now = NOON + hour * HOUR
            await one.until(lambda lines, n=hour: len([x for x in lines if "tea" in x]) == n)  # type: ignore[misc]
        await one.until(lambda lines: any("cake" in line for line in lines))
        await anyio.sleep(0.1)  # If there were a second report, it would come in this time.
        lines = await two.lines()
        assert len([line for line in lines if "tea" in line]) == 3
        assert len([line for line in lines if "cake" in line]) == 1
        await until_set(one, "tea")
        await until_set(two, "tea")


async def test_a_timer_that_another_process_has_deleted_or_moved_does_not_fire(url: str) -> None:
    one, two = Bot(url, node="one"), Bot(url, node="two")
    async with one.up(started=False), two.up():
        deleted = await one.timers.set_once(GROUP, NOON + HOUR, "deleted")
        changed = await one.timers.create(GROUP, HOURLY, "old words")
        await until_set(two, "deleted", "old words")
        await one.timers.forget(GROUP, deleted.timer_id)
        await one.timers.update(changed.timer_id, text="new words")
        # Now both timers are due. The second process may not have been told of the changes yet.
        two.now = NOON + HOUR
        lines = await two.until(lambda lines: len(lines) == 1)
        assert "new words" in lines[0] or "old words" in lines[0]
        await until_set(two, "new words")
        assert len(await two.lines()) == 1
        with pytest.raises(TimerRefused):
            await two.timers.update(deleted.timer_id, text="again")


async def test_a_process_reports_the_timers_of_its_chats_alone(url: str) -> None:
    one, two = Bot(url, node="one"), Bot(url, node="two")
    of_two = {OTHER}
    one.chats = lambda chat_key: chat_key not in of_two
    two.chats = lambda chat_key: chat_key in of_two
    async with one.up(), two.up():
        await one.timers.set_once(GROUP, NOON + HOUR, "of the group")
        await two.timers.set_once(OTHER, NOON + HOUR, "of the other")
        one.now = NOON + 2 * HOUR
        await one.until(lambda lines: len(lines) == 1)
        assert await one.lines(OTHER) == []
        # The second process hands its chat over to the first one.
        of_two.clear()
        await one.timers.read_again()
        await two.timers.read_again()
        assert two.timers.all() == []
        with anyio.fail_after(30):
            while not await one.lines(OTHER):
                await anyio.sleep(0.01)
