"""Statements run before the model has written the whole reply. The tests observe the order through
events. No test measures time."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import Delivery, DeliveryState, Receipt, plain_text
from nekro_core.llm.model import ReplyBroken
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.sandbox.box import RunLimits
from tests.agent.bot import GROUP, fence, kind_of, running_bot
from tests.agent.conftest import BoxCache
from tests.delivery.fakes import FakeAdapter


class Watched(FakeAdapter):
    """A platform that sets an event for each text that it receives."""

    def __init__(self) -> None:
        super().__init__(text_length=4000)
        self.heard: dict[str, anyio.Event] = {}
        self.behaviour = self._tell

    def event(self, text: str) -> anyio.Event:
        return self.heard.setdefault(text, anyio.Event())

    async def _tell(self, delivery: Delivery) -> Receipt:
        self.event(plain_text(delivery.segments)).set()
        return Receipt(state=DeliveryState.SENT, message_id=delivery.delivery_id)


async def test_a_message_is_sent_before_the_model_has_finished(
    folder: Path, boxes: BoxCache
) -> None:
    platform = Watched()
    order: list[str] = []

    async def reply() -> AsyncIterator[str]:
        yield "```python\nsend_channel_message('first')\nif 1:\n"
        with anyio.fail_after(30):
            await platform.event("first").wait()
        order.append("first was sent while the model wrote")
        yield "    send_channel_message('second')\nx"
        with anyio.fail_after(30):
            await platform.event("second").wait()
        order.append("second as soon as the next token stood in column 0")
        yield " = 1\n```\n"

    async with running_bot(folder, boxes, ScriptedModel([reply()]), adapter=platform) as bot:
        assert await bot.ask("go") == ["first", "second"]
        assert len(order) == 2


async def test_without_streaming_code_runs_when_the_reply_is_complete(
    folder: Path, boxes: BoxCache
) -> None:
    platform = Watched()

    async def reply() -> AsyncIterator[str]:
        yield "```python\nsend_channel_message('first')\n"
        await anyio.sleep(0.2)
        assert not platform.calls
        yield "send_channel_message('second')\n```"

    settings = AgentSettings(stream_code=False)
    model = ScriptedModel([reply()])
    async with running_bot(folder, boxes, model, adapter=platform, settings=settings) as bot:
        assert await bot.ask("go") == ["first", "second"]


async def test_an_error_of_a_statement_closes_the_request_and_the_unrun_end_of_the_reply_is_stored(
    folder: Path, boxes: BoxCache
) -> None:
    cut = anyio.Event()

    async def reply() -> AsyncIterator[str]:
        try:
            yield "```python\nsend_channel_message('one')\n1 / 0\nsend_channel_message('tw"
            await anyio.sleep_forever()
            yield "never"
        finally:
            cut.set()

    model = ScriptedModel([reply(), fence("send_channel_message('three')")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("go") == ["one", "three"]
        assert cut.is_set()
        assert model.open_streams == 0
        first, _ = await bot.store.turns.steps((await bot.last_turn()).turn_id)
        assert first.tail == "send_channel_message('tw"
        assert first.reply.endswith("send_channel_message('tw")
        assert first.estimated  # the provider sent no token count
        assert "ZeroDivisionError" in bot.prompt()
        assert "1 / 0\nsend_channel" not in bot.prompt()


@kind_of("agent")
async def think(_ctx: AgentCtx) -> str:
    """Think."""
    return "thought"


async def test_a_call_of_an_agent_tool_closes_the_request(folder: Path, boxes: BoxCache) -> None:
    async def reply() -> AsyncIterator[str]:
        yield "```python\nthink()\n"
        await anyio.sleep_forever()
        yield ""

    model = ScriptedModel([reply(), fence("send_channel_message('ok')")])
    async with running_bot(folder, boxes, model, tools=[think]) as bot:
        assert await bot.ask("go") == ["ok"]


async def test_waiting_for_the_model_does_not_count_against_the_time_limit_of_the_run(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [ScriptedAnswer(chunks=["```\nx = 1\n", 2.2, "send_channel_message('ok')\n```"])]
    )
    limits = RunLimits(seconds=2)
    async with running_bot(folder, boxes, model, run_limits=limits) as bot:
        assert await bot.ask("go") == ["ok"]


async def test_the_complete_statements_of_a_reply_that_breaks_off_run(
    folder: Path, boxes: BoxCache
) -> None:
    broken = ScriptedAnswer(
        chunks=["```python\nsend_channel_message('a')\nsend_channel_", ReplyBroken("reset")]
    )
    model = ScriptedModel([broken, fence("send_channel_message('b')")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("go") == ["a", "b"]
        assert "Your reply broke off in the middle." in bot.prompt()
        assert '+ sent: "a"' in bot.prompt()


async def test_a_text_reply_that_breaks_off_says_so(folder: Path, boxes: BoxCache) -> None:
    replies = [
        ScriptedAnswer(chunks=["Once upon a", ReplyBroken("reset")]),
        ScriptedAnswer(chunks=["从前有一个"], reason="length"),
    ]
    async with running_bot(folder, boxes, ScriptedModel(replies)) as bot:
        assert await bot.ask("tell me a story") == [
            "Once upon a\n\n(My answer broke off here: I lost the connection to my model.)"
        ]
        assert await bot.ask("换成中文讲给我听", GROUP, to_bot=True) == [
            "从前有一个\n\n（回答太长了，到这里为止。）"
        ]
        assert [turn.stop for turn in await bot.turns()] == ["finished"]


async def test_a_reply_cut_at_its_token_limit_does_not_run_half_a_statement(
    folder: Path, boxes: BoxCache
) -> None:
    cut = ScriptedAnswer(chunks=["```python\nx = 1\nsend_channel_message('no'"], reason="length")
    bad = ScriptedAnswer(chunks=["```python\nx = 1\nsend_channel_message('no')"], reason="length")
    model = ScriptedModel([cut, bad, fence("send_channel_message('yes')")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("go") == ["yes"]
        assert "too long and was cut off" in bot.prompt()
