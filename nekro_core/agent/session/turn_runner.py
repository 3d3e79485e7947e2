"""Runs the turns of chats: waits for a slot before each turn, and stores the end of each turn, even
if the store cannot write for a while."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
import anyio.lowlevel
from loguru import logger

from nekro_core.agent.session.backlog import Backlog
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.turn_decisions import ended_decision, has_answered
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.context import TurnRequest
from nekro_core.agent.turn.native_turn import NativeTurn
from nekro_core.agent.turn.prepared_step import PreparedTurn, uses_native_calls
from nekro_core.agent.turn.recorder import TurnRecorder
from nekro_core.agent.turn.turn import Turn
from nekro_core.chat import Author, ChatKey, Record
from nekro_core.delivery.activity import Working
from nekro_core.store import DecisionReason, MessageDecision, OwnershipLost, StoreUnavailable
from nekro_core.store.turns import NORMAL_STOPS
from nekro_core.system.telemetry.spans import AttributeValue, Span, TracedContent

STORE_PAUSE_S = 1.0
"""Seconds between two attempts to write while the store cannot write."""
_Written = TypeVar("_Written")


class TurnSlots:
    """Limits how many turns of all chats run at the same time. A turn that the end of a process has
    cut off several times is *exclusive*: it may be the turn that kills the process. Only one such
    turn runs at a time. If that turn kills the process again, the other exclusive turns have not
    begun, so they are not counted as cut off once more."""

    def __init__(self, settings: AgentSettings) -> None:
        """The settings say how many turns run at the same time, and how long a turn may wait for a
        slot. An answer after a longer wait would surprise people."""
        self._settings = settings
        self._free = anyio.CapacityLimiter(settings.concurrent_turns)
        self._suspects = anyio.Lock()

    @property
    def running(self) -> int:
        """The number of turns that run now."""
        return self._free.borrowed_tokens

    @property
    def waiting(self) -> int:
        """The number of turns that wait for a slot."""
        return self._free.statistics().tasks_waiting

    @asynccontextmanager
    async def acquire(self, *, exclusive: bool) -> AsyncIterator[bool]:
        """Hold a slot for one turn. An ``exclusive`` turn first waits, without a time limit, until
        no other exclusive turn runs. Yields False if no slot becomes free in time."""
        self._free.total_tokens = self._settings.concurrent_turns
        async with self._suspects if exclusive else nullcontext():
            if not await self._take_slot():
                yield False
                return
            try:
                yield True
            finally:
                self._free.release()

    async def _take_slot(self) -> bool:
        """Take a slot. Return False if none becomes free in time. If one is free, this does not
        wait."""
        try:
            self._free.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(self._settings.longest_queue_s) as waiting:
                await self._free.acquire()
            return not waiting.cancelled_caught
        return True


class StoreOutage:
    """Remembers, for one chat, that the store cannot write, for example because the disk is
    full."""

    def __init__(self, chat_key: ChatKey) -> None:
        self._chat_key = chat_key
        self.lasts = False
        """Whether the last write failed."""

    def on_error(self, error: StoreUnavailable) -> None:
        """Log the error, unless the previous write failed too."""
        if not self.lasts:
            logger.error("{}: a turn waits until the store can write: {}", self._chat_key, error)
        self.lasts = True

    async def retry(self, write: Callable[[], Awaitable[_Written]]) -> _Written:
        """Repeat a write, or a read, until the store answers. It belongs to the end of a turn, and
        no other turn of the chat can begin before that end is stored."""
        while True:
            try:
                written = await write()
            except StoreUnavailable as error:
                self.on_error(error)
                await anyio.sleep(STORE_PAUSE_S)
            else:
                self.lasts = False
                return written


class TurnRunner:
    """Runs the turns of one chat, one at a time. All methods except `run` may be called from other
    tasks."""

    def __init__(
        self,
        chat_key: ChatKey,
        services: SessionServices,
        slots: TurnSlots,
        backlog: Backlog,
        judge: Callable[[Record], MessageDecision],
    ) -> None:
        """``judge`` decides whether a record asks for an answer, and gives the reason."""
        self._chat_key = chat_key
        self._services = services
        self._slots = slots
        self._backlog = backlog
        self._judge = judge
        self._outage = StoreOutage(chat_key)
        self._scope: anyio.CancelScope | None = None
        self._idle: anyio.Event | None = None
        """Set at the end of the turn. None until the first turn: most chats of a bot never have
        one, and an event takes 0.8 kB."""
        self._request: TurnRequest | None = None
        self._trigger_seq = 0
        """The sequence number of the record that woke the running turn."""
        self._stopped_at: int | None = None
        """If the turn was stopped, the sequence number up to which all waiting records are dropped;
        None if the turn was not stopped."""

    @property
    def working(self) -> bool:
        """Whether a turn runs or waits for a slot."""
        return self._scope is not None

    @property
    def trigger_record(self) -> Record | None:
        """The record that woke the running turn; None if no turn runs."""
        return self._request.trigger_record if self.working and self._request else None

    async def wait_until_idle(self) -> None:
        """Wait until no turn runs or waits for a slot."""
        while self.working:
            assert self._idle is not None, "`run` sets it together with ``_scope``"
            await self._idle.wait()

    def stop(self, seq: int = 0) -> bool:
        """Stop the running turn at once, and drop all questions up to record ``seq``. If no turn
        runs, do nothing and return False."""
        if self._scope is None:
            return False
        self._stopped_at = seq
        self._scope.cancel()
        return True

    def on_record(self, record: Record) -> None:
        """Tell the running turn that its asker has written again."""
        request = self._request
        if self._scope is None or request is None or request.new_lines is None:
            return
        trigger, person = request.trigger_record, record.author is Author.PERSON
        if person and record.seq > trigger.seq and record.sender.user_id == trigger.sender.user_id:
            request.new_lines.add(record)

    def on_recall(self, seq: int) -> None:
        """End the running turn at once if this record woke it."""
        if self._scope is not None and self._trigger_seq == seq:
            self._scope.cancel()

    async def run(
        self,
        request: TurnRequest,
        begin: Callable[[], TurnRecorder],
        prepared: PreparedTurn | None = None,
        *,
        exclusive: bool = False,
    ) -> bool:
        """Run one turn to its end. If the process ends during the turn, the store does not mark the
        turn as ended, so the next process finds the turn at its start. Returns False if the store
        could not write the turn's row. Then nothing was done, and the question still waits."""
        self._stopped_at, self._trigger_seq = None, request.trigger_record.seq
        self._request = request
        metrics = self._services.telemetry.metrics
        metrics.turn_began(self._chat_key)
        self._scope, self._idle = anyio.CancelScope(), anyio.Event()
        self._services.activity.publish(Working(self._chat_key, busy=True))
        self._mark_seen(request)
        recorders: list[TurnRecorder] = []

        def recorded() -> TurnRecorder:
            recorders.append(begin())
            return recorders[-1]

        def turn_id() -> int:
            return recorders[-1].known_turn_id() if recorders else 0

        try:
            # As soon as the turn's number is known, all log lines of the turn contain it.
            with logger.contextualize(turn=turn_id):
                with self._traced() as span:
                    recorder, stop = await self._run_turn(
                        request, recorded, prepared, self._scope, exclusive=exclusive
                    )
                    span.note("nekro.turn.id", turn_id())
                    span.note("nekro.turn.end", stop)
                    if stop not in NORMAL_STOPS:
                        span.fail(stop)
                self._set_idle()
                if recorder is None:
                    # The turn was still waiting for a slot. `_close` ends its row.
                    recorder = begin()
                if stop == "internal" and not await recorder.is_begun():
                    return False
                metrics.turn_ended(self._chat_key, stop)
                await self._close(request, recorder, stop)
        finally:
            metrics.turn_left(self._chat_key)
            self._set_idle()
            self._services.activity.publish(Working(self._chat_key, busy=False))
        return True

    def _traced(self) -> AbstractContextManager[Span]:
        """Begin the span that records a turn in a trace."""
        tracer, agent = self._services.telemetry.tracer, self._services.settings.names[0]
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
        }
        if tracer.shows(TracedContent.CHATS):
            attributes["gen_ai.conversation.id"] = str(self._chat_key)
        return tracer.work(f"invoke_agent {agent}", attributes)

    def _mark_seen(self, request: TurnRequest) -> None:
        """Show in the chat that the message was seen, with a reaction, if the settings say so. For
        a resumed turn, the earlier process has done this."""
        signs, trigger = self._services.signs, request.trigger_record
        if signs is not None and trigger.author is Author.PERSON and not request.resumed:
            signs.seen(self._chat_key, trigger.message_id)

    def _set_idle(self) -> None:
        self._scope = None
        if self._idle is not None:
            self._idle.set()

    async def _run_turn(
        self,
        request: TurnRequest,
        begin: Callable[[], TurnRecorder],
        prepared: PreparedTurn | None,
        scope: anyio.CancelScope,
        *,
        exclusive: bool,
    ) -> tuple[TurnRecorder | None, str]:
        """Run the turn. Returns the recorder (None if the turn did not begin), and why the turn
        ended."""
        recorder: TurnRecorder | None = None
        stop = "stopped"
        try:
            with scope:
                async with self._slots.acquire(exclusive=exclusive) as acquired:
                    if not acquired:
                        return begin(), "too_busy"
                    recorder = begin()
                    if self._outage.lasts:
                        await recorder.turn_id()  # Do not ask the model before the store can write.
                        self._outage.lasts = False
                    natively = uses_native_calls(self._services, self._chat_key)
                    turn = NativeTurn if natively else Turn
                    stop = await turn(self._services, request, recorder, prepared).run()
            await _absorb_late_cancellation(scope)
            if scope.cancelled_caught and self._stopped_at is None:
                stop = "recalled"
        except Exception as error:  # noqa: BLE001 (one turn's fault must not end the chat)
            stop, cause = "internal", _cause(error)
            if isinstance(cause, OwnershipLost):
                # The chat's new owner resumes the turn. This process can store nothing of it.
                raise cause from None
            if isinstance(cause, StoreUnavailable):
                self._outage.on_error(cause)
            else:
                logger.exception("{}: the turn failed", self._chat_key)
        except anyio.get_cancelled_exc_class():
            if not scope.cancel_called or _is_cancelled():
                raise
            # ``scope`` was cancelled, but ``scope`` did not catch the cancellation. It arrived
            # here. No outer scope is cancelled, so this task must go on and close the turn's row.
            stop = "stopped" if self._stopped_at is not None else "recalled"
            await _absorb_late_cancellation(scope)
        return recorder, stop

    async def _close(self, request: TurnRequest, recorder: TurnRecorder, stop: str) -> None:
        """Drop the records that the turn has handled, end the turn's row, and send the chat a
        notice if one is needed."""
        trigger, notices = request.trigger_record, self._services.notices
        through = max(recorder.through_seq, trigger.seq)
        only_asked = stop == "recalled" and not await _has_sent(recorder)
        if only_asked:  # `on_recall` has dropped the record; the person's other questions wait.
            through = trigger.seq - 1
        asker = trigger.sender.user_id
        judged = {each.seq: self._judge(each) for each in self._backlog.waiting()}
        dropped = self._backlog.drop_answered(asker, through, stopped_at=self._stopped_at or 0)
        if await recorder.is_begun():
            self._note(request, await recorder.turn_id(), stop, dropped, judged)
            waiting = self._backlog.oldest_waiting(asker)
            await self._outage.retry(partial(recorder.end, stop, waiting, only_asked=only_asked))
            if stop == "internal" and not await self._outage.retry(recorder.sent):
                await notices.send(self._chat_key, [trigger], "turn.internal")
        level = "INFO" if stop in NORMAL_STOPS else "WARNING"
        logger.log(level, "{}: the turn ended: {}", self._chat_key, stop)
        if stop == "too_busy":
            await notices.send(self._chat_key, [trigger], "turn.too_busy")
        if self._stopped_at is not None:
            mark = self._services.store.chats.mark_handled
            await self._outage.retry(partial(mark, self._chat_key, self._stopped_at))
            await notices.send(self._chat_key, [trigger], "turn.stopped")

    def _note(
        self,
        request: TurnRequest,
        turn_id: int,
        stop: str,
        dropped: Sequence[Record],
        judged: Mapping[int, MessageDecision],
    ) -> None:
        """Store the decisions about the turn's messages, together with the turn's end. If the turn
        answered, the decision about its trigger was stored when the turn began."""
        trigger, decisions = request.trigger_record, self._services.store.decisions
        if not has_answered(stop) and trigger.author is Author.PERSON:
            decisions.note(trigger.seq, ended_decision(stop, turn_id))
        for record in dropped:
            if record.author is not Author.PERSON or record.seq == trigger.seq:
                continue
            decision = judged[record.seq]
            if record.sender.user_id == trigger.sender.user_id:
                if not decision.reason.asks:
                    decision = MessageDecision(reason=DecisionReason.FOLLOWED)
                decision = replace(decision, turn_id=turn_id)
            elif decision.reason.asks:  # The stop drops other people's questions too.
                decision = MessageDecision(reason=DecisionReason.STOPPED)
            decisions.note(record.seq, decision)


async def _has_sent(recorder: TurnRecorder) -> bool:
    """Return whether the turn has sent anything to people."""
    return await recorder.is_begun() and any(row.state.left for row in await recorder.sent())


_LATE_CANCELLATIONS = 3
"""Maximum number of cancellations that may arrive after the end of a scope. They come from the
scope itself and from scopes inside it."""


async def _absorb_late_cancellation(scope: anyio.CancelScope) -> None:
    """Catch the cancellations of a scope that has already ended.

    If a scope is cancelled at the moment in which its block ends, Python before 3.13 raises the
    cancellation at the next ``await`` after the block. Here, the next ``await`` stores the end of
    the turn. If it were cancelled, the turn's row would stay open, and no other turn of the chat
    could begin.
    """
    for _ in range(_LATE_CANCELLATIONS if scope.cancel_called else 0):
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            if _is_cancelled():
                raise  # an outer scope is cancelled, because the bot ends


def _is_cancelled() -> bool:
    """Return whether a scope around the caller is cancelled."""
    return anyio.current_effective_deadline() == -math.inf


def _cause(error: Exception) -> Exception:
    """Return the error that task groups may have wrapped."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
