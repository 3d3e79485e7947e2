"""Runs a turn, from the record that woke it until the agent has no more to do.

A `Turn` takes one step after another. Its `TurnContext` collects the turn's data. Before each step,
`prepare_step` writes the request to the model from this data and returns a `PreparedStep`. Then a
`StepRunner` asks the model, runs the model's code, and records both. `Turn._decide` reads the
results of the step and decides whether another step follows.
"""

from collections.abc import Awaitable
from dataclasses import replace

import anyio
from loguru import logger

from nekro_core.agent.prompt.quoting import PromptLines
from nekro_core.agent.shown.watch import StepWatch
from nekro_core.agent.turn.already_sent import DeduplicatingSender, was_answered
from nekro_core.agent.turn.boxes import LAST_WORDS_S, LazyBox, TurnBox
from nekro_core.agent.turn.context import TurnContext, TurnRequest
from nekro_core.agent.turn.prepared_step import PreparedStep, PreparedTurn, prepare_step
from nekro_core.agent.turn.python_text import is_call, is_no_op
from nekro_core.agent.turn.recorder import StepCost, TurnRecorder
from nekro_core.agent.turn.replies import TurnReplies
from nekro_core.agent.turn.reply import ModelReply, ReplyReader
from nekro_core.agent.turn.report import (
    DO_NOT_RESEND,
    done_lines,
    empty_report,
    sent_lines,
    step_report,
)
from nekro_core.agent.turn.run_calls import CallResult, RunCalls, guest_functions
from nekro_core.agent.turn.services import TurnServices
from nekro_core.agent.turn.step_failover import StepFailover
from nekro_core.llm.chain import reason_of
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    ModelError,
    ModelProfile,
    NoModelAnswered,
    RequestUsage,
)
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.policy.limits import LimitExceeded, Limits, turn_limits
from nekro_core.policy.quotas import day_limits
from nekro_core.sandbox.box import (
    Answer,
    BackendUnavailable,
    BoxesFull,
    GuestCall,
    GuestValue,
    Run,
    StopReason,
)


