"""Erases a person's data everywhere: in the database, in files, in boxes and in memory.

Code that stores people's data in other places gives the bot an `Eraser`. Earlier messages of an
erased person are not stored again when an adapter fetches a platform's history: see `ErasureMarks`.
"""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.chat import ChatKey, Record
from nekro_core.chat.redact import SHORTEST, RedactionTarget
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.admin import OutboxAdmin
from nekro_core.policy import InvalidOverride
from nekro_core.sandbox.box import SandboxError
from nekro_core.store import Person, PersonTraces, Store, StoreError
from nekro_core.store.traces import media_in
from nekro_core.timers import TimerService

Eraser = Callable[[Person, PersonTraces, RedactionTarget], Awaitable[int]]
"""Erases a person's data in one place. Returns the number of changed items. Raises `OSError` and
`StoreError`."""


async def _nobody_else(_: Person) -> list[str]:
    return []


_LARGEST = 64 * 1024 * 1024
"""Maximum size in bytes of a file that is searched for an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """How much was erased. ``others`` is the number of changed rows of other people, ``elsewhere``
    the number of items that plugins and `Eraser` functions changed or deleted. ``left`` lists what
    the operator must erase by hand."""

    messages: int
    turns: int
    files: int
    chats: int
    boxes: int
    others: int
    elsewhere: int
    left: tuple[str, ...]


class PersonErasure:
    """Erases people. A process has one instance of this class. ``erasers`` erase data in other
    places that only this process has, ``shared_erasers`` in places that all processes of a bot
    share. ``data`` is the data folder."""

    def __init__(
        self,
        store: Store,
        marks: ErasureMarks,
        *,
        outbox: OutboxAdmin,
        boxes: ChatBoxes,
        timers: TimerService | None = None,
        media: MediaStore,
        data: Path,
        erasers: Sequence[Eraser] = (),
        shared_erasers: Sequence[Eraser] = (),
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._boxes = boxes
        self._timers = timers
        self._marks = marks
        self._media = media
        self._data = data
        self._erasers = tuple(erasers)
        self._shared_erasers = tuple(shared_erasers)
        self._one = anyio.Lock()
        self.elsewhere: Callable[[Person], Awaitable[list[str]]] = _nobody_else
        """Has the other processes of the bot erase a person. Returns what is left to do by hand.
        See `SharedErasure.erase_elsewhere`."""

    @property
    def marks(self) -> ErasureMarks:
        """The marks that say who was erased, and when."""
        return self._marks

    def person(self, chat_key: ChatKey, user_id: str) -> Person:
        """Return the person with this id on the platform of a chat."""
        accounts = self._store.accounts
        adapter = accounts.adapter_of(chat_key.instance)
        instances = {*accounts.instances(adapter).values(), chat_key.instance}
        return Person(adapter=adapter, user_id=user_id, instances=tuple(sorted(instances)))

    async def look(self, person: Person) -> PersonTraces:
        """Find a person's data in the database. Raises `StoreError`."""
        return await self._store.erasing.look(person)

    async def erase(
        self,
        person: Person,
        *,
        stop: Callable[[ChatKey], Awaitable[object]],
        drop: Callable[[ChatKey, str], None],
        plugins: Callable[[], Awaitable[tuple[int, list[str]]]],
    ) -> ErasureReport:
        """Erase a person. ``stop`` ends the turn of a chat, and ``drop`` removes the person's
        unanswered records from the chat's session. ``plugins`` calls the plugins' hooks that erase
        the person, and returns the number of items that the hooks deleted, and what they left. If
        an erasure was interrupted, call this method again. Raises `StoreError`; faults in other
        places are listed in `ErasureReport.left`."""
        async with self._one:
            self._marks.add(person.adapter, person.user_id)
            await self._end_turns(person, stop, drop)
            left = await self.elsewhere(person)
            traces, forgotten = await self._target(person)
            await self._let_go(traces, forgotten)
            others = await self._store.erasing.erase(person, traces)
            files = await self._of_files(traces, left)
            boxes = await self._of_boxes(traces, left)
            erasers = (*self._shared_erasers, *self._erasers)
            elsewhere = await _call_erasers(erasers, person, traces, forgotten, left)
            gone, failed = await plugins()
            elsewhere += gone
            left += failed
            left += await anyio.to_thread.run_sync(self._look_into_files, person)
            await self._store.erasing.vacuum()
            for each in left:
                # The operator must erase the rest. The log must not name the person.
                logger.warning("erasing a person: this is left to do by hand: {}", each)
            return ErasureReport(
                messages=traces.messages,
                turns=traces.turns,
                files=files,
                chats=len(traces.chats),
                boxes=boxes,
                others=others,
                elsewhere=elsewhere,
                left=tuple(left),
            )

    async def erase_here(
        self,
        person: Person,
        *,
        stop: Callable[[ChatKey], Awaitable[object]],
        drop: Callable[[ChatKey, str], None],
    ) -> list[str]:
        """Erase a person from what only this process has: turns, log lines, files. Another process
        of the bot does the rest, with `erase`. Returns what is left to do by hand. Raises `OSError`
        and `StoreError`."""
        self._marks.add(person.adapter, person.user_id)
        await self._end_turns(person, stop, drop)
        traces, forgotten = await self._target(person)
        left: list[str] = []
        for chat_key in traces.with_boxes:
            await self._delete_copies(chat_key)
        await _call_erasers(self._erasers, person, traces, forgotten, left)
        left += await anyio.to_thread.run_sync(self._look_into_files, person)
        return left

    async def _end_turns(
        self,
        person: Person,
        stop: Callable[[ChatKey], Awaitable[object]],
        drop: Callable[[ChatKey, str], None],
    ) -> None:
        for chat_key in (await self.look(person)).chats:
            await stop(chat_key)
            drop(chat_key, person.user_id)

    async def _target(self, person: Person) -> tuple[PersonTraces, RedactionTarget]:
        traces = await self.look(person)
        ids = person.ids | {str(key) for key in traces.private}
        return traces, RedactionTarget(ids, traces.message_ids)

    async def forget_files(self, record: Record) -> None:
        """Delete the files of a received message. Call this for a message that is not stored."""
        for medium in media_in(record.segments):
            still_used = self._store.erasing.still_used
            try:
                if not await still_used(record.chat_key, medium):
                    await self._media.forget(record.chat_key, medium.path)
            except (OSError, StoreError) as error:
                logger.error("{}: a file stays: {}", record.chat_key, error)

    async def finish(self, person: Person, command: int) -> None:
        """Delete the command that requested the erasure, and its answer. Call it after the answer
        was sent. Raises `StoreError`."""
        async with self._one:
            await self._store.erasing.forget_record(command)
            await self._store.erasing.erase(person, await self.look(person))
            await self._store.erasing.vacuum(anew=False)

    async def _let_go(self, traces: PersonTraces, forgotten: RedactionTarget) -> None:
        """Drop the person's waiting deliveries and timers, and remove the person from the texts of
        other timers."""
        for delivery_id in traces.waiting:
            try:
                await self._outbox.drop(delivery_id)
            except CannotDo as error:
                logger.info("erasing a person: {}", error)
        timer_ids = [timer_id for _, timer_id in traces.timers]
        if self._timers is not None:
            for chat_key, timer_id in traces.timers:
                if await self._timers.forget(chat_key, timer_id):
                    timer_ids.remove(timer_id)
            await self._timers.reword(forgotten.text)
        if timer_ids:
            # Other processes have these in memory, or no process has.
            await self._store.timers.delete(*timer_ids)

    async def _of_files(self, traces: PersonTraces, left: list[str]) -> int:
        gone, store = 0, self._store
        for chat_key, medium in dict.fromkeys(
            (chat_key, medium) for chat_key, medium in traces.media
        ):
            if not await store.erasing.still_used(chat_key, medium):
                try:
                    gone += await self._media.forget(chat_key, medium.path)
                except OSError as error:
                    left.append(f"{medium.path}: {error.strerror}")
        for chat_key in traces.private:
            try:
                await self._media.forget_chat(chat_key)
            except OSError as error:
                left.append(f"{error.filename}: {error.strerror}")
        return gone

    async def _of_boxes(self, traces: PersonTraces, left: list[str]) -> int:
        """Remove all boxes of the chats in which code ran for the person or a box may contain the
        person's files. ``/reset`` removes boxes in the same way. All boxes are removed because
        nothing shows to whom a file in a box belongs. Returns the number of these chats."""
        chats = traces.with_boxes
        for chat_key in chats:
            try:
                await self._boxes.destroy(chat_key)
                await self._delete_copies(chat_key)
            except (OSError, SandboxError) as error:
                left.append(f"boxes of {chat_key}: {error}")
        return len(chats)

    async def _delete_copies(self, chat_key: ChatKey) -> None:
        """Delete the files of a chat's boxes that plugins have copied. Raises `OSError`."""
        copies = self._data / "plugin_files" / chat_key.file_name
        if copies.exists():
            await anyio.to_thread.run_sync(shutil.rmtree, copies)

    def _look_into_files(self, person: Person) -> list[str]:
        """Find plugins' files that contain the id. They are not changed, because only the plugin's
        author knows their format."""
        if len(person.user_id) < SHORTEST:
            return []
        found, wanted = [], person.user_id.encode()
        for folder in ("plugin_data", "existing_plugins"):
            for path in sorted((self._data / folder).rglob("*")):
                try:
                    if path.is_file() and path.stat().st_size <= _LARGEST:
                        named = wanted in path.read_bytes() or person.user_id in path.name
                        found += [f"{path}: a plugin's own file names the id"] if named else []
                except OSError as error:
                    found.append(f"{path}: cannot be read: {error.strerror}")
        return found


async def _call_erasers(
    erasers: Sequence[Eraser],
    person: Person,
    traces: PersonTraces,
    forgotten: RedactionTarget,
    left: list[str],
) -> int:
    """Call all erasers, also if some fail. The errors are added to ``left``."""
    gone = 0
    for eraser in erasers:
        try:
            gone += await eraser(person, traces, forgotten)
        except (OSError, StoreError, InvalidOverride) as error:
            left.append(str(error))
    return gone
