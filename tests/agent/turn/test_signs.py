"""People see that the bot is typing while it works on their answer, and that it has seen their
message."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import Delivery, DeliveryState, Receipt
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from tests.agent.bot import GROUP, LIN, answer, fence, running_bot, until
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE, call
from tests.delivery.outbound.test_chat_signs import SigningAdapter

SEEN = DeliverySettings(seen_emoji="👀")
LONG_S = 60.0
"""The platform shows for this many seconds that the bot is typing. The bot repeats the sign after
48 s, so a slow machine sees no more calls than a fast one."""


class Told:
    """A reply that ends when the test wants it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.may_end = anyio.Event()

    async def stream(self) -> AsyncIterator[str]:
        await self.may_end.wait()
        yield self.text


@pytest.mark.parametrize("settings", [AgentSettings(), TOOLS_MODE], ids=["code", "tools"])
async def test_the_bot_is_typing_from_the_request_to_the_model_until_the_answer(
    folder: Path, boxes: BoxCache, settings: AgentSettings
) -> None:
    told, adapter = Told("Good evening."), SigningAdapter(typing_s=LONG_S)
    model = ScriptedModel([ScriptedAnswer(chunks=told.stream())])
    async with running_bot(folder, boxes, model, settings=settings, adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("good evening")
            await adapter.until(1)
            assert adapter.typed == [(LIN, True)]
            assert bot.said() == []
            told.may_end.set()
        assert bot.said() == ["Good evening."]
        await adapter.until(2)
        assert adapter.typed == [(LIN, True), (LIN, False)]
        assert adapter.reactions == []  # nobody switched the reactions on


async def test_a_message_in_the_middle_of_a_turn_does_not_end_the_typing_state(
    folder: Path, boxes: BoxCache
) -> None:
    told, adapter = Told(answer("That is all.")), SigningAdapter(typing_s=LONG_S)
    first = Told(fence("send_channel_message('I am looking.')\nprint(6 * 7)"))
    model = ScriptedModel([ScriptedAnswer(chunks=each.stream()) for each in (first, told)])
    async with running_bot(folder, boxes, model, adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("look it up")
            await adapter.until(1)
            first.may_end.set()
            await until(lambda: len(model.requests) == 2)
            assert bot.said() == ["I am looking."]
            await adapter.until(2)  # again, since a message ends the typing state
            assert set(adapter.typed) == {(LIN, True)}
            told.may_end.set()
        await until(lambda: adapter.typed[-1] == (LIN, False))
        assert adapter.typed.count((LIN, False)) == 1


async def test_stopping_a_turn_ends_the_typing_state(folder: Path, boxes: BoxCache) -> None:
    told, adapter = Told("never said"), SigningAdapter(typing_s=LONG_S)
    model = ScriptedModel([ScriptedAnswer(chunks=told.stream())])
    async with running_bot(folder, boxes, model, adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("a long story")
            await adapter.until(1)
            assert await bot.sessions.stop(LIN)
        await adapter.until(2)
        assert adapter.typed == [(LIN, True), (LIN, False)]


async def test_a_line_of_the_system_shows_no_typing_and_gets_no_reaction(
    folder: Path, boxes: BoxCache
) -> None:
    adapter = SigningAdapter(typing_s=LONG_S)
    model = ScriptedModel([answer("Time for tea.")])
    async with running_bot(folder, boxes, model, adapter=adapter, delivery=SEEN) as bot:
        async with bot.turn():
            await bot.inbox.note(LIN, "The timer rings.", to_bot=True)
        assert bot.said() == ["Time for tea."]
        assert (adapter.typed, adapter.reactions) == ([], [])


async def test_the_bot_reacts_to_the_message_that_it_answers_and_to_no_other(
    folder: Path, boxes: BoxCache
) -> None:
    adapter = SigningAdapter(typing_s=LONG_S)
    model = ScriptedModel([answer("It is noon.")])
    async with running_bot(folder, boxes, model, adapter=adapter, delivery=SEEN) as bot:
        await bot.say("lunch, anyone?", GROUP, message_id="m1")
        async with bot.turn(GROUP):
            await bot.say("Nekro, what time is it?", GROUP, message_id="m2")
        assert bot.said(GROUP) == ["It is noon."]
        assert adapter.reactions == [("m2", "👀")]


async def test_a_platform_that_does_not_answer_calls_for_typing_does_not_delay_the_bots_answer(
    folder: Path, boxes: BoxCache
) -> None:
    adapter = SigningAdapter(typing_s=LONG_S)
    adapter.silent = True
    told = Told(answer("It is noon."))
    model = ScriptedModel([ScriptedAnswer(chunks=told.stream())])
    async with running_bot(folder, boxes, model, adapter=adapter, delivery=SEEN) as bot:
        try:
            with anyio.fail_after(60):
                async with bot.turn():
                    await bot.say("what time is it?")
                    await until(lambda: bool(adapter.typed and adapter.reactions))
                    told.may_end.set()
                assert bot.said() == ["It is noon."]
        finally:
            adapter.released.set()  # no call for a sign ended before the answer


PACED = DeliverySettings(pace_chars_s=50, pace_longest_s=0.5)


class TimedAdapter(SigningAdapter):
    """A platform that notes when each message arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: list[float] = []

    async def send(self, delivery: Delivery) -> Receipt:
        receipt = await super().send(delivery)
        self.arrived.append(anyio.current_time())
        return receipt


async def test_messages_of_several_steps_of_a_turn_come_at_the_pace_of_a_person(
    folder: Path, boxes: BoxCache
) -> None:
    adapter = TimedAdapter()
    beside = [call("send_channel_message", text=text) for text in ("x" * 5, "y" * 15)]
    more = [call("send_channel_message", text="z" * 100)]
    model = ScriptedModel(
        [ScriptedAnswer(calls=[*beside, call("no_such_function")]), ScriptedAnswer(calls=more)]
    )
    async with running_bot(
        folder, boxes, model, settings=TOOLS_MODE, adapter=adapter, delivery=PACED
    ) as bot:
        said = await bot.ask("three lines, please")
        assert said == ["x" * 5, "y" * 15, "z" * 100]
        first, second, third = adapter.arrived
        assert second - first >= 0.3, "15 characters at 50 characters a second take 0.3 s"
        assert third - second >= 0.5, "the message of the next step of the turn waits too"


async def test_a_new_question_does_not_cancel_a_message_that_the_pace_delays(
    folder: Path, boxes: BoxCache
) -> None:
    adapter = TimedAdapter()
    lines = [call("send_channel_message", text=text) for text in ("one", "t" * 100, "three")]
    model = ScriptedModel([ScriptedAnswer(calls=lines), ScriptedAnswer(chunks=["Yes."])])
    async with running_bot(
        folder, boxes, model, settings=TOOLS_MODE, adapter=adapter, delivery=PACED
    ) as bot:
        async with bot.turn():
            await bot.say("three lines, please")
            await until(lambda: len(adapter.arrived) == 1)
            await bot.say("are you there?")
        await until(lambda: len(adapter.arrived) == 4)
        assert bot.said() == ["one", "t" * 100, "three", "Yes."]


async def test_stop_drops_the_messages_that_the_pace_delays(folder: Path, boxes: BoxCache) -> None:
    adapter = TimedAdapter()
    lines = [call("send_channel_message", text=text) for text in ("one", "t" * 100, "three")]
    slow = DeliverySettings(pace_chars_s=1, pace_longest_s=30)
    model = ScriptedModel([ScriptedAnswer(calls=lines)])
    async with running_bot(
        folder, boxes, model, settings=TOOLS_MODE, adapter=adapter, delivery=slow
    ) as bot:
        async with bot.turn():
            await bot.say("three lines, please")
            await until(lambda: len(adapter.arrived) == 1)
            turn = await bot.last_turn()
            with anyio.fail_after(20):
                while len(await bot.store.deliveries.of_turn(turn.turn_id)) < 2:
                    await anyio.sleep(0.01)  # the row is there before the pause
            assert await bot.sessions.stop(LIN)
        assert bot.said()[0] == "one"
        assert "t" * 100 not in bot.said()
        assert "three" not in bot.said()
        rows = await bot.store.deliveries.of_turn(turn.turn_id)
        assert [row.state for row in rows[:2]] == [DeliveryState.SENT, DeliveryState.DROPPED]
