"""A plugin's task that the end of the bot interrupted is reported once, at the next start."""

from dataclasses import replace
from pathlib import Path

import anyio

from nekro_core.chat import Record, plain_text
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.plugins.tasks.interrupted import RunningTaskRecords, report_interrupted
from nekro_core.plugins.tasks.runner import TaskRunner
from nekro_core.store import Store
from tests.plugins.tasks.test_tasks import CODE, Film
from tests.plugins.world import GROUP, World


async def told(store: Store) -> list[Record]:
    inbox = Inbox(store, Broadcast())
    await report_interrupted(store, inbox)
    return [event.record for event in inbox.queued]


async def test_an_interrupted_task_is_reported_once(tmp_path: Path) -> None:
    async with Store.open(f"sqlite://{tmp_path}/db") as store:
        world = World(tmp_path)
        world.services = replace(
            world.services, tasks=TaskRunner(RunningTaskRecords(store.waiting))
        )
        world.write("film.py", CODE)
        async with world.bot() as plugins:
            at = Film(world, plugins)
            for name in ("cut", "called off"):
                await at.tool("begin", "endless", name)
            await at.tool("begin", "plain", "over")
            await at.ended("over")
            await at.tool("off", "called off")
            await at.ended("called off")
            with anyio.fail_after(30):
                while len(await store.waiting.all("task")) != 1:
                    await anyio.sleep(0.001)
        (note,) = await told(store)
        assert (note.chat_key, note.to_bot) == (GROUP, True)
        assert "endless 'cut' of me.film was at work" in plain_text(note.segments)
        assert await told(store) == [], "once"


async def test_tasks_that_ended_are_not_reported(tmp_path: Path) -> None:
    async with Store.open(f"sqlite://{tmp_path}/db") as store:
        assert await told(store) == []
        kept = RunningTaskRecords(store.waiting)
        kept.began("me.film", "render", "nowhere", "no chat key")
        kept.began("me.film", "render", "fine", str(GROUP))
        kept.ended("render", "fine")
        assert await told(store) == []


async def test_a_task_of_a_chat_that_another_process_takes_over_ends_and_is_reported_there(
    tmp_path: Path,
) -> None:
    async with Store.open(f"sqlite://{tmp_path}/db") as store:
        world = World(tmp_path)
        tasks = TaskRunner(RunningTaskRecords(store.waiting))
        world.services = replace(world.services, tasks=tasks)
        world.write("film.py", CODE)
        async with world.bot() as plugins:
            at = Film(world, plugins)
            await at.tool("begin", "endless", "cut")
            tasks.release(lambda chat_key: chat_key != GROUP)
            await anyio.wait_all_tasks_blocked()
            assert len(tasks.running()) == 1, "another chat was released"
            tasks.release(lambda chat_key: chat_key == GROUP)
            await at.ended("cut")
            (note,) = await told(store)
            assert note.chat_key == GROUP
