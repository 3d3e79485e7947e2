"""Converts the events of a stock adapter (an adapter of NoneBot) and hands them to the host. The
events of a chat stay in the order of arrival."""

import math
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from loguru import logger
from nonebot.adapters import Bot, Event
from nonebot_plugin_alconna import uniseg
from nonebot_plugin_alconna.uniseg import Target

from nekro_core.api.adapter import (
    Host,
    KeyedQueue,
    MatcherDecision,
    Prefetch,
    accept_patiently,
    dispatch_event,
    has_matchers,
)
from nekro_core.api.chat import (
    ChatKey,
    ChatKeyError,
    ChatKind,
    ChatMessage,
    Mention,
    Notice,
    Reply,
    Segments,
    Sender,
)

from .backpressure import BACKLOG
from .bridge import Bridge
from .contact_requests import store_request
from .pending_events import PendingEvents
from .piece_reader import PieceReader
from .platform import Platform
from .values import account_message_id

Job = Callable[[], Awaitable[None]]
_Numbered = tuple[int, Event, MatcherDecision | None]

BIND_S = 2.0
"""Seconds before binding an account is tried again after the store failed."""
REMEMBERED = 4096
"""Maximum number of chats for which the target of the latest event is remembered."""


class UnisegIntake:
    """The `EventListener` that processes the events of all accounts of one platform."""

    def __init__(
        self,
        host: Host,
        platform: Platform,
        *,
        clock: Callable[[], float] = time.time,
        bind_s: float = BIND_S,
    ) -> None:
        self._host = host
        self._platform = platform
        self._clock = clock
        self._bind_s = bind_s
        self._tasks: TaskGroup | None = None
        self._chat_queue: KeyedQueue | None = None
        self._bots: dict[str, Bot] = {}
        self._event_queues: dict[Bot, MemoryObjectSendStream[_Numbered]] = {}
        self._taking = 0
        self._waiting = 0
        self._progress = anyio.Event()
        self._tallies: dict[str, PendingEvents] = {}
        self._targets: dict[ChatKey, tuple[Target, float]] = {}
        self.paused: set[str] = set()
        """The connected accounts that the operator has paused."""
        self.own: dict[str, str] = {}
        """Maps each id that an account has in events to the account. Disconnected accounts stay in
        it."""

    def open(self, tasks: TaskGroup) -> None:
        """Accept events from now on. They are processed in ``tasks``."""
        self._tasks, self._chat_queue = tasks, KeyedQueue(tasks)

    async def close(self) -> None:
        """Accept no more events, and wait until the accepted ones are handed to the host."""
        for queue in self._event_queues.values():
            queue.close()
        while self._taking:
            await self._progress.wait()
        if self._chat_queue is not None:
            await self._chat_queue.idle()

    @property
    def bridge(self) -> Bridge:
        """Uniseg's converter for the platform."""
        return self._platform.bridge

    def bot(self, account: str) -> Bot | None:
        """Return NoneBot's `Bot` of the account; None if the account is not connected, or if it is
        paused."""
        return None if account in self.paused else self._bots.get(account)

    def users(self) -> dict[str, str]:
        """Return the user id of each connected account."""
        return {account: self._platform.user_of(bot) for account, bot in self._bots.items()}

    async def target(self, key: ChatKey) -> Target:
        """Return where to send: the target of the chat's latest event since the start. If there is
        none, the target is made from the chat key. But where each message must be an answer
        (`Platform.answers`), it is made from the stored history if that names a message that can be
        answered."""
        if (known := self._targets.get(key)) is None and self._platform.answers:
            # No event has arrived since the start, so the target comes from the stored history. An
            # event may arrive meanwhile. Its target is newer, so it is not replaced.
            records = await self._host.records(key)
            resumed = self._platform.resumed(key, records, self._clock())
            if resumed is not None and key not in self._targets:
                self._remember(key, *resumed)
            known = self._targets.get(key)
        if known is None:
            return self._platform.target(key)
        target, at = known
        return self._platform.refreshed_target(target, self._clock() - at)

    def connected(self, bot: Bot) -> None:
        """See `EventListener.connected`."""
        if self._tasks is None:
            return
        self._bots[bot.self_id] = bot
        names = [self._platform.person(name, bot) for name in self._platform.names_of(bot)]
        self.own |= dict.fromkeys(names, bot.self_id)
        # The queue needs no limit, because `room` limits the number of events that are read.
        sender, receiver = anyio.create_memory_object_stream[_Numbered](math.inf)
        self._event_queues[bot] = sender
        self._taking += 1
        self._tasks.start_soon(self._take, bot, receiver)
        logger.info("{}: account {} is connected", self._platform.name, bot.self_id)

    def disconnected(self, bot: Bot) -> None:
        """See `EventListener.disconnected`. Events that have already arrived are processed."""
        if self._bots.get(bot.self_id) is bot:
            del self._bots[bot.self_id]
        if (queue := self._event_queues.pop(bot, None)) is not None:
            queue.close()
        logger.warning("{}: account {} is disconnected", self._platform.name, bot.self_id)

    def problem(self, account: str, words: str, *, final: bool) -> None:
        """See `EventListener.problem`. The stock adapter has logged it."""

    async def on_event(self, bot: Bot, event: Event) -> None:
        """Queue an event, then pass it to NoneBot's matchers, if there are any.

        NoneBot's dispatch changes the event: it cuts off mentions and requests quoted messages. So
        the queue gets a copy of the event.
        """
        queue = self._event_queues.get(bot)
        decision = MatcherDecision() if has_matchers() else None
        if queue is not None:
            tally = self._tally(bot)
            number = tally.begin()
            self._waiting += 1
            try:
                copy = event.model_copy(deep=True) if decision else event
                queue.send_nowait((number, copy, decision))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._placed()
                tally.end(number, stored=False)
                logger.warning(
                    "{}: an event came after the adapter was closed", self._platform.name
                )
        if decision is not None:
            await dispatch_event(decision, partial(type(bot).handle_event, bot, event))  # type: ignore[attr-defined]

    async def room(self) -> None:
        """See `EventListener.room`."""
        while self._waiting >= BACKLOG:
            await self._progress.wait()

    async def settled(self, bot: Bot) -> bool:
        """See `EventListener.settled`."""
        return await self._tally(bot).settle()

    def _tally(self, bot: Bot) -> PendingEvents:
        return self._tallies.setdefault(bot.self_id, PendingEvents())

    async def _take(self, bot: Bot, events: MemoryObjectReceiveStream[_Numbered]) -> None:
        try:
            with events:
                instance = await self._instance(bot)
                async for number, event, decision in events:
                    await self._place(bot, instance, number, event, decision)
                    self._placed()
        finally:
            self._taking -= 1
            self._step()

    def _placed(self) -> None:
        """Count an event as no longer waiting to join the queue of its chat."""
        self._waiting -= 1
        self._step()

    def _step(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()

    async def _instance(self, bot: Bot) -> str:
        """Bind the account and return its instance. While the store fails, this is tried again and
        the account's events wait."""
        while True:
            try:
                instance = await self._host.instance_of(self._platform.name, bot.self_id)
            except Exception as error:  # noqa: BLE001 - the store may raise anything
                logger.error(
                    "{}: account {} cannot be bound yet: {!r}",
                    self._platform.name,
                    bot.self_id,
                    error,
                )
                await anyio.sleep(self._bind_s)
            else:
                self._host.online()
                return instance

    async def _place(
        self,
        bot: Bot,
        instance: str,
        number: int,
        event: Event,
        decision: MatcherDecision | None,
    ) -> None:
        """Put an event into the queue of its chat."""
        try:
            task = self._sort(bot, instance, event, decision)
        except Exception:  # noqa: BLE001 - of whatever a stranger's event is made
            logger.exception("{}: an event cannot be read", self._platform.name)
            task = None
        tally = self._tally(bot)
        if task is None or self._chat_queue is None:
            tally.end(number)
        else:
            key, job = task
            await self._chat_queue.submit(key, partial(_counted, job, tally, number))

    def _sort(
        self, bot: Bot, instance: str, event: Event, decision: MatcherDecision | None
    ) -> tuple[Hashable, Job] | None:
        """Return the queue of the event's chat, and the job for this queue. Return None if there is
        nothing to do."""
        if (asked := self._platform.request(event, bot)) is not None:
            named = replace(asked, user_id=self.named(bot, asked.user_id))
            account = bot.self_id
            return (account, "requests"), partial(
                store_request, self._host, self._platform.name, account, named
            )
        target = self._platform.place(event, bot)
        if target is None:
            logger.debug(
                "{}: an event belongs to no chat: {}", self._platform.name, event.get_event_name()
            )
            return None
        try:
            key = self._platform.address(target).key(instance)
        except ChatKeyError as error:
            logger.warning("{}: an event belongs to no chat: {}", self._platform.name, error)
            return None
        if (words := self._platform.edited_text(event, bot)) is not None:
            return key, partial(self._revise, bot, key, event, words)
        if self._platform.is_message(event):
            self._remember(key, target, self._clock())
            sender = self._platform.sender(event)
            if sender.user_id == self._platform.user_of(bot):
                return None  # the bot itself sent this message, and the outbox has recorded it
            reader = self._reader(bot, key, event)
            read = partial(self._platform.segments, event, bot, reader)
            assert self._chat_queue is not None
            prefetch = self._chat_queue.prefetch(key, read)
            accept = partial(self._accept_message, bot, key, event, sender, reader, prefetch)
            return key, partial(accept, decision)
        if recalled := self._platform.recalled(event):
            return key, partial(self._host.recall, key, self._identity(key, recalled))
        if (notice := self._platform.notice(event)) is not None:
            return key, partial(self._accept_notice, bot, key, event, notice, decision)
        return None

    def _remember(self, key: ChatKey, target: Target, at: float) -> None:
        self._targets.pop(key, None)
        self._targets[key] = target, at
        if len(self._targets) > REMEMBERED:
            del self._targets[next(iter(self._targets))]

    def _identity(self, key: ChatKey, message_id: str) -> str:
        return account_message_id(message_id, key) if self._platform.ids_of_chat else message_id

    def named(self, bot: Bot, user_id: str) -> str:
        """Return the id that the inbox uses for a user. For a user that is an account of the bot,
        this is the account; for another user, the person. Empty for an empty id."""
        person = self._platform.person(user_id, bot) if user_id else ""
        return self.own.get(person, person)

    async def _accept_notice(
        self,
        bot: Bot,
        key: ChatKey,
        event: Event,
        notice: Notice,
        decision: MatcherDecision | None,
    ) -> None:
        actor, target = self.named(bot, notice.actor_id), self.named(bot, notice.target_id)
        named = Notice(notice.kind, actor, target, notice.detail)
        to_bot = notice.kind == "poke" and target == bot.self_id
        await self._accept(bot, key, event, Sender(actor), (named,), decision, to_bot=to_bot)

    async def _revise(
        self, bot: Bot, key: ChatKey, event: Event, words: list[uniseg.Segment]
    ) -> None:
        platform = self._platform
        reader = self._reader(bot, key, event)
        reader.turn.set()
        identity = self._identity(key, platform.message_id(event))
        sender = self.named(bot, platform.sender(event).user_id)
        await self._host.revise(key, identity, sender, await reader.read(words))

    def _reader(self, bot: Bot, key: ChatKey, event: Event) -> PieceReader:
        named, fetch_slot = partial(self.named, bot), partial(self._fetch_slot, key)
        return PieceReader(
            self._host,
            self._platform,
            named,
            chat_key=key,
            bot=bot,
            event=event,
            fetch_slot=fetch_slot,
        )

    def _fetch_slot(self, key: ChatKey) -> AbstractAsyncContextManager[None]:
        assert self._chat_queue is not None
        return self._chat_queue.fetch_slot(key)

    async def _accept_message(
        self,
        bot: Bot,
        key: ChatKey,
        event: Event,
        found: Sender,
        reader: PieceReader,
        prefetch: Prefetch[Segments],
        decision: MatcherDecision | None,
    ) -> None:
        platform = self._platform
        sender = Sender(self.named(bot, found.user_id), found.name, found.role)
        reader.turn.set()
        segments = await prefetch.get()
        to_bot = (
            key.kind is ChatKind.PRIVATE
            or platform.is_addressed_to_us(event, bot)
            or _addressed(segments, bot.self_id)
        )
        message_id = self._identity(key, platform.message_id(event))
        await self._accept(
            bot,
            key,
            event,
            sender,
            segments,
            decision,
            message_id=message_id,
            to_bot=to_bot,
        )

    async def _accept(
        self,
        bot: Bot,
        key: ChatKey,
        event: Event,
        sender: Sender,
        segments: Segments,
        decision: MatcherDecision | None,
        *,
        message_id: str = "",
        to_bot: bool = False,
    ) -> None:
        at = self._platform.time(event)
        message = ChatMessage(
            chat_key=key,
            message_id=message_id,
            sender=sender,
            segments=segments,
            time=self._clock() if at is None else at,
            account=bot.self_id,
            to_bot=to_bot,
            answered_elsewhere=decision is not None and await decision.blocked(),
        )
        try:
            await accept_patiently(self._host.accept, message)
        except Exception as error:
            raise _NotStored from error


class _NotStored(Exception):
    """The store failed in every try."""


async def _counted(job: Job, tally: PendingEvents, number: int) -> None:
    stored = True
    try:
        await job()
    except _NotStored:
        stored = False
        raise
    finally:
        tally.end(number, stored=stored)


def _addressed(segments: Segments, account: str) -> bool:
    return any(
        (isinstance(segment, Mention) and segment.user_id == account)
        or (isinstance(segment, Reply) and segment.sender_id == account)
        for segment in segments
    )
