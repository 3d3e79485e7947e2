"""Keeps the questions of commands that wait for a person's next message, also over restarts."""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.command_response import Question
from nekro_core.plugins.commands.book import RegisteredCommand
from nekro_core.store import WaitingRow
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.system.errors import NekroError

QUESTION, ANSWER = "question", "answer"
"""Kinds of rows: open questions, and answers that a command is still processing."""
MAX_PENDING = 1000
"""Maximum number of open questions in all chats together. Each question has a task."""
OnTimeout = Callable[[], Awaitable[None]]
_Key = tuple[ChatKey, str]


class QuestionStore(Protocol):
    """Stores questions (`nekro_core.store.Store.waiting`)."""

    def put(self, row: WaitingRow) -> Awaitable[object]:
        """Store a row. It replaces the row with the same key."""

    def forget(self, kind: str, name: str) -> Awaitable[object]:
        """Delete a row."""

    async def all(self, kind: str, chats: ChatScope) -> list[WaitingRow]:
        """Get the rows of a kind that belong to some chats."""


class PendingQuestion(msgspec.Struct, frozen=True, eq=False):
    """An open question to one person in one chat.

    ``entry`` is the command that gets the answer. ``until`` is the deadline, as a time of the event
    loop's clock. At the deadline ``late`` is called, which sends the text ``said``. ``after`` is
    the number of the record that led to the question. Only records with a higher number can be
    answers.
    """

    key: _Key
    entry: RegisteredCommand
    question: Question
    until: float
    late: OnTimeout
    said: str = ""
    after: int = 0
    over: anyio.Event = msgspec.field(default_factory=anyio.Event)

    @property
    def name(self) -> str:
        """The name of the question's row. It is a hash, because a chat key and a user id together
        may be too long."""
        return hashlib.sha256(f"{self.key[0]} {self.key[1]}".encode()).hexdigest()


class TooManyQuestions(NekroError):
    """Too many questions are open at the same time."""