class Turn:
    """One turn. `run` must be called only once. The caller must end ``recorder`` with the word that
    `run` returns. ``prepared`` is the first step, if it was prepared before."""

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
        self._failures = 0
        self._empty_replies = 0
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
            await self._box.close()
            await self._files.close()
        return stop

    async def _resume(self) -> bool:
        """Read from the store what the earlier process did in this turn. Returns whether the turn
        had already answered."""
        turn_id, store = await self._recorder.turn_id(), self._services.store
        await self._recorder.continue_after(await store.turns.steps(turn_id))
        runs = await store.runs.of_turn(turn_id)
        await store.runs.close_interrupted(turn_id)
        sent = await self._recorder.sent()
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
            may_be_empty=self._replies.sent,
        )
        try:
            return await self._act(runner)
        except ModelError as error:
            if isinstance(error, NoModelAnswered):
                watch.chosen("", error.passed)
            await self._recorder.end_without_reply(watch, step.sources, str(error))
            raise

    def _model_of_step(self) -> ChatModel:
        """Return the chat's model, or a cheaper one if little of a daily budget is left."""
        return self._services.policies.saving_model(self._limits.day_share_left) or self._model

    async def _next_step(self) -> PreparedStep:
        step, self._prepared_step = self._prepared_step, None
        if step is not None and step.is_current(self._services):
            return step
        outgoing = self._replies.outgoing if self._request.resumed else None
        return await prepare_step(self._services, self._context, self._files, outgoing)

    async def _act(self, runner: "StepRunner") -> str:
        """Ask the model, run its code, and decide how the turn continues. Returns the same as
        `_take_step`."""
        reply = await runner.run()
        # The next prompt shows these results in the chat's history.
        reply = reply.without_lines(runner.calls.recorded)
        if not reply.statements:
            return await self._decide_without_code(reply)
        return await self._decide(reply, runner)

    async def _decide(self, reply: ModelReply, runner: "StepRunner") -> str:
        """Decide how the turn continues after a reply with code. Returns why the turn ended; if
        empty, another step follows."""
        calls, sent = runner.calls, await self._recorder.sent_in_run(runner.run_id)
        answered = any(row.state in DO_NOT_RESEND for row in sent)
        self._replies.sent = self._replies.sent or answered
        again = bool(reply.shows) and reply.shows == self._output
        silent = self._is_silent(reply, calls)
        self._context.add_step(reply, step_report(reply, calls, sent, again=again, nothing=silent))
        if isinstance(reply.box_error, BackendUnavailable):
            full = isinstance(reply.box_error, BoxesFull)
            await self._replies.notify("turn.boxes_full" if full else "turn.no_backend")
            return "no_backend"
        if calls.observed:
            self._failures = 0
            return ""
        finished = reply.result is not None and reply.result.stop is StopReason.FINISHED
        if not finished or reply.end != "whole":
            return await self._count_failure()
        self._failures = 0
        if calls.unread:
            return ""  # The model searched for tools and has not seen the result yet.
        if silent and not self._was_warned_of_silence:
            self._was_warned_of_silence = True
            return ""
        return await self._decide_by_output(reply, answered=answered)

    async def _count_failure(self) -> str:
        self._failures += 1
        if self._failures <= self._settings.max_repairs:
            return ""
        await self._replies.notify("limit.repairs", limit=self._settings.max_repairs)
        return "limit_repairs"

    def _is_silent(self, reply: ModelReply, calls: RunCalls) -> bool:
        """Return whether code finished without any effect for people or the model. It had none if
        the whole turn sent nothing, the code noted nothing and printed nothing, the reply has no
        text, and the code is not only ``pass``."""
        acted = self._replies.sent or reply.prose or calls.recorded
        finished = reply.result is not None and reply.result.stop is StopReason.FINISHED
        return finished and not acted and not reply.shows and not is_no_op(reply.code)

    async def _decide_by_output(self, reply: ModelReply, *, answered: bool) -> str:
        """Decide how the turn continues after finished code. Output leads to another step, unless
        the same code printed the same in the previous step, or the last three steps printed the
        same. ``answered`` says whether the code sent a message."""
        output_before, code_before = self._output, self._output_code
        self._output, self._output_code = reply.shows, reply.code.strip()
        self._repeats = self._repeats + 1 if self._output == output_before else 0
        loops = self._repeats > 1 or (self._repeats and self._output_code == code_before)
        if self._output and not loops:
            return ""
        if answered:
            return "finished"
        if reply.prose:
            await self._replies.send_prose(reply.prose)
        elif self._output and not self._replies.sent:
            await self._replies.notify("turn.failed")
            return "same_output"
        return "finished"

    async def _decide_without_code(self, reply: ModelReply) -> str:
        """Decide how the turn continues after a reply without code."""
        if reply.prose:
            await self._replies.send_prose(reply.prose, end=reply.end)
            return "finished"
        if reply.end == "whole" and reply.text.strip() and is_no_op(reply.text):
            return "finished"
        if stop := await self._count_empty_reply():
            return stop
        self._context.add_step(reply, empty_report(reply.end))
        return ""

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


