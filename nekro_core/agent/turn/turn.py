"""Runs a turn, from the record that woke it until the agent has no more to do.

A `Turn` takes one step after another. Its `TurnContext` collects the turn's data. Before each step,
`prepare_step` writes the request to the model from this data and returns a `PreparedStep`. Then a
`StepRunner` asks the model, runs the model's code, and records both. `Turn._decide` reads the
results of the step and decides whether another step follows.
"""

import anyio
from loguru import logger

from nekro_core.agent.prompt.quoting import PromptLines
from nekro_core.agent.shown.watch import StepWatch
from nekro_core.agent.turn.already_sent import DeduplicatingSender, was_answered
from nekro_core.agent.turn.boxes import LazyBox, TurnBox
from nekro_core.agent.turn.context import TurnContext, TurnRequest
from nekro_core.agent.turn.live_words import LiveWords
from nekro_core.agent.turn.long_texts import BoundedText, bounded_text
from nekro_core.agent.turn.new_lines import MOST_RESTARTS, AskerWroteAgain, NewLines
from nekro_core.agent.turn.plain_replies import SILENT_CODE, is_silence, json_calls
from nekro_core.agent.turn.prepared_step import PreparedStep, PreparedTurn, prepare_step
from nekro_core.agent.turn.python_text import is_no_op
from nekro_core.agent.turn.recorder import SAID_PART, TurnRecorder
from nekro_core.agent.turn.remedies import next_reply_lines, remedy_line
from nekro_core.agent.turn.replies import TurnReplies
from nekro_core.agent.turn.reply import ModelReply
from nekro_core.agent.turn.report import (
    DO_NOT_RESEND,
    StepOutcome,
    done_lines,
    empty_report,
    json_call_report,
    sent_lines,
    step_report,
)
from nekro_core.agent.turn.run_calls import RunCalls
from nekro_core.agent.turn.services import TurnServices
from nekro_core.agent.turn.step_runner import StepRunner
from nekro_core.chat import Author
from nekro_core.delivery.outbound.chat_signs import TypingState
from nekro_core.llm.chain import reason_of
from nekro_core.llm.model import (
    ChatModel,
    FunctionCall,
    ModelError,
    NoModelAnswered,
)
from nekro_core.policy.limits import LimitExceeded, Limits, turn_limits
from nekro_core.policy.quotas import day_limits
from nekro_core.sandbox.box import (
    BackendUnavailable,
    BoxesFull,
    StopReason,
)
from nekro_core.store import DeliveryRow


