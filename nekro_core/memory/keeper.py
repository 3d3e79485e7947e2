"""Keeps the memory of all chats: gives prompts the sections that come from the memory, and fills
the memory in the background.

Prompts never wait for a model: they show the summaries and notes that exist. The background task
makes the summaries that prompts have asked for, and lets a model draw notes out of conversations
that have paused. A fault of this task never ends a turn.
"""

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

import anyio
import anyio.lowlevel
from loguru import logger

from nekro_core.chat import Author, ChatKey
from nekro_core.memory.background import (
    AskedTooOften,
    BackgroundModel,
    BackOff,
    BoundedModel,
    NoModel,
    NoQuickModel,
)
from nekro_core.memory.knowledge.library import KnowledgeLibrary
from nekro_core.memory.notes.book import NoteBook
from nekro_core.memory.notes.drawer import MAX_RECORDS, NoteDrawer
from nekro_core.memory.notes.prompt_notes import notes_section
from nekro_core.memory.scope import MemoryScope
from nekro_core.memory.settings import MemorySettings
from nekro_core.memory.summaries.section import SummarySection
from nekro_core.memory.summaries.summarizer import Summarizer
from nekro_core.store import Person, Store, StoreError
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.system.errors import NekroError

_LOOK_S = 30.0
"""Seconds between two searches for conversations that have paused."""
_SOON_S = 2.0
"""Seconds from a prompt that asks for a summary until the work begins."""
_TIDY_S = 6 * 3600.0
"""Seconds between two deletions of old notes and summaries."""
_SHOWN_CHATS = 1_000
"""Maximum number of chats whose sections are remembered until something changes. A chat's sections
take up to 5 KiB."""
_MOST_WAITING = 10_000
"""Maximum number of chats in the queue of summaries. If there are more, the chat that has waited
longest is dropped; its next prompt adds it again."""
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMemory:
    """The sections of a prompt that come from memory. Each may be empty."""

    summary: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounts:
    """How much is remembered of a chat: the number of its notes, including notes that are no longer
    true, and the number of its summaries of the first level, which are made from messages."""

    notes: int
    summaries: int


