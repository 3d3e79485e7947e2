"""Timers work with a store and an inbox, also over restarts."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey, plain_text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.store import SqlStatement, Store, StoreError, StoreSettings, StoreUnavailable
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.timers import Schedule, TimerRefused, TimerService, TimerSettings

GROUP = ChatKey.parse("onebot_v11-group_30003")
OTHER = ChatKey.parse("web-private_lin")
NOON = 1_795_003_200.0
"""The time at which the clock starts: 2026-11-18 12:00 UTC."""
HOURLY = Schedule.parse("0 * * * *", "UTC")


class Bot:
    """The parts of a bot that timers need. ``now`` is its clock, and ``chats`` are its chats.
    ``node`` is its name among those that share the database."""

    def __init__(self, url: str, *, node: str = "") -> None:
        self.now = NOON
        self.url = url
        self.node = node
        self.chats: ChatScope = every_chat
        self.store: Store
        self.inbox: Inbox
        self.timers: TimerService

    def clock(self) -> float:
        return self.now

    @asynccontextmanager
    async def up(self, *, started: bool = True, **settings: int) -> AsyncIterator["Bot"]:
        """Run the bot in this block, as one process from its start to its end."""
        bounds = TimerSettings(look_s=0.01, **settings)
        stored = StoreSettings(node=self.node)
        async with Store.open(self.url, stored, clock=self.clock) as self.store:
            self.inbox = Inbox(self.store, Broadcast(), wall=self.clock)
            async with TimerService.open(
                self.store, self.inbox, bounds, wall=self.clock, chats=self.chats
            ) as self.timers:
                if started:
                    self.timers.start()
                yield self

    async def lines(self, chat_key: ChatKey = GROUP) -> list[str]:
        records = await self.store.messages.newest(chat_key, 500)
        assert all(record.to_bot for record in records)
        return [plain_text(record.segments) for record in records]

    async def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        with anyio.fail_after(30):
            while not condition(lines := await self.lines()):
                await anyio.sleep(0.01)
        return lines

    async def left(self, *texts: str) -> None:
        """Wait until only these timers are set. A timer is removed a moment after its line was
        written."""
        with anyio.fail_after(30):
            while [row.text for row in self.timers.of_chat(GROUP)] != [*texts]:
                await anyio.sleep(0.01)


@pytest.fixture(scope="module")
async def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database. It is made once, because making its tables takes longer than any test
    here."""
    folder = tmp_path_factory.mktemp("fresh")
    async with Store.open(f"sqlite://{folder}/nekro.sqlite3"):
        pass
    return folder / "nekro.sqlite3"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def bot(request: pytest.FixtureRequest, tmp_path: Path, fresh: Path) -> Bot:
    if request.param == "postgres":
        return Bot(await request.getfixturevalue("postgres").database())
    shutil.copy(fresh, tmp_path)
    return Bot(f"sqlite://{tmp_path / fresh.name}")


TEA = "A timer that was set in this chat is due: tea"


async def test_a_timer_is_announced_when_it_is_due(bot: Bot) -> None:
    async with bot.up():
        await bot.timers.set_once(GROUP, NOON + 60, "tea")
        await anyio.sleep(0.05)
        assert await bot.lines() == []
        bot.now = NOON + 59.9
        await anyio.sleep(0.05)
        assert await bot.lines() == []
        bot.now = NOON + 60
        assert await bot.until(bool) == [TEA]
        bot.now = NOON + 1000
        await anyio.sleep(0.05)
        assert await bot.lines() == [TEA]
        await bot.left()
        assert await bot.lines(OTHER) == []


async def test_timers_survive_a_restart_and_late_ones_say_that_they_are_late(bot: Bot) -> None:
    async with bot.up():
        await bot.timers.set_once(GROUP, NOON + 60, "tea")
        await bot.timers.create(GROUP, HOURLY, "stretch", title="health")
        await bot.timers.set_once(GROUP, NOON + 90_000, "tomorrow")
    bot.now = NOON + 3 * 3600 + 600
    async with bot.up():
        first, second = await bot.until(lambda lines: len(lines) == 2)
        assert first.startswith(f"{TEA}\nIt was due at 2026-11-18 ")
        assert 'The recurring timer "health"' in second
        assert "2 more of its times have passed since." in second
        await bot.left("tomorrow")
    async with bot.up():
        await anyio.sleep(0.05)
        assert len(await bot.lines()) == 2


