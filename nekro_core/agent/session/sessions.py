"""Owns the sessions of all chats, and the tasks in which they run."""

from collections.abc import Callable, Collection, Coroutine, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.agent.commands.builtin import builtin_commands
from nekro_core.agent.commands.services import CommandServices
from nekro_core.agent.erasure.erasure import ErasureReport, PersonErasure
from nekro_core.agent.participation.followed_chats import FollowedChats
from nekro_core.agent.session.chat_tasks import ChatTasks
from nekro_core.agent.session.given_records import GivenRecords
from nekro_core.agent.session.record_takes import GIVEN_UP, RecordTakes, SuspectGate
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.session import Session
from nekro_core.agent.session.shared_commands import SharedCommands
from nekro_core.agent.session.turn_decisions import ignored_reason, unheard_reason
from nekro_core.agent.session.turn_runner import TurnSlots
from nekro_core.agent.session.unasked_turns import UnaskedTurns, unasked_speech
from nekro_core.chat import Author, ChatKey, ChatKind, Record
from nekro_core.delivery.activity import Working
from nekro_core.llm.model import ChatModel, ChatRequest, ModelError
from nekro_core.plugins.tasks.interrupted import report_interrupted
from nekro_core.policy import ChatState, without_thread
from nekro_core.policy.cooldown import Cooldown, CooldownState
from nekro_core.store import (
    DecisionReason,
    MessageDecision,
    OwnershipLost,
    Person,
    StoreUnavailable,
    UnansweredMessages,
    writing_as,
)
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.store.turns import UnansweredSeqs
from nekro_core.system.shared_reading import SharedReading

_TAKES_KEPT_S = 3600.0
"""Minimum number of seconds for which it counts that an owner ended with a record in hand. It
counts for twice `TriggerSettings.recover_age_s` if that is longer. A record that is older than
``recover_age_s`` is not handled any more."""
PrepareChat = Callable[[ChatKey], Coroutine[Any, Any, None]]
"""Prepares a chat before there is work in it. It must not raise, and must limit its own time."""

_AFTER_FAULT_S = 1.0
_PREPARED_S = 0.5
"""Maximum number of seconds that `Sessions.prepare` waits for the model. A model that runs on a
server is ready earlier."""
_TURN_ENDS_S = 10.0
"""Maximum number of seconds that a reset or an erasure waits for the end of the turn that it
stopped."""


