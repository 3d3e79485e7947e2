"""Runs a turn in which the model calls functions natively instead of writing code.

Everything else is as in `Turn`. A step with calls leads to another step if the model must see their
results. Text of the model is sent to the chat. If the reply also has calls, the text is sent before
the calls are carried out. There is one exception: if the results of all calls only confirm what was
done, the text is sent after the calls, and it is not sent if one of these calls fails. A reply
without calls ends the turn. An empty reply ends the turn only if people have got an answer, or if
it is the second empty reply.
"""

import anyio
from loguru import logger

from nekro_core.agent.prompt.prompt import CallAnswer
from nekro_core.agent.prompt.transcript import shortened
from nekro_core.agent.turn.boxes import LAST_WORDS_S
from nekro_core.agent.turn.live_words import LiveWords
from nekro_core.agent.turn.native_calls import NativeCalls
from nekro_core.agent.turn.native_reply import NativeReader, NativeReply, calls_text
from nekro_core.agent.turn.plain_replies import is_silence
from nekro_core.agent.turn.recorder import SAID_BESIDE
from nekro_core.agent.turn.report import (
    DO_NOT_RESEND,
    NOBODY_HAS_SEEN,
    WORDS_UNSENT,
    json_call_report,
    native_empty_report,
    native_step_report,
)
from nekro_core.agent.turn.step_runner import StepRunner
from nekro_core.agent.turn.turn import Turn
from nekro_core.llm.model import ModelError, RequestRejected
from nekro_core.store import DeliveryRow

_SHOWN_RESULT = 2000
"""Maximum number of characters of each answer that are stored for people to read."""


class NativeTurn(Turn):
    """A `Turn` with native calls."""

    def _cannot_act_because(self) -> str:
        return ""  # Native calls need no box for code, and most need no file.

    async def _act(self, runner: StepRunner) -> str:
        reply = await self._read_reply(runner)
        if not reply.calls:
            return await self._decide_without_calls(reply, runner)
        held = self._are_words_held(reply, runner)
        beside = [] if held else await self._send_words_beside(reply, runner.words)
        answers = await self._carry_out(runner, reply)
        unsent = held and any(each.failed for each in answers)
        if held and not unsent:
            beside = await self._send_words_beside(reply, runner.words)
        sent = await self._recorder.sent_in_run(runner.run_id)
        answered = any(row.state in DO_NOT_RESEND for row in (*beside, *sent))
        self._replies.sent = self._replies.sent or answered
        if answered and reply.end == "whole" and all(each.ends for each in answers):
            return "finished"
        failed = all(each.failed for each in answers)
        more = self._next_reply_lines(failed=failed)
        if failed and not self._replies.sent:
            more.insert(0, NOBODY_HAS_SEEN)
        if unsent:
            more.insert(0, WORDS_UNSENT)
        report = native_step_report(reply, beside, more)
        self._context.add_native_step(reply.prose, tuple(answers), report)
        if failed:
            return await self._count_failure()
        self._failures = 0
        return ""

    async def _read_reply(self, runner: StepRunner) -> NativeReply:
        """Read the model's reply and record it, even if the reading is cancelled. The run and the
        step are stored before the first call, so that a restart knows the model's calls."""
        reader = NativeReader(
            runner.model,
            max_chars=self._settings.reply_chars,
            words=runner.words,
            on_text=runner.watch.first_token,
            on_end=runner.watch.reply_ended,
        )
        reply = await runner.read(reader)
        cost = runner.pay(reply.usage)
        if reply.calls:
            await (await runner.store_run(calls_text(reply.calls)))
        await runner.record_step(reader.text, "", cost)
        return reply

    async def _carry_out(self, runner: StepRunner, reply: NativeReply) -> list[CallAnswer]:
        """Carry out the calls of a reply. The end of the run is stored even if this method is
        cancelled."""
        step = runner.step
        functions = step.functions
        assert functions is not None, "a native turn's request offers functions"
        await self._files.put_uploads(self._context.media())
        calls = NativeCalls(
            runner.calls,
            runner.answer_call,
            lambda name: (
                step.tools.name_of(functions.names[name]) if name in functions.names else name
            ),
            at_once=self._settings.parallel_calls,
            result_chars=self._settings.result_chars,
        )
        began = self._services.clock()
        try:
            answers = await calls.carry_out(reply.calls)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await self._recorder.cut_run(runner.run_id, runner.calls)
            raise
        output = "\n".join(
            f"{each.call.name}: {shortened(each.text, _SHOWN_RESULT)}" for each in answers
        )
        seconds = self._services.clock() - began
        await self._recorder.end_calls(runner.run_id, runner.calls, output, seconds)
        return answers

    def _are_words_held(self, reply: NativeReply, runner: StepRunner) -> bool:
        """Return whether the text is sent after the calls, and only if none of them fails. This is
        so if the results of all calls only confirm what was done, because the text probably
        promises it, and if no word of the text has been sent yet."""
        functions = runner.step.functions
        if not reply.prose or functions is None or (runner.words and runner.words.run_id):
            return False
        called = (functions.names.get(each.name) for each in reply.calls)
        return all(tool is not None and tool.confirms for tool in called)

    async def _send_words_beside(
        self, reply: NativeReply, words: LiveWords | None
    ) -> list[DeliveryRow]:
        """Send the text of a reply with calls to the chat. If words of it were sent while the model
        wrote, send the rest. A text that is also an argument of a call is not sent, because the
        call sends it. Returns the delivery rows."""
        if words is not None and words.run_id:
            await self._replies.finish_live(words, stop=SAID_BESIDE)
            return await self._replies.live_rows(words)
        given = (value for call in reply.calls for value in call.arguments.values())
        if not reply.prose or any(reply.prose == str(value).strip() for value in given):
            return []
        before = len(await self._recorder.sent())
        await self._replies.send_prose(reply.prose, stop=SAID_BESIDE)
        return (await self._recorder.sent())[before:]

    async def _decide_without_calls(self, reply: NativeReply, runner: StepRunner) -> str:
        """Decide how the turn continues after a reply without calls. Text is sent, and it ends the
        turn. There are two exceptions: a text that says only that there is no reply is not sent,
        and after a text that is a call written as JSON another step follows. The stored run of the
        text shows the native calls that led to it. An empty reply ends the turn if people have got
        an answer, or if it is the second empty reply."""
        if reply.end == "whole" and is_silence(reply.prose):
            return "finished"
        if calls := self._json_calls(reply.prose, runner):
            report = json_call_report(calls, self._next_reply_lines(failed=True), natively=True)
            self._context.add_native_step(reply.prose, (), report)
            return await self._count_failure()
        words = runner.words
        if words is not None and words.run_id:
            code = calls_text(self._context.native_calls)
            await self._replies.finish_live(words, code=code, end=reply.end)
            return "finished"
        if reply.prose:
            code = calls_text(self._context.native_calls)
            await self._replies.send_prose(reply.prose, code=code, end=reply.end)
            return "finished"
        if stop := await self._count_empty_reply():
            return stop
        report = native_empty_report(reply.end, self._next_reply_lines())
        self._context.add_native_step("", (), report)
        self._context.note_empty(reply.end)
        return ""

    async def _end_without_model(self, error: ModelError) -> str:
        if isinstance(error, RequestRejected):
            logger.error("if the model does not accept function calls, set NEKRO_AGENT__MODE=code")
        return await super()._end_without_model(error)
