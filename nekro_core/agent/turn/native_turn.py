"""A turn in which the model calls functions natively, instead of writing code.

Everything around a step is that of `Turn`. A step with calls leads to another one where the model
has to see what came of them. Words always go to the chat, those beside calls first; words without
calls, or nothing at all, end the turn.
"""

import anyio
from loguru import logger

from nekro_core.agent.prompt.prompt import CallAnswer
from nekro_core.agent.prompt.transcript import shortened
from nekro_core.agent.turn.context import TurnRequest
from nekro_core.agent.turn.native_calls import NativeCalls
from nekro_core.agent.turn.native_reply import NativeReader, NativeReply, calls_text
from nekro_core.agent.turn.ports import Ports
from nekro_core.agent.turn.prepared_step import PreparedStep, PreparedTurn
from nekro_core.agent.turn.recorder import SAID_BESIDE, TurnRecorder
from nekro_core.agent.turn.report import DO_NOT_RESEND, native_empty_report, native_step_report
from nekro_core.agent.turn.run_calls import RunCalls
from nekro_core.agent.turn.turn import LAST_WORDS_S, Turn
from nekro_core.llm.model import ModelError, RequestRejected
from nekro_core.store import DeliveryRow

_SHOWN_RESULT = 2000
"""Characters of each answer that are kept for people to read."""


class NativeTurn(Turn):
    """See `Turn`."""

    def __init__(
        self, ports: Ports, task: TurnRequest, book: TurnRecorder, ready: PreparedTurn | None = None
    ) -> None:
        super().__init__(ports, task, book, ready)
        self._called: list[str] = []
        """The calls so far, as people read them behind the answer that they led to."""

    def _no_code_because(self) -> str:
        return ""  # there is none, and most calls want no file

    async def _act(self, asking: PreparedStep, calls: RunCalls) -> str:
        reply = await self._read_reply(asking)
        if not reply.calls:
            return await self._after_prose(reply)
        beside = await self._say_beside(reply)
        answered = await self._carry_out(asking, reply, calls)
        sent = await self._book.sent_in_run(asking.run_id)
        left = any(row.state in DO_NOT_RESEND for row in (*beside, *sent))
        self._sent = self._sent or left
        if left and reply.end == "whole" and all(each.ends for each in answered):
            return "finished"
        self._known.add_calls(reply.prose, tuple(answered), native_step_report(reply, beside))
        self._failures = self._failures + 1 if all(each.failed for each in answered) else 0
        if self._failures > self._settings.max_repairs:
            await self._say("limit.repairs", limit=self._settings.max_repairs)
            return "limit_repairs"
        return ""

    async def _read_reply(self, asking: PreparedStep) -> NativeReply:
        """The model's reply, written down in any case."""
        request = asking.request
        reader = NativeReader(self._manner.model, max_chars=self._ports.settings.turn.reply_chars)
        started, began = self._ports.wall(), self._ports.clock()
        try:
            reply = await reader.read(request)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                if reader.text:
                    spent = self._cost(reader.usage(request), started, began)
                    await self._book.end_step("", reader.text, spent)
            raise
        spent = self._cost(reply.usage, started, began)
        self._limits.spend(spent.usage, spent.money)
        if not reply.calls:
            await self._book.end_step(reader.text, "", spent)
            return reply
        # Run and step are there before the first call: a restart must know what was asked for.
        self._called.append(calls_text(reply.calls))
        await self._book.begin_run(asking.run_id, self._called[-1])
        await self._book.end_step(reader.text, "", spent)
        return reply

    async def _carry_out(
        self, asking: PreparedStep, reply: NativeReply, calls: RunCalls
    ) -> list[CallAnswer]:
        """Every call of a reply. The run is closed in any case."""
        functions = asking.functions
        assert functions is not None, "a native turn's request offers functions"
        self._known.runs.add(asking.run_id)
        await self._files.put_uploads(self._known.media)
        native = NativeCalls(
            calls,
            lambda name: (
                asking.tools.name_of(functions.names[name]) if name in functions.names else name
            ),
            at_once=self._settings.parallel_calls,
            result_chars=self._settings.result_chars,
        )
        began = self._ports.clock()
        try:
            answered = await native.carry_out(reply.calls)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await self._book.cut_run(asking.run_id, calls)
            raise
        output = "\n".join(
            f"{each.call.name}: {shortened(each.text, _SHOWN_RESULT)}" for each in answered
        )
        await self._book.end_calls(asking.run_id, calls, output, self._ports.clock() - began)
        return answered

    async def _say_beside(self, reply: NativeReply) -> list[DeliveryRow]:
        """Words beside calls go to the chat before them, but for words that a call sends itself.
        What became of them."""
        given = (value for call in reply.calls for value in call.arguments.values())
        if not reply.prose or any(reply.prose == str(value).strip() for value in given):
            return []
        before = len(await self._book.sent())
        await self._send_prose(reply.prose, SAID_BESIDE)
        return (await self._book.sent())[before:]

    async def _after_prose(self, reply: NativeReply) -> str:
        """A reply without calls ends the turn, if anybody has got an answer."""
        if reply.prose:
            return await self._send_prose(reply.prose, code="\n".join(self._called), end=reply.end)
        if self._sent:
            return "finished"
        self._empty += 1
        if self._empty > 1:
            await self._say("turn.empty_reply")
            return "empty_reply"
        self._known.add_calls("", (), native_empty_report(reply.end))
        return ""

    async def _tell_of(self, error: ModelError) -> str:
        if isinstance(error, RequestRejected):
            logger.error("a model that takes no function calls needs NEKRO_AGENT__MODE=code")
        return await super()._tell_of(error)
