"""Takes one step of a turn."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Protocol, TypeVar

import anyio

from nekro_core.agent.shown.watch import StepWatch
from nekro_core.agent.turn.boxes import LAST_WORDS_S, TurnBox
from nekro_core.agent.turn.context import TurnContext
from nekro_core.agent.turn.live_words import LiveWords, WithoutRepeats
from nekro_core.agent.turn.new_lines import AskerWroteAgain, NewLines
from nekro_core.agent.turn.prepared_step import PreparedStep
from nekro_core.agent.turn.python_text import is_call
from nekro_core.agent.turn.recorder import SAID_PART, StepCost, TurnRecorder
from nekro_core.agent.turn.reply import ModelReply, ReplyReader
from nekro_core.agent.turn.run_calls import CallResult, RunCalls, guest_functions
from nekro_core.agent.turn.services import TurnServices
from nekro_core.agent.turn.step_failover import StepFailover
from nekro_core.llm.model import ChatModel, ChatRequest, ModelError, ModelProfile, RequestUsage
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.policy.limits import Limits
from nekro_core.sandbox.box import Answer, GuestCall, GuestValue, Run
from nekro_core.system.telemetry.spans import Span

_DROPPED = "dropped: the asker wrote again before anything of the reply had run or was sent"

_Reply = TypeVar("_Reply")
_Reply_co = TypeVar("_Reply_co", covariant=True)


class Reader(Protocol[_Reply_co]):
    """Reads one reply of a model: `ReplyReader` or `NativeReader`."""

    @property
    def text(self) -> str:
        """The part of the reply that has arrived."""

    @property
    def begun(self) -> bool:
        """Whether the reply has had an effect, so that it cannot be dropped any more."""

    def usage(self, request: ChatRequest) -> RequestUsage:
        """Return the usage so far."""

    async def read(self, request: ChatRequest) -> _Reply_co:
        """Ask the model and read its reply."""


class StepRunner:
    """Takes one step: asks the model, runs the model's code, answers the calls of the code, and
    records all this. ``limits`` count the step's cost. If ``new_lines`` is given, the reply is
    dropped if the asker writes again before the reply has an effect. ``words`` sends the words of
    the reply while the model writes. ``may_be_empty`` says that an empty reply is no failure of the
    model, because people have got an answer."""

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
        new_lines: NewLines | None = None,
        words: LiveWords | None = None,
        may_be_empty: bool = False,
    ) -> None:
        self._failover = StepFailover(watch, self._write_again)
        request = self._failover.of(watch.of(step.request), may_be_empty=may_be_empty)
        self.step = replace(step, request=request)
        self.watch = watch
        self.run_id = step.run_id
        self.words = words
        of_bot = step.ctx.services
        if words is not None:
            of_bot = replace(of_bot, outgoing=WithoutRepeats(of_bot.outgoing, words))
        ctx = replace(step.ctx, meter=limits, services=of_bot)
        self.calls = RunCalls(
            step.tools,
            ctx,
            note=lambda text: services.inbox.note(context.chat_key, text, run_id=step.run_id),
            clock=services.clock,
            wall=services.wall,
            save=lambda calls: recorder.save_calls(step.run_id, calls),
            carry_out=services.carry_out,
            telemetry=services.telemetry,
        )
        self._services = services
        self._context = context
        self._recorder = recorder
        self.model = model
        self._limits = limits
        self._box = box
        self._reader: ReplyReader | None = None
        self._new_lines = new_lines
        self._run_stored: Awaitable[object] | None = None
        self._run_span: Span | None = None
        self._started, self._began = services.wall(), services.clock()

    async def run(self) -> ModelReply:
        """Ask the model, and run its code while the model writes it. The reply and the run are
        recorded even after a cancellation. Raises `ModelError` if no part of a reply arrived, and
        `AskerWroteAgain` if the reply was dropped."""
        settings = self._services.settings
        self._reader = reader = ReplyReader(
            self.model,
            self.start_run,
            bare_code=self.step.bare_code,
            keeps_values=self._context.has_steps,
            stream_code=settings.stream_code,
            max_chars=settings.turn.reply_chars,
            is_call=lambda text: is_call(text, self.step.tools),
            words=self.words,
            on_text=self.watch.first_token,
            on_end=self.watch.reply_ended,
        )
        try:
            reply = await self.read(reader)
        finally:
            if self._run_span is not None:
                self._run_span.end()
        cost = self.pay(reply.usage)
        if self._run_stored is not None:
            await self._run_stored
            await self._box.save_run()
            await self._recorder.end_run(self.run_id, reply, self.calls)
        if reply.result is not None:
            self.watch.statements(reply.result.timeline)
        await self.record_step(reply.kept, reply.tail, cost)
        return reply

    async def read(self, reader: Reader[_Reply]) -> _Reply:
        """Read a reply. If the reading is cancelled or the reply is dropped, record the part that
        arrived. Otherwise the caller must record the reply. Raises `AskerWroteAgain` if the reply
        was dropped, and the errors of the reader."""
        request, lines = self.step.request, self._new_lines
        try:
            if lines is None:
                return await reader.read(request)
            reply, failure = None, None
            async with anyio.create_task_group() as tasks:
                with anyio.CancelScope() as reading:
                    tasks.start_soon(self._drop_if_corrected, lines, reader, reading)
                    try:
                        reply = await reader.read(request)
                    except ModelError as error:
                        failure = error
                tasks.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await self.record_cut(reader.text, reader.usage(request))
                if self.words is not None and self.words.run_id:
                    await self._recorder.end_words(self.words.run_id, SAID_PART)
            raise
        if failure is not None:
            raise failure
        if reply is None:
            await self._record_dropped(reader.text, reader.usage(request))
            raise AskerWroteAgain
        return reply

    async def _drop_if_corrected(
        self, lines: NewLines, reader: Reader[object], reading: anyio.CancelScope
    ) -> None:
        await lines.correction(self._context.through_seq)
        if not reader.begun:
            reading.cancel()

    async def _write_again(self, profile: ModelProfile) -> ChatRequest:
        """Write the step's prompt again for another model of the chain, after the first one
        failed."""
        step = self.step
        request, bare_code, sources = await self._context.write_prompt(
            step.tools, step.ctx, step.functions, profile
        )
        self.step = replace(step, request=request, bare_code=bare_code, sources=sources)
        if self._reader is not None:
            self._reader.expect(bare_code=bare_code)
        return request

    async def start_run(self) -> Run:
        """Start a run in the box when the model's code begins. The code starts before the run is
        stored, but the calls of the code wait until the run is stored."""
        self._run_span = self._services.telemetry.tracer.begin("run_code", {})
        self.calls.traced_in = self._run_span
        self._recorder.begin_row()  # The row is written while the box is opened.
        box = await self._box.open()
        await self.store_run()
        self._box.has_run = True
        await box.put_uploads(self._context.media())
        extras = self._services.plugins.box_extras(self.step.ctx)
        await box.put_links(extras.links)
        functions = self.step.tools.once(guest_functions)
        values = [GuestValue(name, text) for name, text in extras.values.items()]
        if self.step.bare_code:
            # With this value, even if it is empty, the box has functions for sums and dates, which
            # a small model calls (`guest_calculations`).
            values.append(GuestValue("__time_zone__", self._services.settings.timezone))
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
        """Answer one tool call of the model's code or, in tool mode, of the model.

        The run is stored before any of its calls is carried out. So after a restart the bot always
        knows which run sent which messages, and does not send them again. Raises `StoreUnavailable`
        if the run cannot be stored.
        """
        assert self._run_stored is not None, "a call without a run"
        await self._run_stored
        return await self.calls.call(call, position=position, outgoing=outgoing)

    async def _answer_code(self, call: GuestCall) -> Answer:
        return self.calls.code_answer(call.name, await self.answer_call(call))

    def pay(self, usage: RequestUsage, *, dropped: bool = False) -> StepCost:
        """Count the reply in the limits, and return its cost. A reply that was ``dropped`` is not
        counted as a step."""
        profile = self._failover.profile(self.model.profile)
        cost = StepCost(
            started=self._started,
            seconds=self._services.clock() - self._began,
            usage=self._failover.usage(usage),
            model=profile.name,
            money=self._failover.money(profile, usage),
            price_source=profile.price.source,
        )
        count = self._limits.spend_extra if dropped else self._limits.spend
        count(cost.usage, cost.money)
        if not dropped:
            self._services.telemetry.metrics.steps.add()
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

    async def _record_dropped(self, text: str, usage: RequestUsage) -> None:
        """Record a reply that was dropped because the asker wrote again."""
        if self._run_stored is not None:
            await self._recorder.cut_run(self.run_id, self.calls)
        cost = self.pay(usage, dropped=True)
        await self._recorder.end_step("", text, cost, self.watch, self.step.sources, error=_DROPPED)

    async def record_step(self, kept: str, tail: str, cost: StepCost) -> None:
        """Record the reply, its cost, and what the model was shown."""
        await self._recorder.end_step(kept, tail, cost, self.watch, self.step.sources)