class StepRunner:
    """Takes one step: asks the model, runs the model's code, answers the calls of the code, and
    records all this. ``limits`` count the step's cost."""

    def __init__(
        self,
        services: TurnServices,
        step: PreparedStep,
        *,
        context: TurnContext,
        recorder: TurnRecorder,
        model: ChatModel,
        limits: Limits,
        box: TurnBox,
        watch: StepWatch,
        may_be_empty: bool = False,
    ) -> None:
        self._failover = StepFailover(watch, self._write_again)
        request = self._failover.of(watch.of(step.request), may_be_empty=may_be_empty)
        self.step = replace(step, request=request)
        self.watch = watch
        self.run_id = step.run_id
        self.calls = RunCalls(
            step.tools,
            replace(step.ctx, meter=limits),
            note=lambda text: services.inbox.note(context.chat_key, text, run_id=step.run_id),
            clock=services.clock,
            wall=services.wall,
            save=lambda calls: recorder.save_calls(step.run_id, calls),
            carry_out=services.carry_out,
        )
        self._services = services
        self._context = context
        self._recorder = recorder
        self.model = model
        self._limits = limits
        self._box = box
        self._reader: ReplyReader | None = None
        self._run_stored: Awaitable[object] | None = None
        self._started, self._began = services.wall(), services.clock()

    async def run(self) -> ModelReply:
        """Ask the model, and run its code while the model writes it. The reply and the run are
        recorded even after a cancellation. Raises `ModelError` if no part of a reply arrived."""
        request, settings = self.step.request, self._services.settings
        self._reader = reader = ReplyReader(
            self.model,
            self.start_run,
            bare_code=self.step.bare_code,
            stream_code=settings.stream_code,
            max_chars=settings.turn.reply_chars,
            is_call=lambda text: is_call(text, self.step.tools),
            on_text=self.watch.first_token,
            on_end=self.watch.reply_ended,
        )
        try:
            reply = await reader.read(request)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await self.record_cut(reader.text, reader.usage(request))
            raise
        cost = self.pay(reply.usage)
        if self._run_stored is not None:
            await self._run_stored
            await self._recorder.end_run(self.run_id, reply, self.calls)
        if reply.result is not None:
            self.watch.statements(reply.result.timeline)
        await self.record_step(reply.kept, reply.tail, cost)
        return reply

    async def _write_again(self, profile: ModelProfile) -> ChatRequest:
        """Write the step's prompt for another model of the chain, which answers instead."""
        step = self.step
        request, bare_code, sources = await self._context.write_prompt(
            step.tools, step.ctx, step.functions, profile
        )
        self.step = replace(step, request=request, bare_code=bare_code, sources=sources)
        if self._reader is not None:
            self._reader.expect(bare_code=bare_code)
        return request

    async def start_run(self) -> Run:
        """Start a run in the box when the model's code begins. The code does not wait until the run
        is stored; only its calls do."""
        box = await self._box.open()
        await self.store_run()
        self._box.has_run = True
        await box.put_uploads(self._context.media)
        extras = self._services.plugins.box_extras(self.step.ctx)
        await box.put_links(extras.links)
        functions = self.step.tools.once(guest_functions)
        values = [GuestValue(name, text) for name, text in extras.values.items()]
        self.watch.run_began()
        return await box.box.start_run(
            [*functions, *values] if values else functions,
            self._answer_code,
            self._services.run_limits,
            keep_globals=True,
        )

    async def store_run(self, code: str = "") -> Awaitable[object]:
        """Begin to store the run. The returned awaitable ends when the run is stored."""
        self._run_stored = stored = await self._recorder.save_run(self.run_id, code)
        self._context.runs.add(self.run_id)
        return stored

    async def answer_call(
        self,
        call: GuestCall,
        *,
        position: int | None = None,
        outgoing: MessageSender | None = None,
    ) -> CallResult:
        """Answer one tool call, which the model's code or the model itself made.

        The run is stored before any of its calls is carried out. So after a restart the bot always
        knows which run sent which messages, and does not send them again. Raises `StoreUnavailable`
        if the run cannot be stored.
        """
        assert self._run_stored is not None, "a call without a run"
        await self._run_stored
        return await self.calls.call(call, position=position, outgoing=outgoing)

    async def _answer_code(self, call: GuestCall) -> Answer:
        return self.calls.code_answer(call.name, await self.answer_call(call))

    def pay(self, usage: RequestUsage) -> StepCost:
        """Count the reply in the limits, and return its cost."""
        profile = self._failover.profile(self.model.profile)
        cost = StepCost(
            started=self._started,
            seconds=self._services.clock() - self._began,
            usage=self._failover.usage(usage),
            model=profile.name,
            money=self._failover.money(profile, usage),
            price_source=profile.price.source,
        )
        self._limits.spend(cost.usage, cost.money)
        return cost

    async def record_cut(self, text: str, usage: RequestUsage) -> None:
        """Record a step that was cancelled while the model replied. ``text`` is the part that had
        arrived."""
        if self._run_stored is not None:
            await self._recorder.cut_run(self.run_id, self.calls)
        if text:
            await self.record_step("", text, self.pay(usage))
        elif self.watch.sent:
            await self._recorder.end_without_reply(
                self.watch, self.step.sources, "the turn was stopped before a reply"
            )

    async def record_step(self, kept: str, tail: str, cost: StepCost) -> None:
        """Record the reply, its cost, and what the model was shown."""
        await self._recorder.end_step(kept, tail, cost, self.watch, self.step.sources)
