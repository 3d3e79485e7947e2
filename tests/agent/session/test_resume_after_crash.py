"""The next process finishes the work of a killed process. Nothing is sent twice, and a turn is
resumed only a limited number of times."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, plain_text
from nekro_core.llm.model import ChatRequest
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store.database import SqlStatement
from tests.agent.bot import GROUP, LIN, answer, fence, running_bot, until
from tests.agent.conftest import BoxCache
from tests.delivery.fakes import FakeAdapter


class Severed(FakeAdapter):
    """A platform that never answers when the message "two" is sent. The process ends before an
    answer."""

    def __init__(self) -> None:
        super().__init__(text_length=4000)
        self.reached = anyio.Event()

    async def send(self, delivery: Delivery) -> Receipt:
        if plain_text(delivery.segments) == "two":
            self.reached.set()
            await anyio.sleep_forever()
        return await super().send(delivery)


async def test_messages_that_were_stored_but_not_answered_get_a_turn_after_a_restart(
    folder: Path, boxes: BoxCache
) -> None:
    trigger = TriggerSettings(debounce_s=60)
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=trigger) as bot:
        await bot.say("are you there?")
        await bot.say("just talk", GROUP)
    model = ScriptedModel([answer("here")])
    async with running_bot(folder, boxes, model, recover=True) as bot:
        await until(lambda: bool(bot.said()))
        await bot.settled()
        assert bot.said() == ["here"]
        assert bot.said(GROUP) == []
    async with running_bot(folder, boxes, ScriptedModel([]), recover=True) as bot:
        await anyio.sleep(0.1)
        assert bot.said() == []


async def test_a_system_line_from_before_a_restart_wakes_the_agent_after_it(
    folder: Path, boxes: BoxCache
) -> None:
    trigger = TriggerSettings(debounce_s=60)
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=trigger) as bot:
        await bot.journal.note(GROUP, "it is four o'clock", trigger=True)
    async with running_bot(folder, boxes, ScriptedModel([answer("tea")]), recover=True) as bot:
        await until(lambda: bool(bot.said(GROUP)))
        await bot.settled()
        assert bot.said(GROUP) == ["tea"]
        assert " system NEW wakes you\n> it is four o'clock" in bot.prompt()
    async with running_bot(folder, boxes, ScriptedModel([]), recover=True) as bot:
        await anyio.sleep(0.1)
        assert bot.said(GROUP) == []


async def test_an_interrupted_turn_goes_on_and_sends_nothing_twice(
    folder: Path, boxes: BoxCache
) -> None:
    both = fence("send_channel_message('one')\nsend_channel_message('two')\nprint(1)")
    platform = Severed()
    async with running_bot(folder, boxes, ScriptedModel([both]), adapter=platform) as bot:
        await bot.say("count")
        await platform.reached.wait()
        # The process ends here, in the middle of the second send.
    assert [plain_text(segments) for segments in platform.said()] == ["one"]

    # The model writes the same code again. The messages that were sent before are not sent again.
    more = fence("send_channel_message('one')\nsend_channel_message('two')\n")[:-3]
    model = ScriptedModel([more + "send_channel_message('three')\n```"])
    async with running_bot(folder, boxes, model, recover=True) as bot:
        await until(lambda: bool(bot.said()))
        await bot.settled()
        assert bot.said() == ["three"]
        assert '+ sent: "one"' in bot.prompt()
        assert '+ unknown whether it arrived: "two"' in bot.prompt()
        turn = await bot.last_turn()
        assert (turn.stop, turn.attempts) == ("finished", 2)
        states = [row.state for row in await bot.store.deliveries.of_turn(turn.turn_id)]
        assert states == [DeliveryState.SENT, DeliveryState.UNKNOWN, DeliveryState.SENT]


@pytest.mark.parametrize("acts", [True, False])
async def test_a_turn_is_given_up_if_the_process_crashes_many_times(
    folder: Path, boxes: BoxCache, acts: bool
) -> None:
    async def reply() -> AsyncIterator[str]:
        await anyio.sleep_forever()
        yield ""

    for recover in (False, True):
        model = ScriptedModel([reply()])
        async with running_bot(folder, boxes, model, recover=recover) as bot:
            if not recover:
                await bot.say("go")
            await until(lambda: len(model.requests) == 1)  # noqa: B023
            # The bot asks the model without waiting for the commit of the turn's row.
            while not await bot.turns():
                await anyio.sleep(0.005)
            # Make the store look as if the process had crashed many times, either after a run of
            # the turn (``acts``) or before the turn's first run.
            for number in range(5 if acts else 18) if recover else ():
                turn = await bot.last_turn()
                if acts:
                    await bot.store.runs.begin(str(number), LIN, code="x", turn_id=turn.turn_id)
                else:
                    await bot.store.turns.resume(turn.turn_id)
    async with running_bot(folder, boxes, ScriptedModel([]), recover=True) as bot:
        await until(lambda: bool(bot.said()))
        assert bot.said() == [
            "I could not get this to work. Please try again, or say it in another way."
        ]
        assert (await bot.last_turn()).stop == "given_up"


@pytest.mark.parametrize("stopped", [False, True])
async def test_turns_that_were_cut_off_twice_run_one_after_another(
    folder: Path, boxes: BoxCache, stopped: bool
) -> None:
    """One of these turns may have caused the crashes. If the turns ran at the same time, each
    further crash would use up one attempt of every turn."""
    chats = [ChatKey.parse(f"fake-private_{name}") for name in ("mei", "ken", "ann")]
    asked: list[str] = []
    go_on = anyio.Event()

    async def patient(name: str) -> AsyncIterator[str]:
        asked.append(name)
        await go_on.wait()
        yield f"hello {name}"

    def reply(request: ChatRequest) -> AsyncIterator[str] | str:
        name = next(chat for chat in chats if f"I am {chat.native_id}" in str(request)).native_id
        return "hello ann" if name == "ann" else patient(name)

    async with running_bot(folder, boxes, ScriptedModel(reply)) as bot:
        for chat in chats[:2]:
            await bot.say(f"I am {chat.native_id}", chat, user=chat.native_id)
        await until(lambda: sorted(asked) == ["ken", "mei"])
        for chat in chats[:2]:
            # The bot asks the model without waiting for the commit of the turn's row.
            while not await bot.turns(chat):
                await anyio.sleep(0.005)
            turn = await bot.last_turn(chat)
            for number in range(2):
                await bot.store.runs.begin(f"{chat}{number}", chat, code="x", turn_id=turn.turn_id)
    asked.clear()
    async with running_bot(folder, boxes, ScriptedModel(reply), recover=True) as bot:
        await until(lambda: len(asked) == 1)
        assert await bot.ask("I am ann", chats[2], user="ann") == ["hello ann"]
        assert len(asked) == 1, "only one of the turns may run at a time"
        waits = next(chat for chat in chats[:2] if chat.native_id not in asked)
        if stopped:
            assert await bot.ask("/stop", waits, user=waits.native_id) == ["Stopped."]
            assert (await bot.last_turn(waits)).stop == "stopped"
        go_on.set()
        await until(lambda: len(bot.said(chats[0]) + bot.said(chats[1])) == 2)
        await bot.settled(waits)
        await bot.say(f"I am {waits.native_id} again", waits, user=waits.native_id)
        hello = f"hello {waits.native_id}"
        await until(lambda: bot.said(waits) == ["Stopped." if stopped else hello, hello])
        assert len(asked) == (2 if stopped else 3)


@pytest.mark.parametrize("attempts", [1, 20])
async def test_words_that_were_sent_before_the_crash_are_not_sent_again(
    folder: Path, boxes: BoxCache, attempts: int
) -> None:
    """After too many attempts the turn is closed, and the chat is not told that the turn failed."""
    async with running_bot(folder, boxes, ScriptedModel(["Hello!"])) as bot:
        await bot.ask("hi")
        turn = await bot.last_turn()
        # Make the store look as if the process had died after the send and before the end of the
        # turn was stored.
        reopen = "UPDATE turns SET running_chat = chat_key, ended = 0, attempts = ? WHERE id = ?"
        await bot.store.turns._database.write(SqlStatement(reopen, (attempts, turn.turn_id)))
    model = ScriptedModel([])
    async with running_bot(folder, boxes, model, recover=True) as bot:
        await bot.settled()
        assert (await bot.last_turn()).stop == "finished"
        assert bot.said() == []
        assert model.requests == []
