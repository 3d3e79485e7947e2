"""Commands that wait for a person's next message, after a restart too."""

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
from nekro_core.system.errors import NekroError

QUESTION, ANSWER = "question", "answer"
"""Kinds of rows: who is waited for, and answers that a command is at work on."""
MAX_PENDING = 1000
"""In all chats together; each is a task."""
OnTimeout = Callable[[], Awaitable[None]]
_Key = tuple[ChatKey, str]


class QuestionStore(Protocol):
    """Where they are kept (`nekro_core.store.Store.waiting`)."""

    def put(self, row: WaitingRow) -> Awaitable[object]:
        """Keep a row, in the place of one with its key."""

    def forget(self, kind: str, name: str) -> Awaitable[object]:
        """Take a row away."""

    async def all(self, kind: str) -> list[WaitingRow]:
        """Every row of a kind."""


class PendingQuestion(msgspec.Struct, frozen=True, eq=False):
    """One question to one person in one chat. ``entry`` is the command that gets the answer,
    ``until`` when nobody waits any more, on the event loop's clock, and ``late`` what is done
    then. ``said`` is what the chat is told with it; ``after`` is the number of the record that led
    to the question, so an answer has a higher one."""

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
        """What its row is known by: a chat's key and a person's id together may be too long."""
        return hashlib.sha256(f"{self.key[0]} {self.key[1]}".encode()).hexdigest()


class TooManyQuestions(NekroError):
    """No more can be waited for."""


class PendingQuestions:
    """At most one a person and chat: a new question takes the place of the old one. Without a
    ``keeper`` a restart forgets them. ``wall`` counts seconds since 1970."""

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
        """Wait from now on, as long as the plugin is loaded. ``late`` is run where no answer came
        in time; for ``said`` and ``after`` see `PendingQuestion`. Raises `TooManyQuestions`."""
        until = anyio.current_time() + min(question.timeout, self._longest_s)
        self._wait(PendingQuestion((chat_key, user_id), entry, question, until, late, said, after))

    def reopen(self, wait: PendingQuestion) -> None:
        """What came was no answer: wait for another one, no longer than for the first. Raises
        `TooManyQuestions`."""
        self._wait(msgspec.structs.replace(wait, over=anyio.Event()))

    def _wait(self, wait: PendingQuestion) -> None:
        key, plugin = wait.key, wait.entry.plugin
        assert plugin is not None, "the bot's own commands ask nothing"
        self.close(key)
        if len(self._open) >= MAX_PENDING:
            raise TooManyQuestions(f"{MAX_PENDING} commands wait for an answer already")
        self._open[key] = wait
        # One whose task is cancelled before its first step never comes to its own ``finally``.
        forget = plugin.effects.add("a question to a person", lambda: self._drop(wait))

        async def watch() -> None:
            try:
                with anyio.CancelScope(deadline=wait.until):
                    await wait.over.wait()
            finally:
                # Cut off with its plugin or with the bot, its row stays: the next start has it.
                forget()
                self._drop(wait)
            if not wait.over.is_set():
                self._forget(wait)
                await wait.late()

        plugin.tasks.start(watch, name=f"{plugin.key}: question to {key[1]} in {key[0]}")
        if (row := self._row(wait)) is not None and self._keeper is not None:
            self._keeper.put(row)

    def take(self, chat_key: ChatKey, user_id: str, seq: int) -> PendingQuestion | None:
        """What this person's message answers; it is over with that."""
        wait = self._open.get((chat_key, user_id)) if user_id else None
        return self.close(wait.key) if wait is not None and seq > wait.after else None

    async def at_work(self, wait: PendingQuestion, seq: int) -> None:
        """Write down that the record of this number was the answer, before anything is done with
        it: a restart does not do it again, and the agent does not take it for a question."""
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
        """What was to be done with the answer is done."""
        if self._keeper is not None:
            self._keeper.forget(ANSWER, str(seq))

    def close(self, key: _Key) -> PendingQuestion | None:
        """Wait no longer."""
        wait = self._open.pop(key, None)
        if wait is not None:
            wait.over.set()
            self._forget(wait)
        return wait

    async def left(self) -> tuple[list[WaitingRow], set[int]]:
        """What an earlier process left: questions that nobody has answered, and the numbers of
        answers that it was at work on, which are forgotten with this."""
        if self._keeper is None:
            return [], set()
        answers = await self._keeper.all(ANSWER)
        for row in answers:
            await self._keeper.forget(ANSWER, row.name)
        return await self._keeper.all(QUESTION), {int(row.name) for row in answers}

    def remaining(self, row: WaitingRow) -> float:
        """Seconds until nobody waits for it any more; negative where that was before. A clock that
        was put back makes nobody wait longer than ever."""
        return min(row.until - self._wall(), self._longest_s)

    async def forget_row(self, row: WaitingRow) -> None:
        """Nobody waits for this one any more."""
        if self._keeper is not None:
            await self._keeper.forget(QUESTION, row.name)

    def _row(self, wait: PendingQuestion) -> WaitingRow | None:
        """The row of a question; nothing where its context cannot be written down."""
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
            logger.info("{}: a restart would forget its question: {}", wait.entry.owner, error)
            return None
        if json.loads(text)["context"] != known:
            logger.info("{}: a restart would forget its question: no JSON", wait.entry.owner)
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
