"""A command's question can be answered after a restart of the bot."""

from pathlib import Path

import anyio
import pytest

from nekro_core.store import Store
from tests.plugins.commands.sources import ASKING
from tests.plugins.commands.talk import Talk, talk

CODE = "TIME = 60.0\n" + ASKING
SLOW = (
    CODE
    + """
@plugin.mount_command("slow", internal=True)
async def slow(context, answer: str):
    await anyio.sleep_forever()

@plugin.mount_command("begin")
async def begin(context):
    return CmdCtl.wait("Well?", "slow")

@plugin.mount_command("odd")
async def odd(context):
    return CmdCtl.wait("Odd?", "confirm", context_data={"name": object()})
"""
)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def settled(chat: Talk) -> None:
    with anyio.fail_after(30):
        while chat.router.at_work > len(chat.router._waits):
            await anyio.sleep(0.001)


async def test_a_question_is_answered_after_a_restart(tmp_path: Path) -> None:
    async with Store.open(f"sqlite://{tmp_path}/db") as store:
        async with talk(tmp_path, keeper=store.waiting, asking=CODE) as chat:
            await chat.say("/delete cat")
            await chat.say("/delete dog", by="10002")
        async with talk(tmp_path, keeper=store.waiting, asking=CODE) as chat:
            assert await chat.router.restore() == set()
            assert not chat.receive("1", by="10003")
            assert not chat.receive("1", seq=0), "this message is older than the question"
            # A message that was sent while the bot was stopped comes from the platform's history.
            assert await chat.say("1", seq=9, from_history=True) == ["yes: cat (10001)"]
            assert await chat.say("2", seq=10, by="10002") == ["no: dog (10002)"]
            await settled(chat)
        async with talk(tmp_path, keeper=store.waiting, asking=CODE) as chat:
            assert await chat.router.restore() == set()
            assert not chat.receive("1", seq=11)
        assert await store.waiting.all("question") == await store.waiting.all("answer") == []


async def test_a_command_from_the_history_is_not_run(tmp_path: Path) -> None:
    async with talk(tmp_path, asking=CODE) as chat:
        assert not chat.receive("/delete cat", from_history=True)


@pytest.mark.parametrize(
    ("away_s", "told"), [(70.0, ["Never mind."]), (5_000.0, []), (-86_400.0, [])]
)
async def test_after_a_restart_an_expired_question_is_closed(
    tmp_path: Path, away_s: float, told: list[str]
) -> None:
    clock = Clock()
    async with Store.open(f"sqlite://{tmp_path}/db") as store:
        async with talk(tmp_path, keeper=store.waiting, wall=clock, asking=CODE) as chat:
            await chat.say("/delete cat")
        clock.now += away_s
        async with talk(tmp_path, keeper=store.waiting, wall=clock, asking=CODE) as chat:
            await chat.router.restore()
            await settled(chat)
            assert chat.texts == told
            open_now = len(await store.waiting.all("question"))
            assert open_now == (away_s < 0), "if the clock was set back, no question may be closed"


async def test_an_answer_is_not_carried_out_twice(tmp_path: Path) -> None:
    async with Store.open(f"sqlite://{tmp_path}/db") as store:
        async with talk(tmp_path, keeper=store.waiting, asking=SLOW) as chat:
            await chat.say("/begin")
            assert chat.receive("go on", seq=7)
            with anyio.fail_after(30):
                while not await store.waiting.all("answer"):
                    await anyio.sleep(0.001)
        async with talk(tmp_path, keeper=store.waiting, asking=SLOW) as chat:
            assert await chat.router.restore() == {7}, (
                "message 7 is reported: it may have run, so it is not run again"
            )
            assert not chat.receive("go on", seq=8)
        async with talk(tmp_path, keeper=store.waiting, asking=SLOW) as chat:
            assert await chat.router.restore() == set()


async def test_a_question_that_cannot_be_stored_is_still_asked(tmp_path: Path) -> None:
    async with Store.open(f"sqlite://{tmp_path}/db") as store:
        async with talk(tmp_path, keeper=store.waiting, asking=SLOW) as chat:
            assert await chat.say("/odd") == ["Odd?"]
            assert (await chat.say("yes"))[0].startswith("yes: <object")
            await chat.say("/delete cat")
            (chat.world.data_dir / "plugins" / "asking.py").unlink()
        async with talk(tmp_path, keeper=store.waiting, other=CODE) as chat:
            await chat.router.restore()
            assert not chat.receive("1"), "the plugin that asked is not loaded any more"
        assert await store.waiting.all("question") == []
