"""One turn: from what woke it until there is no more to do.

Each step asks the model once and runs what it wrote. What comes after a step is decided by
`Turn._after` alone; every reply was executed or shown by then.
"""

import uuid
from collections.abc import Awaitable
from dataclasses import replace

import anyio
from loguru import logger

from nekro_core.agent.prompt.quoting import PromptLines
from nekro_core.agent.prompt.transcript import shortened
from nekro_core.agent.turn.already_sent import DeduplicatingSender, was_answered
from nekro_core.agent.turn.boxes import ChatBox, LazyBox
from nekro_core.agent.turn.context import TurnContext, TurnRequest
from nekro_core.agent.turn.notices import notice_text, send_notice
from nekro_core.agent.turn.ports import Ports
from nekro_core.agent.turn.prepared_step import PreparedStep, PreparedTurn, prepare_step
from nekro_core.agent.turn.python_text import is_call, is_no_op
from nekro_core.agent.turn.recorder import SAID, StepCost, TurnRecorder
from nekro_core.agent.turn.reply import End, ModelReply, ReplyReader
from nekro_core.agent.turn.report import (
    DO_NOT_RESEND,
    done_lines,
    empty_report,
    sent_lines,
    step_report,
)
from nekro_core.agent.turn.run_calls import RunCalls, guest_functions
from nekro_core.chat import Record, Text
from nekro_core.delivery.errors import DeliveryError, TooManySends
from nekro_core.llm.model import (
    KeyRejected,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    QuotaExceeded,
    ReplyBroken,
    RequestRejected,
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
    Run,
    SandboxError,
    StopReason,
)

LAST_WORDS_S = 5.0
"""Longest wait for what is written down when a turn is cut."""
_MODEL_ERRORS: tuple[tuple[type[ModelError], str], ...] = (
    (KeyRejected, "key"),
    (QuotaExceeded, "quota"),
    (ModelUnreachable, "unreachable"),
    (ModelRefused, "refused"),
    (RequestRejected, "rejected"),
    (ReplyBroken, "broken"),
)

_UNFINISHED: dict[End, str] = {"broken": "turn.broke_off", "length": "turn.cut_short"}
"""What is said below words whose end is missing."""