class PendingQuestions:
    """The open questions. Each person has at most one in each chat: a new question replaces the old
    one. No question waits for longer than ``longest_s`` seconds. ``keeper`` stores the questions;
    without it, a restart loses all of them. ``wall`` returns seconds since 1970."""

    def __init__(
        self,
        longest_s: float,
        keeper: QuestionStore | None = None,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._longest_s = longest_s
        self._keeper = keeper
        self._wall = wall
        self._open: dict[_Key, PendingQuestion] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self,
        chat_key: ChatKey,
        user_id: str,
        entry: RegisteredCommand,
        question: Question,
        late: OnTimeout,
        *,
        said: str = "",
        after: int = 0,
    ) -> None:
        """Start to wait for an answer. The wait ends when the plugin is unloaded. ``late`` is
        called if no answer comes in time. For ``said`` and ``after`` see `PendingQuestion`. Raises
        `TooManyQuestions`."""
        until = anyio.current_time() + min(question.timeout, self._longest_s)
        self._wait(PendingQuestion((chat_key, user_id), entry, question, until, late, said, after))

    def reopen(self, wait: PendingQuestion) -> None:
        """Wait for another answer, because the person's message was not a valid one. The deadline
        stays the same. Raises `TooManyQuestions`."""
        self._wait(msgspec.structs.replace(wait, over=anyio.Event()))

    def _wait(self, wait: PendingQuestion) -> None:
        key, plugin = wait.key, wait.entry.plugin
        assert plugin is not None, "the bot's own commands ask nothing"
        self.close(key)
        if len(self._open) >= MAX_PENDING:
            raise TooManyQuestions(f"{MAX_PENDING} commands wait for an answer already")
        self._open[key] = wait
        # If the task below is cancelled before its first step, its ``finally`` does not run. In
        # this case, the undo step drops the question.
        forget = plugin.effects.add("a question to a person", lambda: self._drop(wait))

        async def watch() -> None:
            try:
                with anyio.CancelScope(deadline=wait.until):
                    await wait.over.wait()
            finally:
                # If the plugin or the bot ends, the row is not deleted, and the next start reads
                # it.
                forget()
                self._drop(wait)
            if not wait.over.is_set():
                self._forget(wait)
                await wait.late()

        plugin.tasks.start(watch, name=f"{plugin.key}: question to {key[1]} in {key[0]}")
        if (row := self._row(wait)) is not None and self._keeper is not None:
            self._keeper.put(row)

    def take(self, chat_key: ChatKey, user_id: str, seq: int) -> PendingQuestion | None:
        """Close the question that this person's message answers, and return it. ``seq`` is the
        number of the message's record. Returns None if no question is open to the person in this
        chat, or if the message is older than the question."""
        wait = self._open.get((chat_key, user_id)) if user_id else None
        return self.close(wait.key) if wait is not None and seq > wait.after else None

    async def at_work(self, wait: PendingQuestion, seq: int) -> None:
        """Store that the record with this number is the answer. Call this before the command gets
        the answer: after a restart, the command then does not run again, and the agent does not
        answer the record."""
        if self._keeper is not None:
            row = WaitingRow(
                kind=ANSWER,
                name=str(seq),
                plugin="",
                chat_key=str(wait.key[0]),
                user_id=wait.key[1],
            )
            await self._keeper.put(row)

    def done(self, seq: int) -> None:
        """Delete the row that `at_work` stored, because the command has processed the answer."""
        if self._keeper is not None:
            self._keeper.forget(ANSWER, str(seq))

    def close(self, key: _Key) -> PendingQuestion | None:
        """Close a question and delete its row. Returns the question; None if there was none."""
        wait = self._open.pop(key, None)
        if wait is not None:
            wait.over.set()
            self._forget(wait)
        return wait

    def release(self, chats: ChatScope) -> None:
        """Forget the open questions of some chats, and keep their rows for the process that takes
        the chats over."""
        for wait in [each for each in self._open.values() if chats(each.key[0])]:
            del self._open[wait.key]
            wait.over.set()

    async def left(self, chats: ChatScope = every_chat) -> tuple[list[WaitingRow], set[int]]:
        """Read the rows that an earlier process left in some chats: its open questions, and the
        record numbers of the answers that its commands were processing. The rows of these answers
        are deleted."""
        if self._keeper is None:
            return [], set()
        answers = await self._keeper.all(ANSWER, chats)
        for row in answers:
            await self._keeper.forget(ANSWER, row.name)
        return await self._keeper.all(QUESTION, chats), {int(row.name) for row in answers}

    def remaining(self, row: WaitingRow) -> float:
        """Get the seconds until the deadline of a row; negative after the deadline. The result is
        never more than the longest wait, even if the clock was set back."""
        return min(row.until - self._wall(), self._longest_s)

    async def forget_row(self, row: WaitingRow) -> None:
        """Delete the row of a question whose wait has ended."""
        if self._keeper is not None:
            await self._keeper.forget(QUESTION, row.name)

    def _row(self, wait: PendingQuestion) -> WaitingRow | None:
        """Make the row of a question; None if its context cannot be stored as JSON."""
        question, (chat_key, user_id) = wait.question, wait.key
        known = dict(question.context_data)
        try:
            data = {
                "command": wait.entry.command.name,
                "options": question.options,
                "context": known,
                "said": wait.said,
                "after": wait.after,
            }
            text = json.dumps(data)
        except (TypeError, ValueError, RecursionError) as error:
            logger.info("{}: a restart would lose its question: {}", wait.entry.owner, error)
            return None
        if json.loads(text)["context"] != known:
            logger.info("{}: a restart would lose its question: not JSON", wait.entry.owner)
            return None
        now = self._wall()
        return WaitingRow(
            kind=QUESTION,
            name=wait.name,
            plugin=wait.entry.owner,
            chat_key=str(chat_key),
            user_id=user_id,
            data=text,
            created=now,
            until=now + wait.until - anyio.current_time(),
        )

    def _forget(self, wait: PendingQuestion) -> None:
        if self._keeper is not None:
            self._keeper.forget(QUESTION, wait.name)

    def _drop(self, wait: PendingQuestion) -> None:
        if self._open.get(wait.key) is wait:
            del self._open[wait.key]
