"""Sends one message of an operator to several chats, slowly, and stores the outcome for each
chat."""

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core.chat import ChatKey, ChatKeyError, DeliveryState, Receipt, Segments, Text
from nekro_core.delivery.errors import CannotDo
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.errors import NekroError
from nekro_core.system.keyed_queue import KeyedLimiter

FOLDER = "announcements"
MOST_CHATS = 10_000
"""Maximum number of chats of one announcement."""
TEXT_LENGTH = 4000
"""Maximum number of characters of an announcement."""
PER_MINUTE = 20.0
"""The number of chats in a minute that get an announcement, if the operator chooses no number.
Platforms block accounts that write to many chats at once."""
FASTEST_PER_MINUTE = 600.0
MOST_KEPT = 100
"""Number of announcements that are kept. Older announcements are deleted when the bot starts."""

_GRAVEST = (
    DeliveryState.REJECTED,
    DeliveryState.UNKNOWN,
    DeliveryState.DROPPED,
    DeliveryState.PENDING,
    DeliveryState.SENDING,
    DeliveryState.SENT,
)
"""States, most serious first. If a message needs several platform calls, it gets the first state of
this list that one of the calls has."""

Send = Callable[[ChatKey, Segments], Awaitable[tuple[Receipt, ...]]]


class AnnouncementState(StrEnum):
    """The state of an announcement."""

    RUNNING = "running"
    DONE = "done"
    """Every chat was tried."""
    CANCELLED = "cancelled"
    """The operator stopped it. The chats that were not tried get nothing."""
    INTERRUPTED = "interrupted"
    """The bot ended before every chat was tried. `Announcements.resume` continues it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedChat:
    """The outcome of an announcement in one chat.

    Attributes:
        chat_key: The chat.
        state: The state of the message; None if the chat was not tried.
        reason: Why the message was not sent; empty if it was sent.
        time: When the state last changed, in seconds since 1970; None if the chat was not tried.
    """

    chat_key: ChatKey
    state: DeliveryState | None = None
    reason: str = ""
    time: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementSummary:
    """An announcement and its progress.

    Attributes:
        announcement_id: Its id.
        text: The text.
        created: When it was begun, in seconds since 1970.
        per_minute: How many chats get it in a minute.
        state: The state.
        chats: The number of all chats.
        waiting: The number of chats that were not tried.
        counts: The number of chats for each state of the message.
    """

    announcement_id: str
    text: str
    created: float
    per_minute: float
    state: AnnouncementState
    chats: int
    waiting: int
    counts: Mapping[DeliveryState, int]


class InvalidAnnouncement(NekroError, ValueError):
    """An announcement cannot be begun. The text says what came and what was expected."""


@dataclass(slots=True, eq=False)
class _Announcement:
    announcement_id: str
    text: str
    created: float
    per_minute: float
    chats: dict[ChatKey, AnnouncedChat]
    state: AnnouncementState = AnnouncementState.INTERRUPTED
    stop: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event | None = None
    stale: bool = False
    """Whether the file still has chats that `Announcements.forget` has deleted."""

    def head(self) -> dict[str, Any]:
        return {
            "id": self.announcement_id,
            "text": self.text,
            "created": self.created,
            "per_minute": self.per_minute,
            "chats": list(map(str, self.chats)),
        }

    def summary(self) -> AnnouncementSummary:
        states = Counter(each.state for each in self.chats.values())
        return AnnouncementSummary(
            announcement_id=self.announcement_id,
            text=self.text,
            created=self.created,
            per_minute=self.per_minute,
            state=self.state,
            chats=len(self.chats),
            waiting=states[None],
            counts={state: states[state] for state in _GRAVEST if states[state]},
        )


class Announcements:
    """Sends announcements and keeps their outcomes. An async context manager. Each announcement is
    a file of JSON lines: first a line with its text and chats, then a line for each change of the
    state of one chat or of the whole announcement.

    Args:
        folder: The folder of the files.
        send: Sends a message to one chat. This is `Outbox.send`, which also limits the number of
            messages that one chat gets.
        clock: Returns the time in seconds since 1970.
    """

    def __init__(self, folder: Path, send: Send, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._send = send
        self._clock = clock
        self._known: dict[str, _Announcement] = {}
        self._writing = KeyedLimiter(1)
        """Held by whoever writes the file of an announcement: a line that is added while the file
        is rewritten would be lost."""
        self._own = background_tasks()

    async def __aenter__(self) -> Self:
        self._known = await anyio.to_thread.run_sync(_read_all, self._folder)
        self._tasks = await self._own.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._own.__aexit__(kind, error, trace)

    async def start(
        self, text: str, chats: Sequence[ChatKey], *, per_minute: float = PER_MINUTE
    ) -> AnnouncementSummary:
        """Begin to send a text to chats, in the given order. A chat that is named twice gets the
        text once.

        If it raises `InvalidAnnouncement` or `OSError`, nothing is sent.
        """
        if not 0 < len(text.strip()) <= TEXT_LENGTH:
            raise InvalidAnnouncement(
                f"the text has {len(text)} characters: expected 1 to {TEXT_LENGTH}"
            )
        if not 0 < len(chats) <= MOST_CHATS:
            raise InvalidAnnouncement(f"{len(chats)} chats: expected 1 to {MOST_CHATS}")
        if not 0 < per_minute <= FASTEST_PER_MINUTE:
            raise InvalidAnnouncement(
                f"{per_minute:g} chats in a minute: expected at most {FASTEST_PER_MINUTE:g}"
            )
        begun = _Announcement(
            announcement_id=f"{int(self._clock()):012d}-{secrets.token_hex(4)}",
            text=text,
            created=self._clock(),
            per_minute=per_minute,
            chats={key: AnnouncedChat(chat_key=key) for key in chats},
        )
        await self._write(begun, begun.head())
        self._known[begun.announcement_id] = begun
        self._begin(begun)
        self._run(begun)
        return begun.summary()

    def listed(self, *, before: str = "", limit: int = MOST_KEPT) -> list[AnnouncementSummary]:
        """Return announcements, newest first. If ``before`` is the id of an announcement, return
        only older announcements."""
        newest = sorted((key for key in self._known if not before or key < before), reverse=True)
        return [self._known[key].summary() for key in newest[:limit]]

    def one(self, announcement_id: str) -> tuple[AnnouncementSummary, tuple[AnnouncedChat, ...]]:
        """Return an announcement with its chats. Raises `CannotDo` if there is none."""
        found = self._found(announcement_id)
        return found.summary(), tuple(found.chats.values())

    async def cancel(self, announcement_id: str) -> AnnouncementSummary:
        """Stop an announcement. Waits at most 5 s for a message that is being sent. Raises
        `CannotDo` if the announcement is done or was cancelled, and `OSError`."""
        found = self._found(announcement_id)
        if found.state not in (AnnouncementState.RUNNING, AnnouncementState.INTERRUPTED):
            raise CannotDo(f"this announcement is {found.state} already")
        found.state = AnnouncementState.CANCELLED
        found.stop.set()
        if found.ended is not None:
            with anyio.move_on_after(5):
                await found.ended.wait()
        await self._write(found, {"state": found.state})
        return found.summary()

    async def resume(self, announcement_id: str) -> AnnouncementSummary:
        """Continue an announcement that was cancelled or interrupted, with the chats that were not
        tried. Raises `CannotDo` if all chats were tried or the announcement runs, and `OSError`."""
        found = self._found(announcement_id)
        before = found.state
        if before is AnnouncementState.RUNNING or not found.summary().waiting:
            raise CannotDo(f"this announcement is {before}: nothing is left to send")
        self._begin(found)  # before the file is written: a second `resume` meanwhile is refused
        try:
            await self._write(found, {"state": AnnouncementState.INTERRUPTED})
        except BaseException:
            if found.state is AnnouncementState.RUNNING:
                found.state = before
            found.ended = None
            raise
        self._run(found)
        return found.summary()

    async def forget(self, chats: Collection[ChatKey]) -> int:
        """Delete chats from all announcements, because a person is erased. Returns how many entries
        were deleted.

        If a file cannot be written, the other ones are, and this method then raises `OSError`,
        which names the announcements whose files still have the chats. The next call writes these
        files again."""
        gone, failed = 0, list[str]()
        for each in list(self._known.values()):  # `start` may add an announcement meanwhile
            async with self._writing.of(each.announcement_id):
                theirs = set(chats) & each.chats.keys()
                for key in theirs:
                    del each.chats[key]
                each.stale = each.stale or bool(theirs)
                if each.stale:
                    try:
                        await anyio.to_thread.run_sync(self._rewrite, each)
                        each.stale = False
                    except OSError as error:
                        failed.append(f"{each.announcement_id} ({error.strerror})")
            gone += len(theirs)
        if failed:
            raise OSError(f"announcements that still name chats of the person: {', '.join(failed)}")
        return gone

    def _begin(self, announcement: _Announcement) -> None:
        announcement.state = AnnouncementState.RUNNING
        announcement.stop, announcement.ended = anyio.Event(), anyio.Event()

    def _run(self, announcement: _Announcement) -> None:
        assert announcement.ended is not None, "`_begin` was called before"
        self._tasks.start_soon(self._send_all, announcement, announcement.stop, announcement.ended)

    async def _send_all(
        self, announcement: _Announcement, stop: anyio.Event, ended: anyio.Event
    ) -> None:
        todo = [key for key, each in announcement.chats.items() if each.state is None]
        try:
            for number, key in enumerate(todo):
                if number:
                    with anyio.move_on_after(60 / announcement.per_minute):
                        await stop.wait()
                if stop.is_set():
                    return
                if key in announcement.chats:  # `forget` may have deleted the chat
                    await self._send_one(announcement, key)
            if not stop.is_set():
                announcement.state = AnnouncementState.DONE
                # Shielded: what `listed` says already is also in the file when the bot ends now.
                with anyio.CancelScope(shield=True):
                    await self._write(announcement, {"state": announcement.state})
        except OSError as error:
            logger.error("an announcement stops, its progress cannot be stored: {}", error)
            announcement.state = AnnouncementState.INTERRUPTED
        finally:
            ended.set()

    async def _send_one(self, announcement: _Announcement, key: ChatKey) -> None:
        # Store this state before the message is sent, so that no chat gets it twice after a crash.
        await self._note(announcement, key, DeliveryState.SENDING)
        try:
            receipts = await self._send(key, (Text(announcement.text),))
        except NekroError as error:
            await self._note(announcement, key, DeliveryState.REJECTED, str(error))
            return
        none = Receipt(state=DeliveryState.DROPPED, reason="nothing was sent")
        gravest = min(receipts, key=lambda each: _GRAVEST.index(each.state), default=none)
        await self._note(announcement, key, gravest.state, gravest.reason)

    async def _note(
        self, announcement: _Announcement, key: ChatKey, state: DeliveryState, reason: str = ""
    ) -> None:
        async with self._writing.of(announcement.announcement_id):
            if key not in announcement.chats:
                return  # `forget` has deleted the chat
            now = self._clock()
            announcement.chats[key] = AnnouncedChat(
                chat_key=key, state=state, reason=reason[:500], time=now
            )
            line = {"chat": str(key), "state": state, "reason": reason[:500], "time": now}
            await anyio.to_thread.run_sync(self._append, announcement.announcement_id, line)

    def _found(self, announcement_id: str) -> _Announcement:
        found = self._known.get(announcement_id)
        if found is None:
            raise CannotDo(f"there is no announcement {announcement_id!r}")
        return found

    async def _write(self, announcement: _Announcement, line: Mapping[str, Any]) -> None:
        async with self._writing.of(announcement.announcement_id):
            await anyio.to_thread.run_sync(self._append, announcement.announcement_id, line)

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        path = self._folder / f"{name}.jsonl"
        if not path.exists():
            write_whole(path, b"")  # creates the file with mode 600
        with path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # a crash has cut the last line off
                    file.write(b"\n")
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def _rewrite(self, announcement: _Announcement) -> None:
        lines: list[Mapping[str, Any]] = [announcement.head()]
        lines += [
            {"chat": str(key), "state": each.state, "reason": each.reason, "time": each.time}
            for key, each in announcement.chats.items()
            if each.state is not None
        ]
        lines.append({"state": announcement.state})
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_whole(self._folder / f"{announcement.announcement_id}.jsonl", text.encode())


def _read_all(folder: Path) -> dict[str, _Announcement]:
    """Read the newest files, and delete the others. If one of the newest files cannot be read, it
    is skipped and not deleted."""
    found: dict[str, _Announcement] = {}
    for number, path in enumerate(sorted(folder.glob("*.jsonl"), reverse=True)):
        if number >= MOST_KEPT:
            path.unlink(missing_ok=True)
            continue
        try:
            each = _read(path)
        except (OSError, ValueError, LookupError, TypeError, ChatKeyError) as error:
            logger.error("{} cannot be read: {!r}", path, error)
        else:
            found[each.announcement_id] = each
    return found


def _read(path: Path) -> _Announcement:
    # Not `splitlines`: a text may contain other characters that end a line, such as U+2028.
    head, *lines = path.read_bytes().split(b"\n")
    written = json.loads(head)
    keys = [ChatKey.parse(each) for each in written["chats"]]
    announcement = _Announcement(
        announcement_id=path.stem,
        text=str(written["text"]),
        created=float(written["created"]),
        per_minute=float(written["per_minute"]),
        chats={key: AnnouncedChat(chat_key=key) for key in keys},
    )
    for line in lines:
        try:
            change = json.loads(line)
        except ValueError:
            continue  # a crash has cut this line off, or it is the empty text after the last line
        if "chat" not in change:
            announcement.state = AnnouncementState(change["state"])
            continue
        key, state = ChatKey.parse(change["chat"]), DeliveryState(change["state"])
        reason = change["reason"]
        if state is DeliveryState.SENDING:  # a later line of this chat replaces this state
            state = DeliveryState.UNKNOWN
            reason = (
                "the bot ended while it was sent; the undelivered messages show what came of it"
            )
        if key in announcement.chats:
            announcement.chats[key] = AnnouncedChat(
                chat_key=key, state=state, reason=reason, time=change["time"]
            )
    if announcement.state is AnnouncementState.RUNNING:
        announcement.state = AnnouncementState.INTERRUPTED
    return announcement