class Turn:
    """One turn. `run` must be called only once. The caller must pass the word that `run` returns to
    ``recorder.end``. ``prepared`` is the first step, if it was prepared before the turn."""

    def __init__(
        self,
        services: TurnServices,
        request: TurnRequest,
        recorder: TurnRecorder,
        prepared: PreparedTurn | None = None,
    ) -> None:
        self._services = services
        self._settings = services.settings.turn
        self._request = request
        self._recorder = recorder
        self._model = services.policies.of(request.chat_key).model
        self._limits = Limits(turn_limits(self._settings, services.clock))
        self._context = prepared.context if prepared else TurnContext(services, request)
        self._files = prepared.files if prepared else LazyBox(services.boxes, request.chat_key)
        self._prepared_step = prepared.step if prepared else None
        self._box = TurnBox(services.boxes, request.chat_key)
        self._replies = TurnReplies(services, self._context, recorder, self._box)
        self._typing = self._typing_state()
        self._failures = 0
        self._empty_replies = 0
        self._restarts = 0
        self._steps = 0
        """The number of steps so far, including the running step."""
        self._output = self._output_code = ""
        self._repeats = 0
        self._was_warned_of_silence = False

    async def run(self) -> str:
        """Take steps until the agent has no more to do or a limit is reached. Returns in one word
        why the turn ended."""
        if self._request.resumed and await self._resume():
            return "finished"
        stop = "limit_seconds"
        try:
            with anyio.move_on_after(self._settings.max_seconds):
                stop = await self._take_steps()
            if stop == "limit_seconds":
                limit = f"{self._settings.max_seconds:g}"
                await self._replies.notify("limit.seconds", limit=limit)
        finally:
            self._end_typing()
            await self._box.close()
            await self._files.close()
        return stop

    def _typing_state(self) -> TypingState | None:
        """Return the state that shows people that the bot is typing. Return None if a system line
        woke the turn: nobody waits for it, and it often ends without an answer."""
        signs, request = self._services.signs, self._request
        if signs is None or request.trigger_record.author is not Author.PERSON:
            return None
        return signs.typing(request.chat_key)

    def _show_typing(self) -> None:
        if self._typing is not None:
            self._typing.show()

    def _end_typing(self) -> None:
        if self._typing is not None:
            self._typing.end()

    async def _resume(self) -> bool:
        """Read from the store what the earlier process did in this turn. Returns whether the turn
        had already answered."""
        turn_id, store = await self._recorder.turn_id(), self._services.store
        await self._recorder.continue_after(await store.turns.steps(turn_id))
        runs = await store.runs.of_turn(turn_id)
        await store.runs.close_interrupted(turn_id)
        sent = await self._replies.recover_live(runs, await self._recorder.sent())
        self._replies.outgoing = DeduplicatingSender(self._services.outbox, sent)
        self._replies.sent = any(row.state in DO_NOT_RESEND for row in sent)
        self._context.runs = {run.run_id for run in runs}
        if not runs:
            return False
        done = [(run, await store.runs.calls(run.run_id)) for run in runs]
        note = "[note] A restart interrupted you. Answer now, unless it is done."
        self._context.preface = PromptLines((note, *done_lines(done), *sent_lines(sent)))
        return was_answered(runs, sent)

    async def _take_steps(self) -> str:
        if reason := self._cannot_act_because():
            logger.error("no code can run for {}: {}", self._request.chat_key, reason)
            await self._replies.notify("turn.no_backend")
            return "no_backend"
        asker = self._request.trigger_record.sender.user_id
        self._limits.add(*await day_limits(self._services, self._request.chat_key, asker))
        while True:
            try:
                self._limits.check()
            except LimitExceeded as error:
                await self._replies.notify(f"limit.{error.kind}", limit=f"{error.limit:g}")
                return f"limit_{error.kind}"
            try:
                stop = await self._take_step()
            except AskerWroteAgain:
                await self._wait_for_the_asker()
                continue
            except ModelError as error:
                return await self._end_without_model(error)
            if stop:
                return stop

    def _cannot_act_because(self) -> str:
        """Return why no code can run; empty if no reason is known before the model is asked."""
        return self._services.boxes.unavailable

    async def _take_step(self) -> str:
        """Ask the model once and run its code. Returns why the turn ended; empty if it
        continues."""
        watch = StepWatch(self._services.describer, self._services.clock, self._services.wall)
        step = await self._next_step()
        await self._recorder.mark_shown(self._context.through_seq)
        runner = StepRunner(
            self._services,
            step,
            context=self._context,
            recorder=self._recorder,
            model=self._model_of_step(),
            limits=self._limits,
            box=self._box,
            watch=watch,
            new_lines=self._new_lines(),
            words=self._replies.live_words(natively=step.functions is not None),
            may_be_empty=self._replies.sent,
        )
        self._steps += 1
        self._show_typing()
        try:
            return await self._act(runner)
        except AskerWroteAgain:
            self._steps -= 1
            raise
        except ModelError as error:
            if isinstance(error, NoModelAnswered):
                watch.chosen("", error.passed)
            await self._recorder.end_without_reply(watch, step.sources, str(error))
            raise

    def _new_lines(self) -> NewLines | None:
        """Return the asker's new lines if they may still restart a step of this turn; otherwise
        None."""
        restarts = self._settings.new_line == "restart" and self._restarts < MOST_RESTARTS
        return self._request.new_lines if restarts else None

    async def _wait_for_the_asker(self) -> None:
        """Wait until the asker has stopped typing. The model is asked again only then."""
        self._restarts += 1
        assert self._request.new_lines is not None, "nothing else drops a reply"
        trigger = self._services.policies.of(self._request.chat_key).trigger
        await self._request.new_lines.pause(trigger.debounce_s, trigger.longest_wait_s)

    def _model_of_step(self) -> ChatModel:
        """Return the chat's model, or a cheaper one if little of a daily budget is left."""
        return self._services.policies.saving_model(self._limits.day_share_left) or self._model

    async def _next_step(self) -> PreparedStep:
        step, self._prepared_step = self._prepared_step, None
        if step is not None and step.is_current(self._services):
            return step
        outgoing = self._replies.outgoing if self._request.resumed else None
        return await prepare_step(self._services, self._context, self._files, outgoing)

    async def _act(self, runner: StepRunner) -> str:
        """Ask the model, run its code, and decide how the turn continues. Returns the same as
        `_take_step`."""
        reply = await runner.run()
        # Results that were noted in the chat's history need not be in the output too: the next
        # prompt shows the history.
        reply = reply.without_lines(runner.calls.recorded)
        if not reply.statements:
            return await self._decide_without_code(reply, runner)
        return await self._decide(reply, runner)

    async def _decide(self, reply: ModelReply, runner: StepRunner) -> str:
        """Decide how the turn continues after a reply with code. Returns why the turn ended; empty
        if another step follows."""
        calls, sent = runner.calls, await self._recorder.sent_in_run(runner.run_id)
        answered = any(row.state in DO_NOT_RESEND for row in sent)
        self._replies.sent = self._replies.sent or answered
        said = await self._end_words_before_code(runner.words)
        silent = self._is_silent(reply, calls)
        finished = reply.result is not None and reply.result.stop is StopReason.FINISHED
        failed = not calls.observed and not (finished and reply.end == "whole")
        outcome = StepOutcome(
            output=await self._bounded_output(reply, runner.run_id),
            sent=[*said, *sent],
            said=bool(said),
            seen=self._replies.sent,
            again=bool(reply.shows) and reply.shows == self._output,
            nothing=silent,
            more=[*self._remedy(reply, runner), *self._next_reply_lines(failed=failed)],
        )
        self._context.add_step(reply, step_report(reply, calls, outcome))
        if isinstance(reply.box_error, BackendUnavailable):
            full = isinstance(reply.box_error, BoxesFull)
            await self._replies.notify("turn.boxes_full" if full else "turn.no_backend")
            return "no_backend"
        if calls.observed:
            self._failures = 0
            return ""
        if failed:
            return await self._count_failure()
        self._failures = 0
        if calls.unread:
            return ""  # The model searched for tools and has not seen the result yet.
        if silent and not self._was_warned_of_silence:
            self._was_warned_of_silence = True
            return ""
        prose = reply.prose
        if said and runner.words is not None:
            answered = answered or runner.words.repeated
            prose = prose.removeprefix(runner.words.sent).strip()
        return await self._decide_by_output(reply, prose, answered=answered)

    async def _bounded_output(self, reply: ModelReply, run_id: str) -> BoundedText:
        """Return what the code printed, for the model. Long output is written to a file in the
        box."""
        output = reply.result.output if reply.result is not None else ""

        async def write(path: str, data: bytes) -> None:
            await (await self._box.open()).box.write_file(path, data)

        name = f"{run_id[:8]}.txt"
        return await bounded_text(output, self._settings.output_chars, name, write)

    def _remedy(self, reply: ModelReply, runner: StepRunner) -> list[str]:
        """Return a line about what the model can do about an error, if anything is known."""
        seconds = self._services.run_limits.seconds
        has_shell = runner.step.tools.resolve("shell") is not None
        sandbox = self._services.sandbox()
        line = remedy_line(reply, seconds=seconds, has_shell=has_shell, sandbox=sandbox)
        return [line] if line else []

    def _next_reply_lines(self, *, failed: bool = False) -> list[str]:
        """Return what the model must know about its next reply. ``failed`` says that the last step
        failed."""
        return next_reply_lines(
            last_step=self._steps + 1 == self._settings.max_steps,
            last_repair=failed and self._failures + 1 == self._settings.max_repairs,
        )

    async def _count_failure(self) -> str:
        self._failures += 1
        if self._failures <= self._settings.max_repairs:
            return ""
        await self._replies.notify("limit.repairs", limit=self._settings.max_repairs)
        return "limit_repairs"

    def _is_silent(self, reply: ModelReply, calls: RunCalls) -> bool:
        """Return True if code finished without any effect for people or the model. This means: the
        turn has sent no message, the code noted and printed nothing, and the reply has no text.
        Code that is only ``pass`` gives False, because with it the model intends to do nothing."""
        acted = self._replies.sent or reply.prose or calls.recorded
        finished = reply.result is not None and reply.result.stop is StopReason.FINISHED
        return finished and not acted and not reply.shows and not is_no_op(reply.code)

    async def _end_words_before_code(self, words: LiveWords | None) -> list[DeliveryRow]:
        """Store that words which were sent before a block of code are complete. Returns their
        rows."""
        rows = await self._replies.live_rows(words)
        if words is not None and words.run_id:
            await self._recorder.end_words(words.run_id, SAID_PART)
        return rows

    async def _decide_by_output(self, reply: ModelReply, prose: str, *, answered: bool) -> str:
        """Decide how the turn continues after finished code. If the code printed something, another
        step follows. There are two exceptions: the same code printed the same text in the previous
        step, or the last three steps printed the same text. ``prose`` are the words that were not
        sent. ``answered`` says whether the code sent a message. Returns the same as
        `_take_step`."""
        output_before, code_before = self._output, self._output_code
        self._output, self._output_code = reply.shows, reply.code.strip()
        self._repeats = self._repeats + 1 if self._output == output_before else 0
        loops = self._repeats > 1 or (self._repeats and self._output_code == code_before)
        if self._output and not loops:
            return ""
        if answered:
            return "finished"
        if prose:
            await self._replies.send_prose(prose)
        elif self._output and not self._replies.sent:
            await self._replies.notify("turn.failed")
            return "same_output"
        return "finished"

    async def _decide_without_code(self, reply: ModelReply, runner: StepRunner) -> str:
        """Decide how the turn continues after a reply without code. Returns the same as
        `_take_step`."""
        if reply.end == "whole" and (is_silence(reply.prose) or reply.prose == SILENT_CODE):
            return "finished"
        if calls := self._json_calls(reply.prose, runner):
            more = self._next_reply_lines(failed=True)
            self._context.add_step(reply, json_call_report(calls, more, natively=False))
            return await self._count_failure()
        if runner.words is not None and runner.words.run_id:
            await self._replies.finish_live(runner.words, end=reply.end)
            return "finished"
        if reply.prose:
            await self._replies.send_prose(reply.prose, end=reply.end)
            return "finished"
        if reply.end == "whole" and reply.text.strip() and is_no_op(reply.text):
            return "finished"
        if stop := await self._count_empty_reply():
            return stop
        self._context.add_empty_step(reply, empty_report(reply.end, self._next_reply_lines()))
        return ""

    def _json_calls(self, prose: str, runner: StepRunner) -> list[FunctionCall]:
        """Return the calls if a reply is only calls written as JSON; otherwise an empty list."""
        tools = runner.step.tools
        return json_calls(prose, lambda name: tools.resolve(name) is not None)

    async def _count_empty_reply(self) -> str:
        if self._replies.sent:
            return "finished"
        self._empty_replies += 1
        if self._empty_replies <= 1:
            return ""
        await self._replies.notify("turn.empty_reply")
        return "empty_reply"

    async def _end_without_model(self, error: ModelError) -> str:
        """End the turn after an error of the model. The chat gets a notice; the log gets the
        reason."""
        logger.error("the model did not answer {}: {}", self._request.chat_key, error)
        if isinstance(error, NoModelAnswered):
            await self._replies.notify_no_model(error.passed)
            return "model_chain"
        kind = reason_of(error)
        await self._replies.notify(f"model.{kind}")
        return f"model_{kind}"
