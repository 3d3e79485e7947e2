"""The live agent of one chat: hears records, decides, takes its turns one after another.

A turn answers one person, with their rights and on their quota. What others ask meanwhile waits,
and begins the next turns in the order in which it came. Lines of the program (a timer, a webhook)
are nobody's: they get turns of their own, with the rights of nobody.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import anyio
from loguru import logger

from nekro_core.agent.session.backlog import Backlog
from nekro_core.agent.session.store_trouble import STORE_PAUSE_S, StoreOutage, store_error_in
from nekro_core.agent.session.trigger import (
    TIMER_S,
    PendingMessage,
    StartTurn,
    StaySilent,
    WaitForMore,
    decide,
    trigger_reason,
)
from nekro_core.agent.session.turn_slots import TurnSlots
from nekro_core.agent.turn.already_sent import was_answered
from nekro_core.agent.turn.context import HistoryMarks, TurnRequest
from nekro_core.agent.turn.native_turn import NativeTurn
from nekro_core.agent.turn.prepared_step import PreparedTurn, prepare_turn, uses_native_calls
from nekro_core.agent.turn.recorder import CUT_OFF, TurnRecorder
from nekro_core.agent.turn.report import DO_NOT_RESEND
from nekro_core.agent.turn.services import PromptPlugins, TurnServices
from nekro_core.agent.turn.turn import Turn
from nekro_core.chat import Author, ChatKey, ChatKind, ChatMessage, Record
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.host import Working
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy import ChatState
from nekro_core.policy.cooldown import Cooldown, CooldownState
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import TurnRow as StoredTurn

_AS_IT_SHOULD = ("finished", "stopped", "recalled")
"""Why a turn ends where nothing is wrong."""
_READY_S = 0.1
"""How long before it begins a turn is made ready: what is made earlier is more often in vain."""
_MOST_ATTEMPTS = 20
"""How often a turn is begun: one that kills the process must not do so for ever."""
_MOST_CUT_RUNS = 5
"""How many of its runs may have been cut off by the process's end: it may have been they that ended
it. One whose process others kill before it comes to act has its answer coming."""
_SUSPECT_CUT_RUNS = 2
"""From how many on a turn is taken up alone among its like."""


class SessionPlugins(PromptPlugins, Protocol):
    """What plugins do in a chat (`nekro_core.plugins.host.registry.PluginRegistry`)."""

    async def on_user_message(self, ctx: AgentCtx, message: ChatMessage) -> MsgSignal:
        """What plugins want done with a message."""

    async def on_channel_reset(self, ctx: AgentCtx) -> None:
        """Tell plugins that the chat begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServices(TurnServices):
    """What a session needs besides, to hear and to decide. ``trigger`` are the settings for all
    chats; those of one chat are in its policy."""

    plugins: SessionPlugins
    activity: Broadcast
    trigger: TriggerSettings