class MemoryKeeper:
    """The memory of all chats. ``clock`` is monotonic; ``wall`` returns seconds since 1970.
    ``zone`` returns the time zone of a chat's dates. ``data`` is the data folder. ``messages_days``
    returns for how many days messages are kept, 0 for ever; summaries are kept as long. ``chats``
    returns whether this process draws notes out of a chat."""

    def __init__(
        self,
        store: Store,
        settings: MemorySettings,
        *,
        data: Path,
        secret: Callable[[], str],
        model: BackgroundModel | None = None,
        messages_days: Callable[[], float] = lambda: 0.0,
        zone: Callable[[ChatKey], tzinfo | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chats: ChatScope = every_chat,
    ) -> None:
        self._store = store
        self._chats = chats
        self.settings = settings
        self._messages_days = messages_days
        self._zone = zone
        self._clock = clock
        self._wall = wall
        self.scope = MemoryScope(store, secret=secret, wall=wall)
        self.notes = NoteBook(store, self.scope, wall)
        self._back_off = BackOff(clock)
        self._model = bounded = BoundedModel(model or NoModel(), settings, clock)
        self._drawer = NoteDrawer(bounded, self.notes, self.scope)
        self.summarizer = Summarizer(store, self.scope, bounded, self._back_off, wall)
        self._section = SummarySection(store, self.summarizer)
        self.knowledge = KnowledgeLibrary(data / "knowledge", self.scope, settings)
        self._waiting: dict[ChatKey, int] = {}
        self._wake = anyio.Event()
        self._shown: OrderedDict[ChatKey, tuple[object, ShownMemory]] = OrderedDict()
        self._tidied = -_TIDY_S
        self._told_none = False

    def use_model(self, model: BackgroundModel) -> None:
        """Use this model for all later requests that make summaries and notes."""
        self._model.replace(model)

    async def source_of(self, chat_key: ChatKey, message_id: str) -> int:
        """Return the sequence number of a message; 0 if it is not stored. Raises `StoreError`."""
        record = None
        if message_id:
            record = await self._store.messages.by_message_id(chat_key, message_id)
        return record.seq if record else 0

    async def load(self) -> None:
        """Read the rows that stay in the process's memory while the bot runs. Call this before all
        other methods. Raises `StoreError`."""
        await self.scope.load()

    async def sections(
        self, chat_key: ChatKey, *, before_seq: int, people: Collection[str]
    ) -> ShownMemory:
        """Return the sections of memory for a prompt. The prompt's history begins at record
        ``before_seq``, and ``people`` wrote its messages. Never raises: if the database fails, the
        sections are empty."""
        if self.settings.summaries:
            self._ask_for(chat_key, before_seq)
        state = self._state(chat_key, before_seq, people)
        known = self._shown.get(chat_key)
        if known is not None and known[0] == state and not self._store.messages.shared:
            return known[1]
        try:
            shown = await self._write(chat_key, before_seq, people)
        except StoreError as error:
            logger.warning("{}: the prompt does without its memory: {}", chat_key, error)
            return ShownMemory(summary="", notes="")
        self._shown.pop(chat_key, None)
        self._shown[chat_key] = state, shown
        if len(self._shown) > _SHOWN_CHATS:
            self._shown.popitem(last=False)
        return shown

    def _state(self, chat_key: ChatKey, before_seq: int, people: Collection[str]) -> object:
        """Return a value that stays equal as long as the sections of a prompt stay the same."""
        store, settings = self._store, self.settings
        return (
            before_seq,
            frozenset(people),
            self.scope.readable(chat_key),
            self._zone(chat_key),
            (settings.summaries, settings.summary_tokens, settings.notes, settings.notes_tokens),
            (store.notes.changes(), store.summaries.changes(), store.messages.removals),
        )

    async def _write(
        self, chat_key: ChatKey, before_seq: int, people: Collection[str]
    ) -> ShownMemory:
        settings, zone = self.settings, self._zone(chat_key)
        summary = notes = ""
        if settings.summaries:
            summary = await self._section.text(
                chat_key, before_seq, tokens=settings.summary_tokens, zone=zone
            )
        if settings.notes:
            notes = await notes_section(
                self.notes, chat_key, people, tokens=settings.notes_tokens, zone=zone
            )
        return ShownMemory(summary=summary, notes=notes)

    def _ask_for(self, chat_key: ChatKey, before_seq: int) -> None:
        self._waiting.pop(chat_key, None)
        self._waiting[chat_key] = before_seq
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._wake.set()

    async def live(self) -> None:
        """Work in the background until cancelled."""
        looked = -_LOOK_S
        while True:
            with anyio.move_on_after(_LOOK_S):
                await self._wake.wait()
                # A prompt has asked. Its turn begins now and has priority.
                await anyio.sleep(_SOON_S)
            self._wake = anyio.Event()
            # The search goes through all chats, so it is not made for each prompt.
            if draw := anyio.current_time() - looked >= _LOOK_S:
                looked = anyio.current_time()
            try:
                await self.work(draw=draw)
            except StoreError as error:
                logger.warning(
                    "the background work of the memory stopped, and is tried again later: {}", error
                )
            except Exception:  # noqa: BLE001 (a fault with one chat must not end the task)
                logger.exception("the memory failed and continues")

    async def work(self, *, draw: bool = True) -> None:
        """Make the summaries that prompts have asked for, and delete old notes and summaries. With
        ``draw``, also draw notes out of conversations that have paused. Raises `StoreError`."""
        try:
            await self._summarize()
            if draw:
                await self._draw_all()
            self._told_none = False
        except NoQuickModel:
            if not self._told_none:
                logger.info(
                    "no model of the role quick is configured: the memory makes no summaries and "
                    "draws no notes; messages are still found by search"
                )
                self._told_none = True
        except AskedTooOften as error:
            logger.info("{}", error)
        if self._clock() - self._tidied >= _TIDY_S:
            self._tidied = self._clock()
            await self._tidy()

    async def _summarize(self) -> None:
        for chat_key, before_seq in [*self._waiting.items()]:
            done = await self.summarizer.work(chat_key, before_seq)
            if done and self._waiting.get(chat_key) == before_seq:
                del self._waiting[chat_key]

    async def compact(self, chat_key: ChatKey) -> bool:
        """Summarize all records of a chat. Returns whether the summaries are complete. Raises
        `NekroError`."""
        before = await self._store.messages.newest_seq() + 1
        for _ in range(_COMPACT_PASSES):
            if await self.summarizer.work(chat_key, before, ahead=False):
                return True
        return False

    async def _draw_all(self) -> None:
        if not (self.settings.notes and self.settings.draw_notes):
            return
        newest = await self._store.messages.newest_seqs()
        for chat_key, seq in [*newest.items()]:
            if seq > self.scope.drawn_through(chat_key) and self._chats(chat_key):
                await self._draw(chat_key)

    async def _draw(self, chat_key: ChatKey) -> None:
        """Draw notes out of a chat's conversation with the bot, if the conversation has paused."""
        key = ("notes", chat_key)
        if self._back_off.waits(key):
            return
        store, through = self._store, self.scope.drawn_through(chat_key)
        records = await store.messages.newest(chat_key, MAX_RECORDS)
        records = [each for each in records if each.seq > through]
        if not records:
            return
        paused = records[-1].time <= self._wall() - self.settings.pause_s
        if not paused and len(records) < MAX_RECORDS:
            return  # A chat that never pauses is read when it has `MAX_RECORDS` new records.
        last = records[-1].seq
        records = [each for each in records if not each.recalled]
        await store.notes.delete_recalled(chat_key)
        # If the bot has said nothing, nobody talked with it, so no notes are drawn.
        if any(each.author is Author.BOT for each in records):
            try:
                drawn = await self._drawer.draw(chat_key, records)
            except (NoQuickModel, AskedTooOften):
                raise
            except (NekroError, TimeoutError) as error:
                why = str(error) or type(error).__name__
                if not self._back_off.failed(key):
                    logger.info("{}: no notes are drawn yet: {}", chat_key, why)
                    return
                logger.warning("{}: drawing notes is given up: {}", chat_key, why)
            else:
                if drawn.kept:
                    logger.info("{}: {} notes were drawn", chat_key, drawn.kept)
        self._back_off.done(key)
        await self.scope.drawn(chat_key, last)

    async def _tidy(self) -> None:
        # If the machine's clock is wrong by years, everything would look old. So the time that is
        # used here is at most a day after the newest message. `RetentionLoop` does the same.
        now = min(self._wall(), await self._store.retention.newest_message_time() + _DAY_S)
        if days := self.settings.notes_days:
            while await self._store.notes.delete_older(now - days * _DAY_S):
                await anyio.lowlevel.checkpoint()
        if days := self._messages_days():
            await self._store.summaries.delete_older(now - days * _DAY_S)

    async def counts(self, chat_key: ChatKey) -> MemoryCounts:
        """Count what is remembered of a chat. Raises `StoreError`."""
        return MemoryCounts(
            notes=await self._store.notes.count(chat_key),
            summaries=await self._store.summaries.count(chat_key),
        )

    async def switch_off(self, chat_key: ChatKey, user_id: str) -> int:
        """Stop remembering things about a person of the chat's platform. Delete the notes about the
        person and those that come from the person's words. Summaries with the person's words are
        made again without these words. Returns the number of deleted notes. Raises `StoreError`."""
        await self.scope.set_off(chat_key, user_id, off=True)
        accounts = self._store.accounts
        adapter = accounts.adapter_of(chat_key.instance)
        instances = {chat_key.instance, *accounts.instances(adapter).values()}
        for instance in sorted(instances):
            await self._store.summaries.mark_person_stale(instance, user_id)
        return await self._store.notes.delete_of_person(instances, user_id)

    async def erase(self, person: Person, private: Collection[ChatKey]) -> int:
        """Delete the documents that a person gave, and those of the person's private chats. Call
        this after the rows of these chats were deleted: it also removes the chats from the
        process's memory. Returns how many documents were deleted. Raises `OSError`."""
        for chat_key in private:
            self.scope.forget_chat(chat_key)
            self._waiting.pop(chat_key, None)
        digests = {
            self.scope.digest_of(adapter, person.user_id)
            for adapter in (person.adapter, *person.instances)
        }
        try:
            return await self.knowledge.erase(private, digests)
        except sqlite3.Error as error:
            raise OSError(f"the index of documents: {error}") from error

    async def forget_recalled(self, chat_key: ChatKey) -> None:
        """Delete the notes of a chat that come from recalled messages, and empty each summary that
        covers a recalled message. Raises `StoreError`."""
        await self._store.notes.delete_recalled(chat_key)
        await self._store.summaries.mark_recalled_stale(chat_key)

    def waiting(self) -> Mapping[ChatKey, int]:
        """Return the queue of summaries: each chat, with the number of the first record that its
        prompt shows."""
        return dict(self._waiting)


_COMPACT_PASSES = 20
"""Maximum number of calls of `Summarizer.work` in one command ``/compact``. Each call makes up to
24 summaries."""
