"""A whole bot survives faults of its disk, clock, database, network and platform."""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.e2e.whole_bot import TOKEN, WELL, WholeBot, fence, until, whole_bot
from tests.faults.database import locked
from tests.faults.events import scrambled
from tests.faults.line import Line
from tests.faults.machine import Machine
from tests.peers.onebot_v11 import Late, OneBotPeer

pytestmark = pytest.mark.long
DAY_S = 86_400


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module")
async def whole(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[WholeBot]:
    settings = {"NEKRO_STORE__BUSY_TIMEOUT_S": "0.5", "NEKRO_DELIVERY__CALL_S": "1.5"}
    folder = tmp_path_factory.mktemp("bad_day")
    async with whole_bot(folder, **machine.environment, **settings) as whole:
        yield whole


async def test_with_a_slow_disk_every_message_is_still_answered_once(
    whole: WholeBot, machine: Machine
) -> None:
    groups = [whole.group(fence(f"send_channel_message('{n}')")) for n in range(5)]
    machine.slow_disk(milliseconds=30)
    async with anyio.create_task_group() as tasks:
        for group in groups:
            tasks.start_soon(whole.ask, group)
    machine.slow_disk(milliseconds=0)
    assert [whole.said(group) for group in groups] == [[str(n)] for n in range(5)]


async def test_a_message_that_arrives_while_the_disk_is_full_is_answered_later(
    whole: WholeBot, machine: Machine
) -> None:
    group = whole.group(fence("send_channel_message('after')"))
    machine.full_disk(full=True)
    await whole.peer.say_in_group(group, 10001, "are you there?", at_me=True)
    await whole.logged("free space on the disk")
    assert whole.said(group) == []
    machine.full_disk(full=False)
    assert await whole.answers(group) == ["after"]
    assert len(whole.stored(group)) == 1


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S, -40 * 365 * DAY_S])
async def test_setting_the_clock_loses_and_repeats_no_message(
    whole: WholeBot, machine: Machine, jump_s: int
) -> None:
    group = whole.group(*(fence(f"send_channel_message('{n}')") for n in range(3)))
    assert await whole.ask(group) == ["0"]
    machine.set_clock(jump_s)
    assert await whole.ask(group) == ["1"]
    machine.set_clock(0)
    assert await whole.ask(group) == ["2"]
    assert len(whole.stored(group)) == 3


async def test_a_message_that_arrives_while_the_database_is_locked_is_answered_later(
    whole: WholeBot,
) -> None:
    group = whole.group(fence("send_channel_message('after')"))
    async with locked(whole.bot.data):
        await whole.peer.say_in_group(group, 10001, "are you there?", at_me=True)
        await whole.logged("another program holds the database")
        assert whole.said(group) == []
    assert await whole.answers(group) == ["after"]
    assert len(whole.stored(group)) == 1


async def test_repeated_and_shuffled_events_are_each_stored_once(whole: WholeBot) -> None:
    groups = [whole.group() for _ in range(5)]
    async with scrambled(whole.peer, random.Random(7)):
        for number in range(30):
            await whole.peer.say_in_group(groups[number % 5], 10001, f"line {number}", at_me=True)
    await until(lambda: all(len(whole.stored(group)) == 6 for group in groups))
    await until(lambda: all(whole.said(group) for group in groups))
    await anyio.sleep(0.5)
    for index, group in enumerate(groups):
        texts = sorted(segments[-1]["text"].strip() for segments in whole.stored(group))
        assert texts == sorted(f"line {number}" for number in range(index, 30, 5))


async def test_after_a_frozen_connection_the_adapter_asks_whether_a_message_arrived(
    whole: WholeBot,
) -> None:
    """The platform received the call, but its answer was lost. After the reconnect, the adapter
    finds the message in the platform's history."""
    async with Line(whole.bot.running["port"]) as line:
        url = whole.bot.onebot_url.replace(str(whole.bot.running["port"]), str(line.port))
        async with OneBotPeer("20009", TOKEN, url) as peer:
            await peer.wait_connected()
            await peer.say_in_group(1, 10001, "hello", at_me=True)
            await peer.until(lambda: len(peer.sends) == 1)
            key = "onebot_v11.20009-group_1"
            whole.model.replies[key].append(fence("send_channel_message('into the dark')"))
            peer.answer("send", Late(2.0))
            await peer.say_in_group(1, 10001, "and again", at_me=True)
            await peer.until(lambda: len(peer.sends) == 2)
            line.freeze()
            await until(lambda: _states(whole.bot.data, key) == ["sent", "unknown"])
            await peer.say_in_group(1, 10001, "nobody hears this", at_me=True)
            line.cut()
            await peer.until(lambda: len(peer.sends) == 3, 30)
            await until(lambda: _states(whole.bot.data, key) == ["sent"] * 3)
            await anyio.sleep(0.5)
            assert [call.text for call in peer.sends] == [WELL, "into the dark", WELL]


def _states(data: Path, chat_key: str) -> list[str]:
    with closing(sqlite3.connect(f"file:{data / 'nekro.sqlite3'}?mode=ro", uri=True)) as database:
        query = "SELECT state FROM deliveries WHERE chat_key = ? ORDER BY id"
        return [state for (state,) in database.execute(query, (chat_key,))]