async def test_a_due_time_is_announced_once_even_if_the_row_of_the_timer_is_reset(bot: Bot) -> None:
    """The line and the row are written in one transaction. Here the row is reset by hand, and the
    unique key of the line still prevents a second announcement."""
    async with bot.up():
        await bot.timers.set_once(GROUP, NOON, "tea")
        await bot.until(bool)
        reset = "UPDATE timers SET state = 'active', due = told_due"
        await bot.store.timers._database.write(SqlStatement(reset))
    async with bot.up():
        await anyio.sleep(0.1)
        assert await bot.lines() == [TEA]


async def test_no_timer_is_announced_before_the_platforms_are_connected(bot: Bot) -> None:
    async with bot.up(started=False):
        await bot.timers.set_once(GROUP, NOON, "tea")
        await anyio.sleep(0.05)
        assert await bot.lines() == []
        bot.timers.start()
        assert await bot.until(bool) == [TEA]


async def test_timers_use_the_new_time_after_the_clock_was_set(bot: Bot) -> None:
    async with bot.up():
        await bot.timers.create(GROUP, HOURLY, "stretch")
        bot.now += 3600
        await bot.until(lambda lines: len(lines) == 1)
        bot.now -= 1800  # the clock is set back: 13:00 comes again, but it was announced already
        await anyio.sleep(0.05)
        bot.now += 1800
        await anyio.sleep(0.05)
        assert len(await bot.lines()) == 1
        bot.now += 3600
        await bot.until(lambda lines: len(lines) == 2)


async def test_a_hundred_timers_with_the_same_due_time_are_announced_in_order(bot: Bot) -> None:
    async with bot.up():
        for number in range(100):
            await bot.timers.set_once(GROUP, NOON + 1 + number / 1000, str(number))
        bot.now += 5
        lines = await bot.until(lambda lines: len(lines) == 100)
        assert [text.rpartition(" ")[2] for text in lines] == [str(n) for n in range(100)]


async def test_a_new_temporary_timer_replaces_the_old_one(bot: Bot) -> None:
    async with bot.up():
        await bot.timers.set_once(GROUP, NOON + 60, "look", temporary=True)
        await bot.timers.set_once(GROUP, NOON + 30, "tea")
        await bot.timers.set_once(GROUP, NOON + 90, "look again", temporary=True)
        assert [row.text for row in bot.timers.of_chat(GROUP)] == ["tea", "look again"]
        assert await bot.timers.clear(GROUP, temporary=True) == 1
        assert await bot.timers.clear(OTHER) == 0
        assert [row.text for row in bot.timers.of_chat(GROUP)] == ["tea"]
        assert await bot.timers.clear(GROUP) == 1
    async with bot.up():
        assert bot.timers.of_chat(GROUP) == []


async def test_a_recurring_timer_can_be_paused_changed_and_deleted(bot: Bot) -> None:
    async with bot.up():
        job = await bot.timers.create(GROUP, HOURLY, "stretch")
        paused = await bot.timers.pause(job.timer_id)
        assert (paused.state, paused.due) == ("paused", 0.0)
        bot.now += 7200
        await anyio.sleep(0.05)
        assert await bot.lines() == []
        await bot.timers.run_now(job.timer_id)
        assert await bot.lines() == [f"The recurring timer ({job.timer_id}) is due: stretch"]
        assert bot.timers.get(job.timer_id).state == "paused"
        resumed = await bot.timers.resume(job.timer_id)
        assert resumed.due == NOON + 3 * 3600
        daily = Schedule.parse("0 9 * * *", "UTC")
        changed = await bot.timers.update(job.timer_id, schedule=daily, text="wake", title="up")
        assert (changed.text, changed.title, changed.due) == ("wake", "up", NOON + 21 * 3600)
    async with bot.up():
        assert bot.timers.recurring(GROUP) == [changed]
        assert bot.timers.recurring(OTHER) == []
        assert await bot.timers.delete(job.timer_id)
        assert not await bot.timers.delete(job.timer_id)
        for act in (bot.timers.pause, bot.timers.resume, bot.timers.run_now):
            with pytest.raises(TimerRefused, match="there is no recurring timer"):
                await act(job.timer_id)


