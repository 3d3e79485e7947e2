"""Shows people that the bot works on an answer: that it is typing, and a reaction to the message
that it answers.

These calls are made in separate tasks. A call that fails or gets no answer neither delays nor ends
a turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.delivery.signs import SupportsReactions, SupportsTyping
from nekro_core.policy.overrides import ChatOverrides
from nekro_core.system.background_tasks import background_tasks

CALL_S = 5.0
"""Time-out of one call in seconds. A later answer is of no use: most platforms show that somebody
is typing for 5 to 10 seconds."""
LEAST_PAUSE_S = 2.0
"""Minimum number of seconds between two calls that say that the bot is typing in the same chat.
Platforms limit the number of all calls together, and messages are more important."""
_AFTER_REQUEST_S = 0.02
"""Seconds after which the bot first shows that it is typing. Until then the request to the model
has left: making a task for this and the platform call would delay it by a tenth."""
_REPEATED_AFTER = 0.8
"""`Capabilities.typing_s` is the time for which the platform shows that the bot is typing. After
this fraction of it the call is repeated, so that people see the sign without a gap."""
_MOST_REFUSALS = 1000
"""Maximum number of refusals that are remembered. Above it, the oldest one is forgotten and tried
again."""


class _TypingChat:
    """A chat in which turns work. ``turns`` counts them."""

    def __init__(self) -> None:
        self.turns = 0
        self.changed = anyio.Event()
        self.is_wanted_now = False

    def tell(self) -> None:
        self.changed.set()


class TypingState:
    """The typing state of one turn. None of the methods waits, and none raises."""

    def __init__(self, chat_key: ChatKey, signs: "ChatSigns") -> None:
        self._chat_key = chat_key
        self._signs = signs
        self._shown = False

    def show(self) -> None:
        """Show that the bot is typing, from now until `end`. If it is shown already, show it anew
        soon, because the platform may have ended it when a message was sent."""
        if self._shown:
            self._signs.repeat(self._chat_key)
        else:
            self._shown = True
            self._signs.begin(self._chat_key)

    def end(self) -> None:
        """Stop showing it. May be called without `show`, or twice."""
        if self._shown:
            self._shown = False
            self._signs.end(self._chat_key)


class ChatSigns:
    """The typing states and reactions of all chats. An async context manager, which must be entered
    before the sessions and left after them.

    Args:
        adapter_of: Returns the adapter that serves a chat; None if there is none.
        settings: Whether the bot shows these signs.
        overrides: Returns the operator's overrides for a chat.
    """

    def __init__(
        self,
        adapter_of: Callable[[ChatKey], Adapter | None],
        settings: DeliverySettings,
        overrides: Callable[[ChatKey], ChatOverrides],
    ) -> None:
        self._adapter_of = adapter_of
        self._settings = settings
        self._overrides = overrides
        self._chats: dict[ChatKey, _TypingChat] = {}
        self._refused: dict[tuple[ChatKey, str], None] = {}
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(background_tasks())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tasks = None
        await self._stack.__aexit__(kind, error, trace)

    def typing(self, chat_key: ChatKey) -> TypingState:
        """Return the typing state of a turn that begins in a chat. Nothing is shown yet."""
        return TypingState(chat_key, self)

    def seen(self, chat_key: ChatKey, message_id: str) -> None:
        """React to a message that the bot is going to answer, if the operator wants that. Never
        waits, never raises."""
        if not message_id or self._tasks is None:
            return
        emoji = self._overrides(chat_key).seen_emoji
        emoji = self._settings.seen_emoji.strip() if emoji is None else emoji
        if emoji:
            self._tasks.start_soon(
                self._react, chat_key, message_id, emoji, name=f"reaction in {chat_key}"
            )

    async def _react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        adapter = self._adapter_of(chat_key)
        if not isinstance(adapter, SupportsReactions):
            return
        react = adapter.react

        async def call() -> None:
            if adapter.capabilities(chat_key).reactions:
                await react(chat_key, message_id, emoji)

        await self._call(chat_key, f"the reaction {emoji!r}", call)

    def begin(self, chat_key: ChatKey) -> None:
        """Note that a turn of a chat works. Called by `TypingState`."""
        if self._tasks is None:
            return
        chat = self._chats.get(chat_key)
        if chat is None:
            chat = self._chats[chat_key] = _TypingChat()
            loop = asyncio.get_running_loop()
            loop.call_later(_AFTER_REQUEST_S, self._begin_showing, chat_key, chat)
        chat.turns += 1
        chat.tell()

    def _begin_showing(self, chat_key: ChatKey, chat: _TypingChat) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._show_typing, chat_key, chat, name=f"typing in {chat_key}")

    def repeat(self, chat_key: ChatKey) -> None:
        """Show the typing state of a chat anew. Called by `TypingState`."""
        if (chat := self._chats.get(chat_key)) is not None:
            chat.is_wanted_now = True
            chat.tell()

    def end(self, chat_key: ChatKey) -> None:
        """Note that a turn of a chat ended. Called by `TypingState`."""
        if (chat := self._chats.get(chat_key)) is not None:
            chat.turns -= 1
            chat.tell()

    async def _show_typing(self, chat_key: ChatKey, chat: _TypingChat) -> None:
        """Show that the bot is typing while turns of the chat work. One task makes all these calls
        of a chat, so that the end of a turn cannot overtake the beginning of the next one."""
        shown = False
        while True:
            if chat.turns:
                chat.is_wanted_now = False
                every_s = await self._say(chat_key, typing=True)
                shown = shown or every_s is not None
                await self._wait(chat, every_s)
            elif shown:
                shown = False
                await self._say(chat_key, typing=False)
            else:
                del self._chats[chat_key]
                return

    async def _say(self, chat_key: ChatKey, *, typing: bool) -> float | None:
        """Make one call. Returns after how many seconds it must be repeated; None if nothing can or
        may be shown in this chat."""
        adapter = self._adapter_of(chat_key)
        wanted = self._overrides(chat_key).typing or self._settings.typing
        if adapter is None or (typing and wanted == "off"):
            return None
        lasts_s: float | None = None

        async def call() -> None:
            nonlocal lasts_s
            shown_s = adapter.capabilities(chat_key).typing_s
            # The number is looked at first: a look at all methods of an adapter takes longer.
            if shown_s is not None and isinstance(adapter, SupportsTyping):
                lasts_s = shown_s
                await adapter.show_typing(chat_key, typing=typing)

        if not await self._call(chat_key, "the typing state", call) or lasts_s is None:
            return None
        return max(lasts_s * _REPEATED_AFTER, LEAST_PAUSE_S)

    async def _wait(self, chat: _TypingChat, every_s: float | None) -> None:
        """Wait until the state must be shown anew, or until no turn of the chat works."""
        called_at = anyio.current_time()
        while chat.turns:
            pause_s = LEAST_PAUSE_S if chat.is_wanted_now and every_s is not None else every_s
            left_s = None if pause_s is None else called_at + pause_s - anyio.current_time()
            if left_s is not None and left_s <= 0:
                return
            chat.changed = anyio.Event()
            with anyio.move_on_after(left_s):
                await chat.changed.wait()

    async def _call(
        self, chat_key: ChatKey, what: str, call: Callable[[], Awaitable[None]]
    ) -> bool:
        """Make a call, unless the platform refused it before. Returns False if the platform refuses
        it, and True if it was made or may work later."""
        if (chat_key, what) in self._refused:
            return False
        try:
            with anyio.fail_after(CALL_S):
                await call()
        except SignRefused as error:
            while len(self._refused) >= _MOST_REFUSALS:
                del self._refused[next(iter(self._refused))]
            self._refused[chat_key, what] = None
            logger.warning("{}: the platform refuses {}: {}", chat_key, what, error)
            return False
        except TimeoutError:
            logger.debug("{}: no answer about {} within {:g} s", chat_key, what, CALL_S)
        except Exception as error:  # noqa: BLE001 (an adapter's fault must not end other tasks)
            logger.debug("{}: {} is not shown: {!r}", chat_key, what, error)
        return True
