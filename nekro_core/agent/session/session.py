"""Runs the agent of one chat: receives records, decides whether to answer, and runs the turns one
after another.

A turn answers one person. It has that person's rights and counts towards that person's quota.
Questions that other people ask during a turn wait; they get the next turns, in order of arrival.
System lines (of a timer or a webhook) do not belong to a person. They get separate turns without a
person's rights.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.agent.participation.followed_chats import FollowedChats
from nekro_core.agent.session.backlog import Backlog
from nekro_core.agent.session.followed_message import follow_message
from nekro_core.agent.session.given_records import GivenRecords
from nekro_core.agent.session.interrupted_turns import InterruptedTurns
from nekro_core.agent.session.message_hooks import MessageHooks
from nekro_core.agent.session.record_takes import RecordTakes, SuspectGate
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.trigger import (
    TIMER_S,
    PendingMessage,
    StartTurn,
    StaySilent,
    WaitForMore,
    decide,
    judge,
)
from nekro_core.agent.session.turn_decisions import (
    ignored_reason,
    unheard_reason,
)
from nekro_core.agent.session.turn_runner import STORE_PAUSE_S, TurnRunner, TurnSlots
from nekro_core.agent.session.unasked_turns import UnaskedTurns
from nekro_core.agent.turn.context import HistoryMarks, TurnRequest
from nekro_core.agent.turn.new_lines import NewLines
from nekro_core.agent.turn.prepared_step import PreparedTurn, prepare_turn
from nekro_core.agent.turn.recorder import TurnRecorder
from nekro_core.chat import (
    Author,
    ChatKey,
    ChatKind,
    Mention,
    Record,
    Reply,
)
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy import ChatState
from nekro_core.policy.cooldown import Cooldown, CooldownState
from nekro_core.store import (
    DecisionReason,
    MessageDecision,
    StoreUnavailable,
    TurnRow,
)
from nekro_core.store.turn_trace import begin_times

_PREPARE_S = 0.1
"""A turn is prepared this many seconds before it begins. If another message arrives after the
preparation, the preparation was useless, so it is made late."""
_SUSPECT_S = 0.05
"""Pause in seconds between two looks whether an earlier suspect of this chat was answered. A
suspect is a record that may have ended the processes of earlier owners (`SuspectGate`)."""


class Session:
    """The session of one chat. `live` runs in a separate task. All other public methods may be
    called from other tasks."""

    def __init__(
        self,
        chat_key: ChatKey,
        services: SessionServices,
        slots: TurnSlots,
        cooldown: Cooldown,
        followed_chats: FollowedChats,
        unasked: UnaskedTurns,
        given: Callable[[], GivenRecords | None] = lambda: None,
        suspects: SuspectGate | None = None,
    ) -> None:
        """``given`` returns which records of the chat were given to this session, if the chat's
        records come from the log of a partition. ``suspects`` is shared by all sessions of the
        process."""
        self.chat_key = chat_key
        self._followed_chats = followed_chats
        self._unasked = unasked
        self._given = given
        self._suspects = suspects or SuspectGate()
        self._suspect = 0
        """The record for which this session has last entered ``_suspects``."""
        self._hearing: Record | None = None
        """The record that plugins' hooks handle now, or whose turn is resumed. No list of the
        backlog has it."""
        self._recorder: tuple[int, TurnRecorder] | None = None
        """The record that woke the latest turn, and the turn's recorder."""
        self._services = services
        self._cooldown = cooldown
        self._backlog = Backlog(self._asks)
        self._hooks = MessageHooks(chat_key, services)
        self._interrupted_turns = InterruptedTurns(chat_key, services, self._backlog)
        self._turns = TurnRunner(chat_key, services, slots, self._backlog, self._judge)
        self._stop_requests: set[int] = set()
        self._interrupted: TurnRow | None = None
        self._prepared: PreparedTurn | None = None
        self._news = anyio.Event()
        self._listening = False
        self._noted_seq = self._reset_seq = 0
        self._expected: set[int] = set()
        self._turn_tasks: TaskGroup | None = None
        """The tasks of the running turn."""

    @property
    def working(self) -> bool:
        """Whether a turn runs or waits for a slot."""
        return self._turns.working

    async def wait_until_idle(self) -> None:
        """Wait until no turn runs or waits for a slot."""
        await self._turns.wait_until_idle()

    @property
    def at_work(self) -> bool:
        """Whether the session is busy: a message waits for the plugins' hooks or is handled by
        them, or a turn runs or waits for a slot."""
        return self.working or self._listening or bool(self._backlog.fresh)

    @property
    def idle(self) -> bool:
        """Whether the session can be removed. While plugins' hooks handle a message, no list of the
        backlog contains the message, so ``_listening`` is asked too."""
        return not (self.working or self._listening or self._backlog or self._interrupted)

    @property
    def held(self) -> Sequence[Record]:
        """The waiting records, the one that plugins' hooks handle, and the one that woke the
        running turn."""
        now = (self._hearing, self._turns.trigger_record)
        return [*self._backlog.waiting(), *(each for each in now if each is not None)]

    def has_in_hand(self, seq: int) -> bool:
        """Return whether this session works on a record or will work on it, and the rows of a turn
        do not say so yet."""
        if self._recorder is not None:
            woken_by, recorder = self._recorder
            if woken_by == seq and recorder.has_asked:
                return False
        return seq in self._expected or any(each.seq == seq for each in self.held)

    @property
    def newest(self) -> int:
        """The sequence number of the newest waiting record; 0 if there is none."""
        return self._backlog.newest()

    def expect(self, seq: int) -> None:
        """Announce a record that will be passed to `on_record` later, after its voice was
        transcribed."""
        self._expected.add(seq)

    def on_record(self, record: Record, *, age_s: float = 0.0) -> None:
        """Add a record that arrived ``age_s`` seconds ago, and wake the session."""
        self._expected.discard(record.seq)
        if record.author is Author.BOT or (record.author is Author.SYSTEM and not record.to_bot):
            return
        message = PendingMessage(record, self._services.clock() - age_s)
        self._note_all(self._backlog.on_record(message), DecisionReason.OVERFLOW)
        self._turns.on_record(record)
        self._news.set()

    def on_stop(self, record: Record) -> None:
        """Handle ``/stop``: stop the running turn at once. If no turn runs, drop the waiting
        questions."""
        if not self.stop(record.seq):
            self._stop_requests.add(record.seq)
            self.on_record(record)

    def on_recall(self, seq: int) -> None:
        """Drop a recalled record. A turn that this record woke ends at once; the person's other
        questions wake another turn."""
        self._backlog.on_recall(seq)
        self._prepared = None
        self._turns.on_recall(seq)
        self._news.set()

    def mark_handled(self, record: Record) -> None:
        """Mark a record as needing no answer: it is a command that was handled elsewhere."""
        self._backlog.handled.add(record.seq)

    def forget_person(self, user_id: str) -> None:
        """Drop a person's unanswered records."""
        self._backlog.forget_person(user_id)
        self._prepared = None

    def resume_turn(self, turn: TurnRow) -> None:
        """Resume a turn of an earlier process before any other turn begins."""
        self._interrupted = turn
        self._news.set()

    def stop(self, seq: int = 0) -> bool:
        """Stop the running turn at once, and drop all questions up to record ``seq``. If no turn
        runs, do nothing and return False."""
        return self._turns.stop(seq)

    def reset(self, seq: int) -> None:
        """Drop all questions up to record ``seq``, also those that plugins' hooks handle now. A
        running turn goes on."""
        self._reset_seq = max(self._reset_seq, seq)
        self._note_all(self._backlog.clear_before(seq + 1), DecisionReason.STOPPED)
        self._prepared = None
        self._news.set()

    async def live(self) -> None:
        """Answer messages until the chat has been silent for a while."""
        # All log lines of this task and the tasks that it starts name the chat.
        with logger.contextualize(chat_key=str(self.chat_key)):
            await self._live()

    async def _live(self) -> None:
        while True:
            self._news = anyio.Event()
            if await self._handle_news():
                with anyio.move_on_after(self._services.settings.session_idle_s) as silence:
                    await self._news.wait()
                if silence.cancelled_caught and self.idle:
                    return

    async def _handle_news(self) -> bool:
        """Handle the new records, and answer if they ask for it. Returns whether the chat has
        nothing to do now. The records are variables of this method, and not of `_live`: a chat
        that waits for news would keep 1.5 kB of them."""
        if not self._resumes_suspect():
            self._listening = True
            try:
                await self._listen()
            finally:
                self._listening = False
        if any(each.record.seq in self._stop_requests for each in self._backlog.fresh):
            return False  # A ``/stop`` arrived during the hooks. Handle it before a turn begins.
        if self._interrupted is not None:
            turn, self._interrupted = self._interrupted, None
            await self._resume(turn)
            return False
        policy = self._services.policies.of(self.chat_key)
        if policy.state is not ChatState.ON:  # The chat was switched off after the messages.
            reason = unheard_reason(policy.state)
            self._note_all((each.record for each in self._backlog.pending), reason)
            self._backlog.pending.clear()
        decision = decide(
            self._backlog.pending,
            now=self._services.clock(),
            wall=self._services.wall(),
            settings=policy.trigger,
            names=policy.names,
            forced=self._backlog.forced,
            followed=self._backlog.followed,
        )
        match decision:
            case StartTurn(record, why):
                await self._answer(record, why)
                return False
            case WaitForMore(seconds, record):
                await self._wait(seconds, record)
                return False
            case StaySilent(decisions):
                for each, decided in zip(self._backlog.pending, decisions, strict=True):
                    self._note(each.record, self._ignored(each.record) or decided)
                newest = self._backlog.pending[-1].record if self._backlog.pending else None
                self._backlog.clear_pending()
                self._prepared = None
                await self._note_silence()
                await self._consider_speaking(newest)
                return True

    async def _consider_speaking(self, newest: Record | None) -> None:
        """In a group with lively participation, wait until nobody has written for a while after the
        newest message. Then consider speaking unasked."""
        pause_s = self._unasked.pause_s(newest)
        if pause_s is None or newest is None:
            return
        with anyio.move_on_after(pause_s):
            await self._news.wait()
            return
        await self._unasked.consider(newest)

    async def _listen(self) -> None:
        """Handle new records: ``/stop``, and messages for the plugins' hooks."""
        while self._backlog.fresh:
            if self._waits_for_suspect(self._backlog.fresh[0].record):
                # Answer the earlier suspect before hearing this one.
                await anyio.sleep(_SUSPECT_S)
                self._news.set()
                return
            message = self._backlog.next_fresh()
            assert message is not None
            self._hearing = message.record
            try:
                await self._take(message.record)
                await self._hear(message)
            finally:
                self._hearing = None

    @property
    def _takes(self) -> RecordTakes | None:
        given = self._given()
        return given.takes if given is not None else None

    def _waits_for_suspect(self, record: Record) -> bool:
        """Return whether a record is a suspect, and must wait because an earlier suspect of this
        chat is not finished."""
        takes = self._takes
        if takes is None or not takes.is_suspect(record.seq):
            return False
        if self._suspects.free or self._suspects.is_for(record.seq):
            return False
        return self.has_in_hand(self._suspect)

    def _resumes_suspect(self) -> bool:
        """Return whether an interrupted turn must be resumed before new messages are heard, because
        the record that woke it is a suspect. Otherwise a new message that is a suspect too would
        wait for this turn, and this turn would wait until the message was heard. ``/stop`` is
        heard first."""
        takes, turn = self._takes, self._interrupted
        if takes is None or turn is None or not takes.is_suspect(turn.trigger_seq):
            return False
        return not any(each.record.seq in self._stop_requests for each in self._backlog.fresh)

    async def _take(self, record: Record) -> None:
        """If several processes share the work, store that this one has a record in hand. Wait for
        the commit, because the hooks may end the process at once. A suspect first waits until no
        other suspect is handled."""
        takes, seq = self._takes, record.seq
        if takes is None:
            return
        if takes.is_suspect(seq):
            await self._suspects.enter(seq, lambda: not self.has_in_hand(seq))
            self._suspect = seq
        await takes.take(self.chat_key, seq)

    async def _listen_for_turn(self) -> None:
        """Pass the new messages to the plugins' hooks before a turn reads them. If the turn is
        stopped while the hooks run, the hooks run on, because they may carry out a command."""
        if not self._backlog.fresh:
            return
        if self._turn_tasks is None:
            await self._listen()
            return
        over = anyio.Event()

        async def listen() -> None:
            try:
                await self._listen()
            except Exception as error:  # noqa: BLE001 - the turn must not fail because of a message
                logger.opt(exception=error).error("{}: a message is not heard", self.chat_key)
            finally:
                over.set()

        self._turn_tasks.start_soon(listen)
        await over.wait()

    async def _run_turn(
        self,
        request: TurnRequest,
        begin: Callable[[], TurnRecorder],
        prepared: PreparedTurn | None = None,
        *,
        exclusive: bool = False,
    ) -> bool:
        """See `TurnRunner.run`."""
        try:
            async with anyio.create_task_group() as self._turn_tasks:
                ran = await self._turns.run(request, begin, prepared, exclusive=exclusive)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            self._turn_tasks = None
        return ran

    async def _hear(self, message: PendingMessage) -> None:
        record = message.record
        if record.seq in self._stop_requests:
            self._stop_requests.remove(record.seq)
            await self._stop_waiting(record)
            return
        signal, plugin = MsgSignal.CONTINUE, ""
        if record.author is Author.PERSON:
            given, record = await self._hooks.ask(record)
            signal, plugin = given.signal, given.plugin
        if signal is MsgSignal.BLOCK_ALL:
            self._backlog.hidden.add(record.seq)
            await self._hooks.hide(record, plugin)
        elif signal is MsgSignal.BLOCK_TRIGGER:
            self._backlog.handled.add(record.seq)  # so that a running turn does not answer it
            await self._hooks.note_handled(record, DecisionReason.BLOCKED_BY_PLUGIN, plugin)
        else:
            if signal is MsgSignal.FORCE_TRIGGER:
                self._backlog.forced[record.seq] = plugin
            await self._follow(record)
            if record.seq <= self._reset_seq:
                self._note_all((record,), DecisionReason.STOPPED)
            elif await self._is_cooling_down(record):
                self._note_all((record,), DecisionReason.COOLDOWN)
            else:
                dropped = self._backlog.add_pending(PendingMessage(record, message.at))
                self._note_all(dropped, DecisionReason.OVERFLOW)

    def _judge(self, record: Record) -> MessageDecision:
        """Decide whether a record asks for an answer, and why, or why not."""
        if ignored := self._ignored(record):
            return ignored
        policy = self._services.policies.of(self.chat_key)
        return judge(
            record,
            wall=self._services.wall(),
            settings=policy.trigger,
            names=policy.names,
            forced=self._backlog.forced,
            followed=self._backlog.followed,
        )

    def _ignored(self, record: Record) -> MessageDecision | None:
        """Return the decision about a record whose author gets no answers; None for others."""
        if not self._services.policies.is_ignored(record):
            return None
        return MessageDecision(reason=ignored_reason(record))

    async def _follow(self, record: Record) -> None:
        """See `follow_message`."""
        verdict = await follow_message(record, self._services, self._followed_chats)
        if verdict is not None:
            self._backlog.followed[record.seq] = verdict

    def _note(self, record: Record, decision: MessageDecision) -> None:
        """Note the decision about a person's message. It is stored a moment later."""
        if record.author is Author.PERSON:
            self._services.store.decisions.note(record.seq, decision)

    def _note_all(self, records: Iterable[Record], reason: DecisionReason) -> None:
        for record in records:
            self._note(record, MessageDecision(reason=reason))

    async def _note_silence(self) -> None:
        """If no message waits, store that all messages up to the newest one that hooks have seen
        are handled, so that the hooks are not called for them again after a restart. If a voice is
        being transcribed, only the messages before it are handled."""
        seq = min((self._hooks.newest, *(each - 1 for each in self._expected)))
        if seq <= self._noted_seq or self._backlog:
            return
        self._noted_seq = seq
        try:
            await self._services.store.chats.mark_handled(self.chat_key, seq)
        except StoreUnavailable as error:
            logger.error("{}: message {}: {}", self.chat_key, seq, error)

    async def _is_cooling_down(self, record: Record) -> bool:
        """Return whether a record asks for an answer, but its sender gets none because of a
        cooldown. Such a sender may be another bot."""
        sender = record.sender.user_id
        if record.author is not Author.PERSON or not self._cooldown.counts(self.chat_key, sender):
            return False
        if not self._asks(record):
            return False
        state = self._cooldown.state(self.chat_key, sender)
        if state is CooldownState.NO:
            return False
        self._backlog.handled.add(record.seq)
        if state is CooldownState.BEGINS:
            seconds = f"{self._services.trigger.rest_s:g}"
            logger.warning(
                "{}: {} woke so many turns that it may be a bot which answers us; it is answered "
                "again after {} s of silence (NEKRO_TRIGGER__BURST_TURNS, __HOUR_TURNS)",
                self.chat_key,
                sender,
                seconds,
            )
            await self._notify([record], "turn.rests", seconds=seconds)
        return True

    async def _stop_waiting(self, record: Record) -> None:
        """Handle ``/stop`` while no turn runs: drop the questions before it."""
        were_waiting = self._backlog.clear_before(record.seq)
        self._note_all(were_waiting, DecisionReason.STOPPED)
        self._prepared = None
        await self._services.store.chats.mark_handled(self.chat_key, record.seq)
        if were_waiting:
            await self._notify([record], "turn.stopped")
        elif record.to_bot or self.chat_key.kind is ChatKind.PRIVATE:
            await self._notify([record], "turn.nothing_to_stop")

    async def _wait(self, seconds: float, record: Record) -> None:
        """Wait for new records, at most ``seconds``. Shortly before the end, prepare the turn."""
        due = anyio.current_time() + seconds
        with anyio.move_on_after(seconds - _PREPARE_S):
            await self._news.wait()
        if self._news.is_set():
            return
        try:
            self._prepared = await prepare_turn(self._services, self._request_for(record))
        except Exception as error:  # noqa: BLE001 (the turn will meet the same fault and report it)
            logger.debug("{}: nothing was prepared: {}", self.chat_key, error)
        with anyio.move_on_after(due - anyio.current_time() - TIMER_S):
            await self._news.wait()

    def _asks(self, record: Record) -> bool:
        """Return whether a record asks for an answer."""
        return record.seq not in self._backlog.handled and self._judge(record).reason.asks

    def _request_for(self, record: Record, *, resumed: bool = False) -> TurnRequest:
        """Return the request for a turn that answers this record and all later questions of the
        same person."""
        return TurnRequest(
            chat_key=self.chat_key,
            trigger_record=record,
            mark=lambda records: self._marks(records, record),
            listen=self._listen_for_turn,
            new_lines=NewLines(self._listen_for_turn, self._may_correct),
            judge=self._judge,
            resumed=resumed,
        )

    def _marks(self, records: Sequence[Record], trigger: Record) -> HistoryMarks:
        """Return how a turn must treat these records. A turn reads the history from the database,
        where other processes store records too. A record that was not given to this session yet
        was not passed to the plugins' hooks, and may be a command. So the turn reads it later."""
        marks, given = self._backlog.marks(records, trigger), self._given()
        if given is None:
            return marks
        late = {each.seq for each in records if each.author is Author.PERSON}
        late = {seq for seq in late if seq not in given and seq != trigger.seq}
        return replace(marks, unheard=marks.unheard | late)

    def _may_correct(self, record: Record) -> bool:
        """Return whether a new line of the person whom the turn answers may change the person's
        question. A line that answers or mentions somebody else does not change it."""
        own = self._services.store.accounts.own(self.chat_key.instance)
        named = {
            each.user_id if isinstance(each, Mention) else each.sender_id
            for each in record.segments
            if isinstance(each, Mention | Reply)
        }
        to_others = bool(named - {"", *own}) and not record.to_bot
        return self._backlog.is_open(record.seq) and not to_others

    async def _answer(self, record: Record, why: MessageDecision) -> None:
        """Run one turn that answers all waiting questions of the record's author."""
        services, decided = self._services, self._services.clock()
        if record.author is Author.PERSON:
            self._unasked.reacted()
        arrived = self._backlog.arrival(record)
        through = max(each.record.seq for each in self._backlog.pending)

        def begin() -> TurnRecorder:
            logger.info("{}: a turn for record {} ({})", self.chat_key, record.seq, why.reason)
            self._cooldown.note(self.chat_key, record.sender.user_id)
            begin_row = partial(
                services.store.turns.begin,
                self.chat_key,
                trigger_seq=record.seq,
                through_seq=through,
                user_id=record.sender.user_id,
                decision=why,
                model=services.policies.of(self.chat_key).model.profile.name,
                times=begin_times(
                    why.reason.value,
                    services.wall(),
                    services.clock(),
                    arrived=arrived,
                    decided=decided,
                ),
            )
            recorder = TurnRecorder(services.store, self.chat_key, begin_row, through_seq=through)
            self._recorder = record.seq, recorder
            recorder.begin_after_request()
            return recorder

        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared.request.trigger_record is not record:
            prepared = None
        request = prepared.request if prepared else self._request_for(record)
        if not await self._run_turn(request, begin, prepared):
            await anyio.sleep(STORE_PAUSE_S)
            oldest = services.clock() - services.trigger.recover_age_s
            late = (each.record for each in self._backlog.pending if each.at <= oldest)
            self._note_all(late, DecisionReason.TOO_OLD)
            self._backlog.pending = [each for each in self._backlog.pending if each.at > oldest]

    async def _resume(self, turn: TurnRow) -> None:
        """Resume a turn of an earlier process, or end it; see `InterruptedTurns`."""
        store = self._services.store
        found = await self._interrupted_turns.end_unless_resumable(turn, self._takes)
        if found is None:
            return
        trigger = found.trigger

        def begin() -> TurnRecorder:
            logger.info("{}: turn {} is resumed", self.chat_key, turn.turn_id)
            resume_row = partial(store.turns.resume, turn.turn_id)
            recorder = TurnRecorder(store, self.chat_key, resume_row, through_seq=turn.through_seq)
            self._recorder = trigger.seq, recorder
            return recorder

        self._hearing = trigger
        try:
            await self._take(trigger)
            request = self._request_for(trigger, resumed=True)
            ran = await self._run_turn(request, begin, exclusive=found.suspect)
        finally:
            self._hearing = None
        if not ran:
            await anyio.sleep(STORE_PAUSE_S)
            self._interrupted = turn

    async def _notify(self, records: Sequence[Record], key: str, **values: str) -> None:
        await self._services.notices.send(self.chat_key, records, key, **values)