class Sessions:
    """Passes each record of the inbox to the session of its chat. An async context manager.

    A chat has at most one session. The session ends when the chat is silent. At most
    ``settings.concurrent_turns`` turns of all chats run at the same time; each has a *slot*. At the
    end of the ``async with`` block, all turns are stopped. The store does not mark them as ended,
    so `recover` of the next process resumes them.
    """

    def __init__(
        self,
        services: SessionServices,
        commands: CommandServices,
        model: ChatModel,
        erasing: PersonErasure | None = None,
    ) -> None:
        self._services = services
        self._command_services = commands
        self._commands = commands.router
        self._model = model
        self._erasing = erasing
        self._sessions: dict[ChatKey, Session] = {}
        self._slots = TurnSlots(services.settings)
        self._suspects = SuspectGate()
        self.shared_commands = SharedCommands(
            services, commands.router, lambda record: self.on_record(record, 0.0)
        )
        self._followed_chats = FollowedChats(services.store)
        self._speech = unasked_speech(services)
        self._turn_cooldown = Cooldown(services.trigger, services.clock)
        self._command_cooldown = Cooldown(services.trigger, services.clock)
        self._tasks: TaskGroup | None = None
        self._chat_tasks: ChatTasks | None = None
        self._unanswered = SharedReading(self._list_unanswered)
        self.given_of: Callable[[ChatKey], GivenRecords | None] = lambda _: None
        """Returns which records of a chat were given to its session, if the chat's records come
        from the log of a partition. A process that shares the work sets it."""

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        self._chat_tasks = ChatTasks(self._tasks)
        self._tasks.start_soon(self._services.boxes.watch, name="sleep of idle boxes")
        self._tasks.start_soon(
            self._services.policies.conduct.follow, name="a look at conduct.toml"
        )
        book = self._commands.book
        self._leave = [
            book.add_builtin(command)
            for command in builtin_commands(self, self._command_services, self._erasing)
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        for leave in self._leave:
            leave()
        self._tasks.cancel_scope.cancel()
        # Do not pass on the error of the caller's block: the task group would wrap it in an
        # exception group.
        await self._tasks.__aexit__(None, None, None)
        await self._services.boxes.aclose()

    async def recover(
        self,
        chats: ChatScope = every_chat,
        *,
        prepare: PrepareChat | None = None,
        given: GivenRecords | None = None,
    ) -> None:
        """Continue the work of an earlier process in some chats: resume its unfinished turns, then
        answer its unanswered records. Call this once for each chat, after the outbox is open, and
        before the chat's next record is handed over. A process that runs alone calls it before the
        adapters start. A process that shares the work calls it whenever it takes chats over.

        Args:
            chats: The chats.
            prepare: Called with each of these chats in which there is work, before the work begins.
            given: Gets the numbers of the records that are given to sessions. If it is set, further
                records come from the log of a partition, and the database says whether a command
                was begun.
        """
        assert self._tasks is not None, "enter the sessions first"
        store, commands = self._services.store, self._commands
        takes = given.takes if given is not None else None
        if takes is not None:
            kept_s = max(_TAKES_KEPT_S, 2 * self._services.trigger.recover_age_s)
            await takes.begin(since=self._services.wall() - kept_s)
        handled = await commands.restore(chats)
        interrupted = await store.turns.interrupted(chats)
        newest, waiting = await self._unanswered_in(chats)
        if prepare is not None:
            await _prepare_all(
                prepare, {each.chat_key for each in interrupted} | {e.chat_key for e in waiting}
            )
        # Do not await in these loops: a turn that ends must already know all waiting questions.
        for turn in interrupted:
            self._session(turn.chat_key).resume_turn(turn)
        await self._give_unanswered(waiting, handled, newest, given)
        # Do this last: it adds system lines, which the loops above must not handle. The inbox
        # passes these lines to `on_record`.
        await report_interrupted(store, self._services.inbox, chats)
        if takes is not None:
            assert self._chat_tasks is not None
            await self.shared_commands.find_cut(takes, self._chat_tasks)

    async def look(self, chats: ChatScope, *, prepare: PrepareChat, given: GivenRecords) -> None:
        """Look for unanswered records of some chats that nobody has given to the sessions. Another
        process may have stored a record and ended before it could tell this process. For the
        arguments see `recover`."""
        newest, waiting = await self._unanswered_in(chats)
        new = {
            each.chat_key
            for each in waiting
            if any(record.seq not in given for record in each.records)
        }
        await _prepare_all(prepare, new)
        await self._give_unanswered(
            [e for e in waiting if e.chat_key in new], frozenset(), newest, given
        )

    async def _unanswered_in(self, chats: ChatScope) -> tuple[int, list[UnansweredMessages]]:
        """Return the unanswered records of some chats, and the number of the newest record before
        they were read."""
        newest, listed = await self._unanswered.get()
        return newest, await self._services.store.turns.read_unanswered(listed, chats)

    async def _list_unanswered(self) -> tuple[int, list[UnansweredSeqs]]:
        """List the unanswered records of all chats. A process that takes over a third of the
        partitions of a busy cluster would need seconds if it listed them for each partition."""
        store = self._services.store
        since = self._services.wall() - self._services.trigger.recover_age_s
        newest = await store.messages.newest_seq()
        listed = await store.turns.list_unanswered(since=since)
        with writing_as(None):  # The write concerns the chats of all owners.
            await store.decisions.mark_too_old(since=since)
        return newest, listed

    async def _give_unanswered(
        self,
        waiting: Sequence[UnansweredMessages],
        handled: AbstractSet[int],
        newest: int,
        given: GivenRecords | None,
    ) -> None:
        """Give unanswered records to their sessions. ``handled`` are the numbers of those that were
        answers to questions of commands. ``newest`` is the number of the newest record before the
        unanswered ones were read. Records that ended too many owners are given up."""
        commands, store = self._commands, self._services.store
        # Skip records in the inbox's queue: they will be passed to `on_record`, and must not be
        # handled twice.
        queued = {event.record.seq for event in self._services.inbox.queued}
        unheard: list[Record] = []
        deadly: list[Record] = []
        for chat in waiting:
            if given is None:
                left = [record for record in chat.records if record.seq not in queued]
            else:
                left = [record for record in chat.records if record.seq not in given]
                deadly += [record for record in left if _is_deadly(record, given)]
                left = [record for record in left if record not in deadly]
            records = [record for record in left if self._hears(record)]
            if not records:
                unheard += left[-1:]
                continue
            session = self._session(chat.chat_key)
            for record in records:
                if given is not None:
                    given.add(record.seq)
                    if self.shared_commands.has(record) and record.seq not in handled:
                        session.mark_handled(record)
                        self._run_shared_command(record, given)
                        continue
                # A command that may have run already must not run twice.
                done = record.seq in handled or commands.is_command(record)
                if done or self._runs_command(record):
                    session.mark_handled(record)
                else:
                    self._give_to_session(record)
        if given is not None:
            # Before the first await: a turn reads only records that were given.
            given.all_through(newest)
            for record in deadly:
                given.add(record.seq)
                await self._give_up(record, given)
        for record in unheard:
            # These records get no answer. Mark them as handled, so that the next start does not
            # read them again.
            await store.chats.mark_handled(record.chat_key, record.seq)

    async def release(self, chats: ChatScope) -> None:
        """End the work in some chats without answering, because another process takes them over.

        Their sessions end. A running turn is cut off, and the store does not mark it as ended.
        Waiting messages stay stored as unanswered. So `recover` of the other process continues the
        work. Questions of commands stay stored too. Commands that run are not cut off. When this
        method returns, no task of these chats' sessions runs. Do not hand over records of these
        chats before the next `recover`."""
        assert self._chat_tasks is not None, "enter the sessions first"
        self._commands.release(chats)
        await self._chat_tasks.end(chats)

    async def prepare(self) -> None:
        """Begin to prepare the model before the first question: load the model's library, and let
        the model process the beginning that all prompts of a language share. The method waits for
        the model at most `_PREPARED_S`. This is enough for a model on a server, which takes 0.1 s.
        The embedded model takes half a minute and is prepared in the background."""
        assert self._tasks is not None, "enter the sessions first"
        ready = anyio.Event()
        self._tasks.start_soon(self._prepare, ready, name="preparation of the model")
        if not self._model.profile.prefers_examples:
            with anyio.move_on_after(_PREPARED_S):
                await ready.wait()

    async def _prepare(self, ready: anyio.Event) -> None:
        model, settings = self._model, self._services.settings
        likely: list[ChatRequest] = []
        if model.profile.prefers_examples:
            from nekro_core.agent.prompt.small_prompt import (  # noqa: PLC0415 - seldom needed
                beginnings,
            )

            nowhere = ChatKey("web", ChatKind.PRIVATE, "prepare")
            tools = self._services.discovery.with_search_tool(
                self._services.plugins.tools_for(nowhere)
            )
            # This also prepares the comparison of questions with the worked examples, which takes
            # 0.1 s.
            likely = await anyio.to_thread.run_sync(
                partial(beginnings, tools, persona=settings.persona, language=settings.language)
            )
        try:
            await model.prepare(likely)
        except ModelError as error:
            # The first question will fail in the same way. The chat then gets a notice.
            logger.warning("the model is not ready: {}", error)
        except Exception:  # noqa: BLE001 (a library that cannot be loaded must not end the bot)
            logger.exception("the model cannot be made ready")
        finally:
            ready.set()

    def on_record(self, record: Record, age_s: float) -> None:
        """Pass a new record, which arrived ``age_s`` seconds ago, to the command router or to the
        chat's session. Call this for each stored record, in order."""
        assert self._tasks is not None, "enter the sessions first"
        if self._services.policies.is_ignored(record):
            self._note(record, ignored_reason(record))
            return
        if self._is_flood(record):
            self._note(record, DecisionReason.COMMAND_FLOOD)
            return
        if not self._runs_command(record):
            if self._hears(record):
                self._give_to_session(record, age_s)
            return
        session = self._sessions.get(record.chat_key)
        if session is None or session.idle:
            self._tasks.start_soon(self._mark_handled, record)
        else:
            session.mark_handled(record)

    async def take_shared_record(self, chat_key: ChatKey, seq: int, given: GivenRecords) -> bool:
        """Store that this process takes up a record that the log of a partition names. Call this
        before the record's media are brought, and `on_shared_record` after. Returns False if the
        record was given to its session already, or is given up now. If it may have ended earlier
        owners, wait until no other such record is handled: if that one ended the process, it would
        count against this one too. Raises `OwnershipLost`."""
        if seq in given:
            return False
        if given.takes is not None and given.takes.is_deadly(seq):
            # It is not among the records that `recover` finds, for example because of its age.
            given.add(seq)
            if (record := await self._services.store.messages.get(seq)) is not None:
                await self._give_up(record, given)
            return False
        if (takes := given.takes) is None:
            return True
        if takes.is_suspect(seq):
            await self._suspects.enter(
                seq, lambda: not (takes.brings(seq) or self._has_in_hand(chat_key, seq))
            )
            if seq in given:  # `look` has given it to its session meanwhile.
                return False
        await takes.take(chat_key, seq, bringing=True)
        return True

    def on_shared_record(self, record: Record, given: GivenRecords, *, age_s: float = 0.0) -> None:
        """Pass a record that the log of a partition names; see `GivenRecords`. Its message arrived
        ``age_s`` seconds ago."""
        if given.takes is not None:
            given.takes.handed_over(record.seq)
        if not given.add(record.seq):
            return
        if self.shared_commands.has(record):
            self._run_shared_command(record, given)
        else:
            self.on_record(record, age_s)

    def finish_takes(self, takes: RecordTakes) -> None:
        """Delete the rows of those records of a partition that nobody has in hand any more. Call
        this about once a second."""
        takes.finish(self._has_in_hand)

    def _has_in_hand(self, chat_key: ChatKey, seq: int) -> bool:
        if seq in self.shared_commands.begun:
            return True
        session = self._sessions.get(chat_key)
        return session is not None and session.has_in_hand(seq)

    async def _give_up(self, record: Record, given: GivenRecords) -> None:
        """Do not handle a record that too many owners of its chat had in hand when they ended. Tell
        the chat, and store the decision, which the operator's alert counts."""
        assert given.takes is not None
        chat_key, store = record.chat_key, self._services.store
        logger.error(
            "{}: record {} is given up: {} workers ended while they had it in hand",
            chat_key,
            record.seq,
            given.takes.earlier(record.seq),
        )
        decision = MessageDecision(reason=DecisionReason.FAILED, detail=GIVEN_UP)
        await store.messages.mark_answered_elsewhere(record, decision)
        given.takes.finish_one(record.seq)
        await self._services.notices.send(chat_key, [record], "turn.ended_workers")

    def _run_shared_command(self, record: Record, given: GivenRecords) -> None:
        """Run a command, unless another process has begun it."""
        assert self._tasks is not None, "enter the sessions first"
        session = self._sessions.get(record.chat_key)
        if session is not None and not session.idle:
            session.mark_handled(record)
        self.shared_commands.start(record, given.takes, self._tasks)

    def _runs_command(self, record: Record) -> bool:
        """Start the command that a record contains. Returns False if it contains none.

        A command that has begun belongs to this process until it ends, whoever owns the chat by
        then. So it runs without an ownership: its writes are not refused when the chat gets
        another owner, and the outbox leaves its answer to that owner."""
        assert self._tasks is not None, "enter the sessions first"
        with writing_as(None):
            command = self._commands.on_record(record, self._tasks.start_soon)
        if command:
            self._note(record, DecisionReason.COMMAND, command)
        return bool(command)

    def _hears(self, record: Record) -> bool:
        """Return whether the agent gets a record. If not, store why."""
        policies = self._services.policies
        if policies.hears(record):
            return True
        state = policies.of(record.chat_key).state
        heard = state is ChatState.ON
        self._note(record, ignored_reason(record) if heard else unheard_reason(state))
        return False

    def _note(self, record: Record, reason: DecisionReason, detail: str = "") -> None:
        """Store the decision that the agent does not get a person's message, with the reason."""
        if record.author is Author.PERSON:
            decision = MessageDecision(reason=reason, detail=detail)
            self._services.store.decisions.note(record.seq, decision)

    def _is_flood(self, record: Record) -> bool:
        """Return whether a record is a command of a sender who runs more commands than people do.
        Such a sender may be another bot that answers this bot with commands, so the sender gets no
        answer; see `Cooldown`."""
        commands, key, user = self._commands, record.chat_key, record.sender.user_id
        if not commands.is_command(record) or commands.is_privileged(record):
            return False
        state = self._command_cooldown.state(key, user)
        if state is CooldownState.NO:
            self._command_cooldown.note(key, user)
        elif state is CooldownState.BEGINS:
            logger.warning(
                "{}: {} sent so many commands that none of theirs runs for a while", key, user
            )
        return state is not CooldownState.NO

    def _give_to_session(self, record: Record, age_s: float = 0.0) -> None:
        """Pass a record to the chat's session. A voice message in a group that is not addressed to
        the bot first waits for its transcript, because the transcript may contain the bot's name.
        For other voice messages the turn waits for the transcript."""
        transcriber, key = self._services.transcriber, record.chat_key
        age = self._services.wall() - record.time
        # Transcribing all voice messages that were sent while the bot was offline would cost too
        # much.
        old = record.from_history and age > self._services.trigger.history_age_s
        begun = transcriber is not None and not old and transcriber.begin(record)
        if not begun or record.to_bot or key.kind is ChatKind.PRIVATE:
            self._session(key).on_record(record, age_s=age_s)
        else:
            assert self._chat_tasks is not None
            self._session(key).expect(record.seq)
            give = partial(self._give_transcribed, record, age_s)
            self._chat_tasks.start(key, give, name=f"voice in {key}")

    async def _give_transcribed(self, record: Record, age_s: float) -> None:
        assert self._services.transcriber is not None
        began = self._services.clock()
        record = await self._services.transcriber.transcribed(record)
        age_s += self._services.clock() - began
        self._session(record.chat_key).on_record(record, age_s=age_s)

    def forget_person(self, chat_key: ChatKey, user_id: str) -> None:
        """Drop a person's unanswered records. If a command has asked the person something and waits
        for the answer, drop that question too."""
        self._services.inbox.forget_person(chat_key, user_id)
        self._commands.forget(chat_key, user_id)
        self._followed_chats.forget(chat_key)
        if (session := self._sessions.get(chat_key)) is not None:
            session.forget_person(user_id)

    async def forget_erased(self, _: str = "") -> None:
        """Drop waiting records that are not stored any more, because another process has erased
        their author. A turn that such a record woke ends at once. Raises `StoreError`."""
        for chat_key, session in [*self._sessions.items()]:
            for record in session.held:
                if await self._services.store.messages.get(record.seq) is None:
                    self._followed_chats.forget(chat_key)
                    session.on_recall(record.seq)

    def on_recall(self, record: Record) -> None:
        """Tell the chat's session that a message was recalled. Call this for each recall."""
        if (session := self._sessions.get(record.chat_key)) is not None:
            session.on_recall(record.seq)

    def on_stop(self, record: Record) -> None:
        """Tell the chat's session that a person wrote ``/stop``."""
        self._session(record.chat_key).on_stop(record)

    async def _mark_handled(self, record: Record) -> None:
        try:
            await self._services.store.chats.mark_handled(record.chat_key, record.seq)
        except StoreUnavailable as error:
            logger.error(
                "{}: command {} cannot be marked as handled: {}", record.chat_key, record.seq, error
            )

    @property
    def turns_running(self) -> int:
        """The number of turns of all chats that run now."""
        return self._slots.running

    @property
    def turns_waiting(self) -> int:
        """The number of turns of all chats that wait for a slot."""
        return self._slots.waiting

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn and send the chat a notice. Returns False if no turn
        runs."""
        session = self._sessions.get(chat_key)
        return session is not None and session.stop()

    async def reset(self, chat_key: ChatKey, before: int = 0) -> None:
        """Begin a new conversation: stop the running turn, call the plugins' hooks, remove the
        boxes, and drop the waiting messages (only those before record ``before``, if given). The
        earlier records stay in the store, but no prompt shows them. Raises `OSError` and
        `StoreError`."""
        services, session = self._services, self._sessions.get(chat_key)
        # Drop the waiting questions of other people too: they belong to the earlier conversation.
        newest = before or (session.newest if session else 0)
        await self._stop_and_wait(chat_key, newest)
        if session is not None:
            session.reset(newest)
        await services.plugins.on_channel_reset(services.plugins.context_for(chat_key))
        await services.discovery.forget(chat_key)
        await services.boxes.destroy(chat_key)
        note = await services.inbox.note(chat_key, "A new conversation begins.", begins_anew=True)
        await services.store.chats.mark_handled(chat_key, before or note.seq)
        logger.info("{}: the conversation begins anew", chat_key)

    async def _stop_and_wait(self, chat_key: ChatKey, seq: int = 0) -> None:
        """Stop the chat's running turn, drop all questions up to record ``seq``, and wait until the
        turn has written its end, at most `_TURN_ENDS_S`. If no turn runs, do nothing."""
        async with self._services.activity.watch(chat_key) as activities:
            session = self._sessions.get(chat_key)
            if session is None or not session.stop(seq):
                return
            with anyio.move_on_after(_TURN_ENDS_S):
                async for activity in activities:
                    if activity == Working(chat_key, busy=False):
                        return

    async def follow_state(self, chat_key: ChatKey, was: ChatState) -> None:
        """Act on a change of the state of a chat and its threads. ``was`` is the state before the
        change. If the bot no longer answers there, stop the running turns. If the bot answers there
        again, mark the messages from before the change as handled. So they stay unanswered, also
        after a restart. Raises `StoreError`."""
        store, conduct = self._services.store, self._services.policies.conduct
        for key, session in self._sessions.items():
            if chat_key in (key, without_thread(key)) and conduct.state(key) is not ChatState.ON:
                session.stop()
        if was is ChatState.ON or conduct.state(chat_key) is not ChatState.ON:
            return
        for key, newest in [*(await store.messages.newest_seqs()).items()]:
            if chat_key in (key, without_thread(key)):
                await store.chats.mark_handled(key, newest)

    async def erase_person(self, chat_key: ChatKey, user_id: str) -> ErasureReport:
        """Erase a person of the chat's platform everywhere. Raises `StoreError`."""
        erasing, plugins = self._erasing, self._services.plugins
        assert erasing is not None, "a bot without erasure has no command for it"
        person = erasing.person(chat_key, user_id)
        ctx = plugins.context_for(chat_key)
        return await erasing.erase(
            person,
            stop=partial(self._end_turn_of, user_id),
            drop=self.forget_person,
            plugins=partial(plugins.on_user_erase, ctx, person.adapter, user_id),
        )

    async def erase_here(self, person: Person) -> list[str]:
        """See `PersonErasure.erase_here`."""
        assert self._erasing is not None, "a bot without erasure has no other processes"
        stop = partial(self._end_turn_of, person.user_id)
        return await self._erasing.erase_here(person, stop=stop, drop=self.forget_person)

    async def _end_turn_of(self, user_id: str, chat_key: ChatKey) -> None:
        # First drop the person's questions: otherwise the next turn would begin when this turn
        # ends. Then wait for the end of the turn: otherwise the turn could write rows about the
        # person after these were deleted.
        self.forget_person(chat_key, user_id)
        await self._stop_and_wait(chat_key)

    def working(self, chat_key: ChatKey) -> bool:
        """Return whether a turn of the chat runs or waits for a slot."""
        session = self._sessions.get(chat_key)
        return session is not None and session.working

    def at_work(self, chat_key: ChatKey) -> bool:
        """Return whether the bot is handling a record of the chat: a command or a turn runs, or
        plugins' hooks handle the record."""
        session = self._sessions.get(chat_key)
        busy = session is not None and session.at_work
        return busy or self._commands.is_busy(chat_key)

    async def wait_until_idle(self, chat_key: ChatKey) -> None:
        """Wait until no turn of the chat runs or waits for a slot."""
        if (session := self._sessions.get(chat_key)) is not None:
            await session.wait_until_idle()

    async def finish_turns(self, chats: ChatScope) -> None:
        """Wait until no turn of these chats runs."""
        while busy := [s for key, s in self._sessions.items() if s.working and chats(key)]:
            await busy[0].wait_until_idle()

    @property
    def live_count(self) -> int:
        """The number of chats that have a session."""
        return len(self._sessions)

    def _session(self, chat_key: ChatKey) -> Session:
        session = self._sessions.get(chat_key)
        if session is None:
            assert self._chat_tasks is not None, "enter the sessions first"
            session = Session(
                chat_key,
                self._services,
                self._slots,
                self._turn_cooldown,
                self._followed_chats,
                UnaskedTurns(chat_key, self._services, self._speech),
                partial(self._given_of, chat_key),
                self._suspects,
            )
            self._sessions[chat_key] = session
            self._chat_tasks.start(
                chat_key, partial(self._live, session), name=f"session of {chat_key}"
            )
        return session

    async def _live(self, session: Session) -> None:
        try:
            while True:
                try:
                    await session.live()
                except OwnershipLost as error:
                    logger.info("{}: the session ends: {}", session.chat_key, error)
                    return
                except Exception:  # noqa: BLE001 (one chat's fault must not end the others)
                    logger.exception("{}: the session failed and continues", session.chat_key)
                    await anyio.sleep(_AFTER_FAULT_S)
                else:
                    return
        finally:
            self._forget(session)

    def _given_of(self, chat_key: ChatKey) -> GivenRecords | None:
        return self.given_of(chat_key)

    def _forget(self, session: Session) -> None:
        if self._sessions.get(session.chat_key) is session:
            del self._sessions[session.chat_key]


def _is_deadly(record: Record, given: GivenRecords) -> bool:
    """Return whether a record is given up, because too many owners of its chat ended while they had
    it in hand."""
    return given.takes is not None and given.takes.is_deadly(record.seq)


async def _prepare_all(prepare: PrepareChat, chats: Collection[ChatKey]) -> None:
    """Prepare several chats at the same time."""
    async with anyio.create_task_group() as tasks:
        for chat_key in chats:
            tasks.start_soon(prepare, chat_key)
