"""Commands that wait for a person's next message."""

from collections.abc import Awaitable, Callable

import anyio
import msgspec

from nekro_core.chat import ChatKey
from nekro_core.plugin.commands.book import Entry
from nekro_core.plugin.commands.response import Question

MAX_WAITS = 1000
"""In all chats together; each is a task."""
Late = Callable[[], Awaitable[None]]
_Key = tuple[ChatKey, str]


class Wait(msgspec.Struct, frozen=True, eq=False):
    """One question to one person in one chat. ``entry`` is the command that gets the answer,
    ``until`` when nobody waits any more, on the event loop's clock, and ``late`` what is done
    then."""

    key: _Key
    entry: Entry
    question: Question
    until: float
    late: Late
    over: anyio.Event = msgspec.field(default_factory=anyio.Event)


class TooManyWaits(Exception):
    """No more can be waited for."""


class Waits:
    """At most one a person and chat: a new question takes the place of the old one."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._open: dict[_Key, Wait] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self,
        chat_key: ChatKey,
        user_id: str,
        entry: Entry,
        question: Question,
        late: Late,
    ) -> None:
        """Wait from now on, as long as the plugin is loaded. ``late`` is run where no answer came
        in time. Raises `TooManyWaits`."""
        until = anyio.current_time() + min(question.timeout, self._longest_s)
        self._wait(Wait((chat_key, user_id), entry, question, until, late))

    def open_again(self, wait: Wait) -> None:
        """What came was no answer: wait for another one, no longer than for the first. Raises
        `TooManyWaits`."""
        self._wait(msgspec.structs.replace(wait, over=anyio.Event()))

    def _wait(self, wait: Wait) -> None:
        key, plugin = wait.key, wait.entry.plugin
        assert plugin is not None, "the bot's own commands ask nothing"
        self.close(key)
        if len(self._open) >= MAX_WAITS:
            raise TooManyWaits(f"{MAX_WAITS} commands wait for an answer already")
        self._open[key] = wait
        # One whose task is cancelled before its first step never comes to its own ``finally``.
        forget = plugin.effects.add("a question to a person", lambda: self._drop(wait))

        async def watch() -> None:
            try:
                with anyio.CancelScope(deadline=wait.until):
                    await wait.over.wait()
            finally:
                forget()
                self._drop(wait)
            if not wait.over.is_set():
                await wait.late()

        plugin.tasks.start(watch, name=f"{plugin.key}: question to {key[1]} in {key[0]}")

    def take(self, chat_key: ChatKey, user_id: str) -> Wait | None:
        """What this person's message answers; it is over with that."""
        return self.close((chat_key, user_id)) if user_id else None

    def close(self, key: _Key) -> Wait | None:
        """Wait no longer."""
        wait = self._open.pop(key, None)
        if wait is not None:
            wait.over.set()
        return wait

    def _drop(self, wait: Wait) -> None:
        if self._open.get(wait.key) is wait:
            del self._open[wait.key]