async def test_impossible_timers_are_refused(bot: Bot) -> None:
    async with bot.up():
        with pytest.raises(TimerRefused, match="hundred years"):
            await bot.timers.set_once(GROUP, NOON + 1e300, "x")
        for due in (NOON - 61, float("nan"), float("inf"), -float("inf")):
            with pytest.raises(TimerRefused, match="is over"):
                await bot.timers.set_once(GROUP, due, "tea")
        for text in ("  ", "x" * 4001):
            with pytest.raises(TimerRefused, match="expected 1 to 4000"):
                await bot.timers.set_once(GROUP, NOON, text)


async def test_the_number_of_timers_is_limited(bot: Bot) -> None:
    async with bot.up(per_chat=3, in_all=4):
        await bot.timers.set_once(GROUP, NOON + 60, "0", temporary=True)
        for number in range(2):
            await bot.timers.set_once(GROUP, NOON + 60, str(number))
        await bot.timers.set_once(GROUP, NOON + 70, "in its place", temporary=True)
        with pytest.raises(TimerRefused, match="has 3 timers"):
            await bot.timers.set_once(GROUP, NOON + 60, "one more")
        await bot.timers.set_once(OTHER, NOON + 60, "4")
        with pytest.raises(TimerRefused, match="there are 4 timers"):
            await bot.timers.set_once(OTHER, NOON + 60, "5")


async def test_while_the_store_fails_no_timer_changes_and_due_timers_wait(
    fresh: Path, tmp_path: Path
) -> None:
    """The store refuses writes for a while, as it does on a full disk."""
    shutil.copy(fresh, tmp_path)
    bot = Bot(f"sqlite://{tmp_path / fresh.name}")  # only SQLite has PRAGMA query_only
    async with bot.up():
        row = await bot.timers.set_once(GROUP, NOON + 60, "tea")
        await bot.store.timers._database.read("PRAGMA query_only = ON")
        with pytest.raises(StoreUnavailable):
            await bot.timers.set_once(GROUP, NOON + 90, "cake")
        with pytest.raises(StoreUnavailable):
            await bot.timers.clear(GROUP)
        assert bot.timers.of_chat(GROUP) == [row]
        bot.now = NOON + 61
        await anyio.sleep(0.1)
        assert bot.timers.of_chat(GROUP) == [row]
        await bot.store.timers._database.read("PRAGMA query_only = OFF")
        assert await bot.until(bool) == [TEA]


async def test_the_old_temporary_timer_stays_if_the_new_one_cannot_be_stored(
    fresh: Path, tmp_path: Path
) -> None:
    shutil.copy(fresh, tmp_path)
    bot = Bot(f"sqlite://{tmp_path / fresh.name}")  # the trigger is written in SQLite's dialect
    async with bot.up(started=False):
        old = await bot.timers.set_once(GROUP, NOON + 60, "tea", temporary=True)
        await bot.store.timers._database.write(
            SqlStatement(
                "CREATE TRIGGER full_disk BEFORE INSERT ON timers WHEN new.text = 'cake' "
                "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
        )
        with pytest.raises(StoreError):
            await bot.timers.set_once(GROUP, NOON + 90, "cake", temporary=True)
        assert bot.timers.of_chat(GROUP) == [old]
    async with bot.up(started=False):
        assert bot.timers.of_chat(GROUP) == [old]


async def test_running_a_timer_now_changes_nothing_if_the_change_cannot_be_stored(
    fresh: Path, tmp_path: Path
) -> None:
    shutil.copy(fresh, tmp_path)
    bot = Bot(f"sqlite://{tmp_path / fresh.name}")  # only SQLite has query_only
    async with bot.up(started=False):
        row = await bot.timers.create(GROUP, HOURLY, "tea")
        await bot.store.timers._database.read("PRAGMA query_only = ON")
        with pytest.raises(StoreUnavailable):
            await bot.timers.run_now(row.timer_id)
        assert bot.timers.get(row.timer_id) == row
        await bot.store.timers._database.read("PRAGMA query_only = OFF")