class Turn:
    """Runs once. The book has been begun, and is ended by the caller with what `run` returns.
    ``ready`` is its beginning, where that was made before and for this task."""

    def __init__(
        self, ports: Ports, task: TurnRequest, book: TurnRecorder, ready: PreparedTurn | None = None
    ) -> None:
        self._ports = ports
        self._task = task
        self._book = book
        self._settings = ports.settings.turn
        self._manner = ports.policies.of(task.chat_key)
        self._limits = Limits(turn_limits(self._settings, ports.clock))
        self._known = ready.known if ready else TurnContext(ports, task)
        self._asking = ready.asking if ready else None
        self._box: ChatBox | None = None
        self._files = ready.files if ready else LazyBox(ports.boxes, task.chat_key)
        self._outgoing: MessageSender = ports.outbox
        self._sent = False
        self._ran = False
        self._failures = 0
        self._empty = 0
        self._shown = self._shown_by = ""
        self._repeats = 0
        self._told_of_nothing = False

    async def run(self) -> str:
        """Take steps until there is no more to do. Returns why it is over, in a word."""
        if self._task.resumed and await self._is_done_already():
            return "finished"
        stop = "limit_seconds"
        try:
            with anyio.move_on_after(self._settings.max_seconds):
                stop = await self._take_steps()
            if stop == "limit_seconds":
                await self._say("limit.seconds", limit=f"{self._settings.max_seconds:g}")
        finally:
            if self._box is not None:
                self._box.box.drop_globals()
                with anyio.move_on_after(LAST_WORDS_S, shield=True):
                    await self._ports.boxes.close(self._task.chat_key, self._box, changed=self._ran)
            await self._files.close()
        return stop

    async def _is_done_already(self) -> bool:
        """What the dead process did. Its turn was over if its last run had come to its end, and
        that was the answer."""
        turn_id, store = await self._book.turn_id(), self._ports.store
        await self._book.continue_after(await store.turns.steps(turn_id))
        runs = await store.runs.of_turn(turn_id)
        await store.runs.close_interrupted(turn_id)
        before = await self._book.sent()
        self._outgoing = DeduplicatingSender(self._ports.outbox, before)
        self._sent = any(row.state in DO_NOT_RESEND for row in before)
        self._known.runs = {run.run_id for run in runs}
        if not runs:
            return False
        done = [(run, await store.runs.calls(run.run_id)) for run in runs]
        note = "[note] A restart interrupted you. Answer now, unless it is done."
        lines = [note, *done_lines(done), *sent_lines(before)]
        self._known.preface = PromptLines(tuple(lines))
        return was_answered(runs, before)

    async def _take_steps(self) -> str:
        if reason := self._no_code_because():
            logger.error("no code can run for {}: {}", self._task.chat_key, reason)
            await self._say("turn.no_backend")
            return "no_backend"
        asker = self._task.trigger_record.sender.user_id
        self._limits.add(*await day_limits(self._ports, self._task.chat_key, asker))
        while True:
            try:
                self._limits.check()
            except LimitExceeded as error:
                await self._say(f"limit.{error.kind}", limit=f"{error.limit:g}")
                return f"limit_{error.kind}"
            try:
                stop = await self._step()
            except ModelError as error:
                return await self._tell_of(error)
            if stop:
                return stop

    def _no_code_because(self) -> str:
        """Why no code could run, as far as that is known before the model is paid for some."""
        return self._ports.boxes.unavailable

    async def _open_box(self) -> ChatBox:
        """Where code runs. Only code opens it: a chat that gets nothing but words has no box."""
        boxes, chat_key = self._ports.boxes, self._task.chat_key
        if self._box is not None:
            if self._box.box.alive:
                return self._box
            await boxes.close(chat_key, self._box, changed=False)
            self._box = None
        self._box = await boxes.open(chat_key)
        return self._box

    async def _step(self) -> str:
        """Ask once, run what came. Returns why the turn is over, or nothing."""
        ports = self._ports
        asking, self._asking = self._asking, None
        if asking is None or not asking.holds(ports):
            outgoing = self._outgoing if self._task.resumed else None
            asking = await prepare_step(ports, self._task, self._known, self._files, outgoing)
        run_id = asking.run_id
        await self._book.seen(self._known.through_seq)
        calls = RunCalls(
            asking.tools,
            replace(asking.ctx, meter=self._limits),
            note=lambda text: ports.inbox.note(self._task.chat_key, text, run_id=run_id),
            clock=ports.clock,
            wall=ports.wall,
            keep=lambda calls: self._book.save_calls(run_id, calls),
        )
        return await self._act(asking, calls)

    async def _act(self, asking: PreparedStep, calls: RunCalls) -> str:
        """Ask the model and do what it says. Returns as `_step`."""
        reply = await self._read(asking, calls)
        return await self._after(reply, asking.run_id, calls)

    async def _read(self, asking: PreparedStep, calls: RunCalls) -> ModelReply:
        """The model's reply and the run that it caused, both written down in any case."""
        run_id, request, tools = asking.run_id, asking.request, asking.tools
        begun: Awaitable[object] | None = None

        async def start_run() -> Run:
            nonlocal begun
            kept = await self._open_box()
            # The code starts while the run is written down: only what it calls waits for that.
            begun = written = await self._book.save_run(run_id)
            self._ran = True
            self._known.runs.add(run_id)

            async def answer(call: GuestCall) -> Answer:
                await written
                return await calls.answer(call)

            await kept.put_uploads(self._known.media)
            return await kept.box.start_run(
                tools.once(guest_functions), answer, self._ports.run_limits, keep_globals=True
            )

        reader = ReplyReader(
            self._manner.model,
            start_run,
            bare_code=asking.bare_code,
            stream_code=self._ports.settings.stream_code,
            max_chars=self._settings.reply_chars,
            is_call=lambda text: is_call(text, tools),
        )
        started, began = self._ports.wall(), self._ports.clock()

        def cost() -> StepCost:
            return self._cost(reader.usage(request), started, began)

        try:
            reply = await reader.read(request)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                if begun is not None:
                    await self._book.cut_run(run_id, calls)
                if reader.text:
                    await self._book.end_step("", reader.text, cost())
            raise
        spent = cost()
        self._limits.spend(spent.usage, spent.money)
        if begun is not None:
            await begun
            await self._book.end_run(run_id, reply, calls)
        await self._book.end_step(reply.kept, reply.tail, spent)
        return reply

    def _cost(self, usage: RequestUsage, started: float, began: float) -> StepCost:
        """What a reply cost that was asked for then (by the wall's clock and by our own)."""
        seconds = self._ports.clock() - began
        profile = self._manner.model.profile
        return StepCost(
            started=started,
            seconds=seconds,
            usage=usage,
            model=profile.name,
            money=profile.price.of(usage),
        )

    async def _after(self, reply: ModelReply, run_id: str, calls: RunCalls) -> str:
        """What a step leads to: nothing for another step, else why the turn is over."""
        if not reply.statements:
            return await self._after_words(reply)
        sent = await self._book.sent_in_run(run_id)
        self._sent = self._sent or any(row.state in DO_NOT_RESEND for row in sent)
        result = reply.result
        again = bool(reply.shows) and reply.shows == self._shown
        nothing = self._is_silent(reply, calls)
        self._known.remember(reply, step_report(reply, calls, sent, again=again, nothing=nothing))
        if isinstance(reply.box_error, BackendUnavailable):
            await self._say(_no_box(reply.box_error))
            return "no_backend"
        if calls.observed:
            self._failures = 0
            return ""
        if result is None or result.stop is not StopReason.FINISHED or reply.end != "whole":
            self._failures += 1
            if self._failures > self._settings.max_repairs:
                await self._say("limit.repairs", limit=self._settings.max_repairs)
                return "limit_repairs"
            return ""
        self._failures = 0
        if calls.unread:
            return ""  # It searched, and has yet to see what there is.
        if nothing and not self._told_of_nothing:
            self._told_of_nothing = True
            return ""
        return await self._after_output(
            reply, answered=any(row.state in DO_NOT_RESEND for row in sent)
        )

    def _is_silent(self, reply: ModelReply, calls: RunCalls) -> bool:
        """Whether code came to its end and nobody hears of it: nothing was sent in the whole turn,
        done on the record or said beside it, there is nothing to show, and it is not ``pass``."""
        acted = self._sent or reply.prose or calls.recorded
        done = reply.result is not None and reply.result.stop is StopReason.FINISHED
        return done and not acted and not reply.shows and not is_no_op(reply.code)

    async def _after_output(self, reply: ModelReply, *, answered: bool) -> str:
        """Code came to its end. What it has to show leads to another step, unless the same code had
        just that to show, or other code twice; ``answered`` says whether it sent something."""
        before, self._shown = (self._shown, self._shown_by), reply.shows
        self._shown_by = reply.code.strip()
        self._repeats = self._repeats + 1 if self._shown == before[0] else 0
        circle = self._repeats > 1 or (self._repeats and self._shown_by == before[1])
        if self._shown and not circle:
            return ""
        if answered:
            return "finished"
        if reply.prose:
            return await self._send_prose(reply.prose)
        if self._shown and not self._sent:
            await self._say("turn.failed")
            return "same_output"
        return "finished"

    async def _after_words(self, reply: ModelReply) -> str:
        """A reply without code."""
        if reply.prose:
            return await self._send_prose(reply.prose, end=reply.end)
        if reply.end == "whole" and reply.text.strip() and is_no_op(reply.text):
            return "finished"
        if self._sent:
            return "finished"
        self._empty += 1
        if self._empty > 1:
            await self._say("turn.empty_reply")
            return "empty_reply"
        self._known.remember(reply, empty_report(reply.end))
        return ""

    async def _send_prose(
        self, prose: str, stop: str = SAID, code: str = "", end: End = "whole"
    ) -> str:
        """Words that were meant for the chat. They get a run of their own, so that a turn taken up
        after a crash knows of them; ``stop`` is why that run is over, ``code`` what it is shown
        with. Words whose ``end`` is missing say so."""
        run_id = uuid.uuid4().hex
        await self._book.begin_run(run_id, code)
        self._known.runs.add(run_id)
        try:
            note = _UNFINISHED.get(end)
            tail = f"\n\n{notice_text(self._ports, self._heard(), note)}" if note else ""
            await self._send_whole(prose, tail, run_id)
            self._sent = True
        except DeliveryError as error:
            logger.warning("a reply to {} was not sent: {}", self._task.chat_key, error)
            await self._say("turn.failed")
        await self._book.said(run_id, stop)
        return "finished"

    async def _send_whole(self, prose: str, tail: str, run_id: str) -> None:
        """Send all of the words, in parts or as a file where they are long. Only where the platform
        has no files and they are more messages than a run may send is their middle left out."""
        chat_key, send = self._task.chat_key, self._outgoing.send
        try:
            await send(chat_key, (Text(prose + tail),), run_id=run_id)
        except TooManySends:
            text = shortened(prose, self._settings.prose_chars)
            await send(chat_key, (Text(text + tail),), run_id=run_id)

    async def _tell_of(self, error: ModelError) -> str:
        """A model that does not answer: one sentence for the chat, the reason for the operator."""
        kind = next((word for known, word in _MODEL_ERRORS if isinstance(error, known)), "rejected")
        logger.error("the model did not answer {}: {}", self._task.chat_key, error)
        await self._say(f"model.{kind}")
        return f"model_{kind}"

    async def _say(self, key: str, **values: object) -> None:
        """A sentence of our own to the chat, unless people have got something already. Where code
        ran in vain it has a run of its own, by which people find that code."""
        if self._sent:
            return
        chat_key, run_id = self._task.chat_key, uuid.uuid4().hex if self._ran else ""
        if run_id:
            await self._book.begin_run(run_id)
            self._known.runs.add(run_id)
        await send_notice(self._ports, chat_key, self._heard(), key, run_id=run_id, **values)
        if run_id:
            await self._book.said(run_id)

    def _heard(self) -> list[Record]:
        """What people said, for the language that they speak."""
        return [self._task.trigger_record, *self._known.records]


def _no_box(error: SandboxError) -> str:
    """The name of the sentence that tells the chat why no code runs."""
    return "turn.boxes_full" if isinstance(error, BoxesFull) else "turn.no_backend"