class Session:
    """One chat. Everything but `hear`, `pass_over` and `stop` runs in the task of `live`."""

    def __init__(
        self, chat_key: ChatKey, services: SessionServices, slots: TurnSlots, cooldown: Cooldown
    ) -> None:
        self.chat_key = chat_key
        self._services = services
        self._slots = slots
        self._cooldown = cooldown
        self._store = StoreOutage(chat_key)
        self._backlog = Backlog(self._asks)
        self._forced: set[int] = set()
        self._hidden: set[int] = set()
        self._passed: set[int] = set()
        self._stops: set[int] = set()
        self._interrupted: StoredTurn | None = None
        self._news = anyio.Event()
        self._turn_scope: anyio.CancelScope | None = None
        self._listening = False
        self._rested = anyio.Event()
        self._ready: PreparedTurn | None = None
        self._stopped_at: int | None = None
        self._answers = 0
        """The record that woke the running turn."""

    @property
    def working(self) -> bool:
        """Whether a turn runs, or waits for its place."""
        return self._turn_scope is not None

    async def wait_until_idle(self) -> None:
        """Wait until no turn runs."""
        while self.working:
            await self._rested.wait()

    @property
    def at_work(self) -> bool:
        """Whether something is done now: what was heard is looked at, or a turn runs."""
        return self.working or self._listening or bool(self._backlog.fresh)

    @property
    def idle(self) -> bool:
        """Whether it can be forgotten."""
        return not (self.working or self._backlog or self._interrupted)

    @property
    def newest(self) -> int:
        """The newest record that waits, 0 where none does."""
        return self._backlog.newest()

    def on_record(self, record: Record, *, age_s: float = 0.0) -> None:
        """Take note of a record that arrived so long ago."""
        if record.author is Author.BOT or (record.author is Author.SYSTEM and not record.to_bot):
            return
        self._backlog.on_record(PendingMessage(record, self._services.clock() - age_s))
        self._news.set()

    def on_stop(self, record: Record) -> None:
        """Somebody wants it to stop: the running turn at once, else what is still waited for."""
        if not self.stop(record.seq):
            self._stops.add(record.seq)
            self.on_record(record)

    def on_recall(self, seq: int) -> None:
        """A record was taken back: nobody answers it. The turn that does ends at once; what its
        person asked besides begins another."""
        self._backlog.on_recall(seq)
        self._ready = None
        if self._turn_scope is not None and self._answers == seq:
            self._turn_scope.cancel()
        self._news.set()

    def mark_handled(self, record: Record) -> None:
        """A record that is no question: a command, which others have dealt with."""
        self._passed.add(record.seq)

    def forget_person(self, user_id: str) -> None:
        """Drop what a person said and nobody has answered."""
        self._backlog.forget_person(user_id)
        self._ready = None

    def resume_turn(self, turn: StoredTurn) -> None:
        """A turn that a dead process left; it comes before everything else."""
        self._interrupted = turn
        self._news.set()

    def stop(self, seq: int = 0) -> bool:
        """End the running turn at once, and forget what was asked before record ``seq``. False
        where none runs."""
        if self._turn_scope is None:
            return False
        self._stopped_at = seq
        self._turn_scope.cancel()
        return True

    async def live(self) -> None:
        """Answer until the chat has been silent for a while."""
        while True:
            self._news = anyio.Event()
            self._listening = True
            try:
                await self._listen()
            finally:
                self._listening = False
            if any(heard.record.seq in self._stops for heard in self._backlog.fresh):
                continue  # Plugins looked meanwhile at what it stops: no turn begins before it.
            if self._interrupted is not None:
                turn, self._interrupted = self._interrupted, None
                await self._resume(turn)
                continue
            manner = self._services.policies.of(self.chat_key)
            if manner.state is not ChatState.ON:
                self._backlog.heard.clear()  # It was switched off meanwhile.
            decision = decide(
                self._backlog.heard,
                now=self._services.clock(),
                wall=self._services.wall(),
                settings=manner.trigger,
                names=manner.names,
                forced=self._forced,
            )
            match decision:
                case StartTurn(record, why):
                    await self._answer(record, why)
                case WaitForMore(seconds, record):
                    await self._wait(seconds, record)
                case StaySilent():
                    self._forget()
                    with anyio.move_on_after(self._services.settings.session_idle_s) as silence:
                        await self._news.wait()
                    if silence.cancelled_caught and self.idle:
                        return

    async def _wait(self, seconds: float, record: Record) -> None:
        """Wait for news; shortly before the end, make ready what the turn will need."""
        due = anyio.current_time() + seconds
        with anyio.move_on_after(seconds - _READY_S):
            await self._news.wait()
        if self._news.is_set():
            return
        try:
            self._ready = await prepare_turn(self._services, self._task_for(record))
        except Exception as error:  # noqa: BLE001 (the turn meets the same fault, and tells of it)
            logger.debug("{}: nothing was made ready: {}", self.chat_key, error)
        with anyio.move_on_after(due - anyio.current_time() - TIMER_S):
            await self._news.wait()

    async def _listen(self) -> None:
        """Take what is new: commands first, then what plugins say about it."""
        for heard in self._backlog.take_new():
            record = heard.record
            if record.seq in self._stops:
                self._stops.remove(record.seq)
                await self._stop_waiting(record)
                continue
            signal = MsgSignal.CONTINUE
            if record.author is Author.PERSON:
                signal = await self._signal(record)
            if signal is MsgSignal.BLOCK_ALL:
                self._hidden.add(record.seq)
            elif signal is not MsgSignal.BLOCK_TRIGGER:
                if signal is MsgSignal.FORCE_TRIGGER:
                    self._forced.add(record.seq)
                if not await self._is_damped(record):
                    self._backlog.keep(heard)

    async def _is_damped(self, record: Record) -> bool:
        """Whether it asks for an answer and its sender gets none for a while, who may be a bot."""
        if record.author is not Author.PERSON or not self._asks(record):
            return False
        sender = record.sender.user_id
        rest = self._cooldown.state(self.chat_key, sender)
        if rest is CooldownState.NO:
            return False
        self._passed.add(record.seq)
        if rest is CooldownState.BEGINS:
            seconds = self._services.trigger.rest_s
            logger.warning(
                "{}: {} woke so many turns that it may be a bot which answers us; it is answered "
                "again after {:g} s of silence (NEKRO_TRIGGER__BURST_TURNS, __HOUR_TURNS)",
                self.chat_key,
                sender,
                seconds,
            )
            await self._services.notices.send(
                self.chat_key, [record], "turn.rests", seconds=f"{seconds:g}"
            )
        return True

    async def _signal(self, record: Record) -> MsgSignal:
        plugins = self._services.plugins
        sender = record.sender
        ctx = plugins.context_for(
            self.chat_key,
            user_id=sender.user_id,
            user_name=sender.name,
            message_id=record.message_id,
        )
        account = self._services.store.accounts.of(self.chat_key.instance)
        message = ChatMessage(
            chat_key=record.chat_key,
            message_id=record.message_id,
            sender=sender,
            segments=record.segments,
            time=record.time,
            account=account.account if account else "",
            to_bot=record.to_bot,
            from_history=record.from_history,
        )
        return await plugins.on_user_message(ctx, message)

    async def _stop_waiting(self, record: Record) -> None:
        """``/stop`` while no turn runs: what was asked before it is dropped."""
        before = [heard for heard in self._backlog.heard if heard.record.seq < record.seq]
        waiting = any(self._asks(heard.record) for heard in before)
        self._backlog.heard = [heard for heard in self._backlog.heard if heard not in before]
        self._ready = None
        await self._services.store.chats.mark_handled(self.chat_key, record.seq)
        if waiting:
            await self._services.notices.send(self.chat_key, [record], "turn.stopped")
        elif record.to_bot or self.chat_key.kind is ChatKind.PRIVATE:
            await self._services.notices.send(self.chat_key, [record], "turn.nothing_to_stop")

    def _forget(self) -> None:
        """Nothing that was heard asks for an answer, nor will it."""
        self._backlog.drop_pending()
        self._forced.clear()
        self._passed.clear()
        self._ready = None

    async def _answer(self, record: Record, why: str) -> None:
        """One turn, for all that this person asked so far."""
        through = max(heard.record.seq for heard in self._backlog.heard)

        def begin() -> TurnRecorder:
            logger.info("{}: a turn for record {} ({})", self.chat_key, record.seq, why)
            self._cooldown.note(self.chat_key, record.sender.user_id)
            begun = partial(
                self._services.store.turns.begin,
                self.chat_key,
                trigger_seq=record.seq,
                through_seq=through,
                user_id=record.sender.user_id,
            )
            book = TurnRecorder(self._services.store, self.chat_key, begun, through_seq=through)
            book.begin_after_request()
            return book

        ready, self._ready = self._ready, None
        if ready is None or ready.request.trigger_record is not record:
            begun = await self._take_turn(self._task_for(record), begin)
        else:
            begun = await self._take_turn(ready.request, begin, ready)
        if not begun:
            await anyio.sleep(STORE_PAUSE_S)
            oldest = self._services.clock() - self._services.trigger.recover_age_s
            self._backlog.heard = [heard for heard in self._backlog.heard if heard.at > oldest]

    def _task_for(self, record: Record, *, resumed: bool = False) -> TurnRequest:
        """An answer to this record, and to all that the same person asked since."""
        asker = record.sender.user_id

        def mark(records: Sequence[Record]) -> HistoryMarks:
            return HistoryMarks(
                unanswered=frozenset(
                    each.seq
                    for each in records
                    if each.seq >= record.seq and each.sender.user_id == asker and self._asks(each)
                ),
                waiting=self._backlog.waiting(records, asker),
                hidden=frozenset(self._hidden),
            )

        return TurnRequest(
            chat_key=self.chat_key,
            trigger_record=record,
            mark=mark,
            resumed=resumed,
        )

    async def _resume(self, stored: StoredTurn) -> None:
        """Take up what a dead process left, a few times at the most."""
        store = self._services.store
        record = await self._record(stored.trigger_seq)
        runs = await store.runs.of_turn(stored.turn_id)
        cut = sum(run.stop in ("", CUT_OFF) for run in runs)
        waiting = self._backlog.oldest_waiting(stored.user_id)
        if record is None or stored.attempts >= _MOST_ATTEMPTS or cut >= _MOST_CUT_RUNS:
            sent = await store.deliveries.of_turn(stored.turn_id)
            stop = "finished" if was_answered(runs, sent) else "given_up"
            await store.turns.end(stored.turn_id, stop=stop, waiting_seq=waiting)
            if not any(
                row.state in DO_NOT_RESEND for row in sent
            ):  # else people have got something
                await self._services.notices.send(
                    self.chat_key, [record] if record else [], "turn.failed"
                )
            return
        if record.recalled:
            await store.turns.end(stored.turn_id, stop="recalled", waiting_seq=waiting)
            return
        if self._services.wall() - stored.started > self._services.trigger.recover_age_s:
            await store.turns.end(stored.turn_id, stop="too_old", waiting_seq=waiting)
            return
        if self._services.policies.of(self.chat_key).state is not ChatState.ON:
            await store.turns.end(stored.turn_id, stop="switched_off", waiting_seq=waiting)
            return

        def begin() -> TurnRecorder:
            logger.info("{}: turn {} is taken up again", self.chat_key, stored.turn_id)
            begun = partial(store.turns.resume, stored.turn_id)
            return TurnRecorder(store, self.chat_key, begun, through_seq=stored.through_seq)

        task = self._task_for(record, resumed=True)
        if not await self._take_turn(task, begin, exclusive=cut >= _SUSPECT_CUT_RUNS):
            await anyio.sleep(STORE_PAUSE_S)
            self._interrupted = stored

    async def _record(self, seq: int) -> Record | None:
        found = await self._services.store.messages.after(self.chat_key, seq - 1, 1)
        return found[0] if found and found[0].seq == seq else None

    def _asks(self, record: Record) -> bool:
        if record.seq in self._passed or self._services.policies.is_ignored(record):
            return False
        wall, manner = self._services.wall(), self._services.policies.of(self.chat_key)
        return record.seq in self._forced or bool(
            trigger_reason(record, wall=wall, settings=manner.trigger, names=manner.names)
        )

    async def _take_turn(
        self,
        task: TurnRequest,
        begin: Callable[[], TurnRecorder],
        ready: PreparedTurn | None = None,
        *,
        exclusive: bool = False,
    ) -> bool:
        """Run one turn to its end, however it ends. One that is cut off by the end of the process
        stays open in the store, and is found at the next start. False where the store could not
        even write that it begins: then nothing was done, and what was heard is still to answer."""
        self._stopped_at, self._answers = None, task.trigger_record.seq
        self._turn_scope, self._rested = anyio.CancelScope(), anyio.Event()
        self._services.activity.publish(Working(self.chat_key, busy=True))
        try:
            book, stop = await self._run_turn(
                task, begin, ready, self._turn_scope, exclusive=exclusive
            )
            self._rest()
            if book is None:
                book = begin()  # It waited for its place: its row is closed below.
            if stop == "internal" and not await book.is_begun():
                return False
            await self._close_turn(task, book, stop)
        finally:
            self._rest()
            self._services.activity.publish(Working(self.chat_key, busy=False))
        return True

    def _rest(self) -> None:
        self._turn_scope = None
        self._rested.set()

    async def _run_turn(
        self,
        task: TurnRequest,
        begin: Callable[[], TurnRecorder],
        ready: PreparedTurn | None,
        scope: anyio.CancelScope,
        *,
        exclusive: bool,
    ) -> tuple[TurnRecorder | None, str]:
        book: TurnRecorder | None = None
        stop = "stopped"
        try:
            with scope:
                async with self._slots.acquire(exclusive=exclusive) as taken:
                    if not taken:
                        return begin(), "too_busy"
                    book = begin()
                    if self._store.lasts:
                        await book.turn_id()  # No model is paid for what is in vain.
                        self._store.lasts = False
                    kind = NativeTurn if uses_native_calls(self._services, self.chat_key) else Turn
                    stop = await kind(self._services, task, book, ready).run()
            if scope.cancelled_caught and self._stopped_at is None:
                stop = "recalled"
        except Exception as error:  # noqa: BLE001 (one turn's fault must not end the chat)
            stop = "internal"
            if (unwritten := store_error_in(error)) is not None:
                self._store.on_error(unwritten)
            else:
                logger.exception("{}: the turn failed", self.chat_key)
        return book, stop

    @staticmethod
    async def _was_heard(book: TurnRecorder) -> bool:
        """Whether people have got something of the turn."""
        return await book.is_begun() and any(row.state.left for row in await book.sent())

    async def _close_turn(self, task: TurnRequest, book: TurnRecorder, stop: str) -> None:
        asker, through = (
            task.trigger_record.sender.user_id,
            max(book.through_seq, task.trigger_record.seq),
        )
        only_asked = stop == "recalled" and not await self._was_heard(book)
        if only_asked:  # `on_recall` dropped it; the rest of what its person asked still waits.
            through = task.trigger_record.seq - 1
        self._backlog.drop(asker, through, stopped_at=self._stopped_at or 0)
        oldest = self._backlog.oldest(through + 1)
        self._forced = {seq for seq in self._forced if seq >= oldest}
        self._passed = {seq for seq in self._passed if seq >= oldest}
        if await book.is_begun():
            waiting = self._backlog.oldest_waiting(asker)
            await self._store.written(partial(book.end, stop, waiting, only_asked=only_asked))
            if stop == "internal" and not await self._store.written(book.sent):
                await self._services.notices.send(
                    self.chat_key, [task.trigger_record], "turn.internal"
                )
        level = "INFO" if stop in _AS_IT_SHOULD else "WARNING"
        logger.log(level, "{}: the turn ended: {}", self.chat_key, stop)
        if stop == "too_busy":
            await self._services.notices.send(self.chat_key, [task.trigger_record], "turn.too_busy")
        if self._stopped_at is not None:
            mark = self._services.store.chats.mark_handled
            await self._store.written(partial(mark, self.chat_key, self._stopped_at))
            await self._services.notices.send(self.chat_key, [task.trigger_record], "turn.stopped")
