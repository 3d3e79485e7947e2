"""Owns the sessions of all chats, and the tasks in which they run."""

from functools import partial
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.agent.commands.builtin import builtin_commands
from nekro_core.agent.commands.services import CommandServices
from nekro_core.agent.erasure.erasure import ErasureReport, PersonErasure
from nekro_core.agent.participation.followed_chats import FollowedChats
from nekro_core.agent.prompt.small_prompt import beginnings
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.session import Session
from nekro_core.agent.session.turn_decisions import ignored_reason, unheard_reason
from nekro_core.agent.session.turn_runner import TurnSlots
from nekro_core.agent.session.unasked_turns import UnaskedTurns, unasked_speech
from nekro_core.chat import Author, ChatKey, ChatKind, Record
from nekro_core.delivery.activity import Working
from nekro_core.llm.model import ChatModel, ChatRequest, ModelError
from nekro_core.plugins.tasks.interrupted import report_interrupted
from nekro_core.policy import ChatState, without_thread
from nekro_core.policy.cooldown import Cooldown, CooldownState
from nekro_core.store import DecisionReason, MessageDecision, StoreUnavailable
from nekro_core.store.ownership import ChatScope, every_chat

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
        self._followed_chats = FollowedChats(services.store)
        self._speech = unasked_speech(services)
        self._turn_cooldown = Cooldown(services.trigger, services.clock)
        self._command_cooldown = Cooldown(services.trigger, services.clock)
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
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

    async def recover(self, chats: ChatScope = every_chat) -> None:
        """Continue the work of an earlier process in some chats: resume its unfinished turns, then
        answer its unanswered records. Call this once for each chat, after the outbox is open, and
        before the chat's next record is handed over. A process that runs alone calls it before the
        adapters start."""
        assert self._tasks is not None, "enter the sessions first"
        store, now, commands = self._services.store, self._services.wall(), self._commands
        handled = await commands.restore(chats)
        interrupted = await store.turns.interrupted(chats)
        since = now - self._services.trigger.recover_age_s
        waiting = await store.turns.unanswered(since=since, chats=chats)
        await store.decisions.mark_too_old(since=since)
        # Skip records in the inbox's queue: they will be passed to `on_record`, and must not be
        # handled twice.
        queued = {event.record.seq for event in self._services.inbox.queued}
        unheard: list[Record] = []
        # Do not await in these loops: a turn that ends must already know all waiting questions.
        for turn in interrupted:
            self._session(turn.chat_key).resume_turn(turn)
        for chat in waiting:
            left = [record for record in chat.records if record.seq not in queued]
            records = [record for record in left if self._hears(record)]
            if not records:
                unheard += left[-1:]
                continue
            session = self._session(chat.chat_key)
            for record in records:
                # A command that may have run already must not run twice.
                done = record.seq in handled or commands.is_command(record)
                if done or self._runs_command(record):
                    session.mark_handled(record)
                else:
                    self._give_to_session(record)
        for record in unheard:
            # These records get no answer. Mark them as handled, so that the next start does not
            # read them again.
            await store.chats.mark_handled(record.chat_key, record.seq)
        # Do this last: it adds system lines, which the loops above must not handle. The inbox
        # passes these lines to `on_record`.
        await report_interrupted(store, self._services.inbox, chats)

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

    def _runs_command(self, record: Record) -> bool:
        """Start the command that a record contains. Returns False if it contains none."""
        assert self._tasks is not None, "enter the sessions first"
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
            assert self._tasks is not None
            self._session(key).expect(record.seq)
            self._tasks.start_soon(self._give_transcribed, record, age_s, name=f"voice in {key}")

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
        await self._stop_and_wait(chat_key, before or (session.newest if session else 0))
        await services.plugins.on_channel_reset(services.plugins.context_for(chat_key))
        await services.discovery.forget(chat_key)
        await services.boxes.destroy(chat_key)
        note = await services.inbox.note(chat_key, "A new conversation begins.", begins_anew=True)
        await services.store.chats.mark_handled(chat_key, before or note.seq)
        logger.info("{}: the conversation begins anew", chat_key)

    async def _stop_and_wait(self, chat_key: ChatKey, seq: int = 0) -> None:
        """Stop the chat's running turn, drop all questions up to record ``seq``, and wait until the
        turn has written its end."""
        async with self._services.activity.watch(chat_key) as activities:
            session = self._sessions.get(chat_key)
            if session is None or not session.stop(seq):
                return
            with anyio.move_on_after(_TURN_ENDS_S):
                async for activity in activities:
                    if activity == Working(chat_key, busy=False):
                        return

    async def follow_state(self, chat_key: ChatKey, was: ChatState) -> None:
        """Act on a change of the state of a chat and its threads. If the bot no longer answers
        there, stop the running turns. If the bot answers there again, mark the messages from before
        the change as handled. So they stay unanswered, also after a restart. Raises
        `StoreError`."""
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

        async def stop(key: ChatKey) -> None:
            # First drop the person's questions: otherwise the next turn would begin when this turn
            # ends. Then wait for the end of the turn: otherwise the turn could write rows about the
            # person after these were deleted.
            self.forget_person(key, user_id)
            await self._stop_and_wait(key)

        return await erasing.erase(
            person,
            stop=stop,
            drop=self.forget_person,
            plugins=partial(plugins.on_user_erase, ctx, person.adapter, user_id),
        )

    def working(self, chat_key: ChatKey) -> bool:
        """Return whether a turn of the chat runs."""
        session = self._sessions.get(chat_key)
        return session is not None and session.working

    def at_work(self, chat_key: ChatKey) -> bool:
        """Return whether the bot is handling a record of the chat: a command or a turn runs, or
        plugins' hooks handle the record."""
        session = self._sessions.get(chat_key)
        busy = session is not None and session.at_work
        return busy or self._commands.is_busy(chat_key)

    async def wait_until_idle(self, chat_key: ChatKey) -> None:
        """Wait until no turn of the chat runs."""
        if (session := self._sessions.get(chat_key)) is not None:
            await session.wait_until_idle()

    @property
    def live_count(self) -> int:
        """The number of chats that have a session."""
        return len(self._sessions)

    def _session(self, chat_key: ChatKey) -> Session:
        session = self._sessions.get(chat_key)
        if session is None:
            assert self._tasks is not None, "enter the sessions first"
            session = Session(
                chat_key,
                self._services,
                self._slots,
                self._turn_cooldown,
                self._followed_chats,
                UnaskedTurns(chat_key, self._services, self._speech),
            )
            self._sessions[chat_key] = session
            self._tasks.start_soon(self._live, session, name=f"session of {chat_key}")
        return session

    async def _live(self, session: Session) -> None:
        try:
            while True:
                try:
                    await session.live()
                except Exception:  # noqa: BLE001 (one chat's fault must not end the others)
                    logger.exception("{}: the session failed and continues", session.chat_key)
                    await anyio.sleep(_AFTER_FAULT_S)
                else:
                    return
        finally:
            self._sessions.pop(session.chat_key, None)
