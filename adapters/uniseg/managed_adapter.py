"""Starts and ends a stock adapter (an adapter of NoneBot), and receives its events before NoneBot
does.

NoneBot would start the adapter before the bot can accept events. NoneBot would also make network
calls for a message before it passes the message on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from types import new_class
from typing import Any, Protocol

from loguru import logger
from nonebot.adapters import Adapter, Bot, Event
from nonebot.drivers import Driver
from nonebot.utils import is_coroutine_callable, run_sync

from .backpressure import with_backpressure

Hook = Callable[[], Any]


class EventListener(Protocol):
    """Receives the events of a managed adapter."""

    def connected(self, bot: Bot) -> None:
        """Called when an account is connected."""

    def disconnected(self, bot: Bot) -> None:
        """Called when an account is no longer connected."""

    def problem(self, account: str, words: str, *, final: bool) -> None:
        """Called with the reason if an account cannot connect. If ``final`` is true, somebody must
        change the account's settings. Most stock adapters only log the reason."""

    async def on_event(self, bot: Bot, event: Event) -> None:
        """Process an event. Before its first ``await``, this call fixes the event's place in the
        order of arrival."""

    async def room(self) -> None:
        """Wait while too many events wait to join the queues of their chats. When this returns, the
        next event may be read."""

    async def settled(self, bot: Bot) -> bool:
        """Wait until all events of the account are stored. Return False if an event could not be
        stored, so that the platform should deliver it again."""


@dataclass(frozen=True)
class ManagedAdapter:
    """A stock adapter, and the hooks that it registered for NoneBot's start and end."""

    adapter: Adapter
    _starts: tuple[Hook, ...]
    _ends: tuple[Hook, ...]

    async def start(self) -> None:
        """Let the adapter connect. Errors of its hooks are raised."""
        for hook in self._starts:
            await _run(hook)

    async def end(self) -> None:
        """Let the adapter disconnect. Errors of its hooks are logged."""
        for hook in reversed(self._ends):
            try:
                await _run(hook)
            except Exception:  # noqa: BLE001 - the stock adapter may raise anything
                logger.exception("{}: a shutdown hook failed", self.adapter.get_name())


def manage(stock: type[Adapter], driver: Driver, listener: EventListener) -> ManagedAdapter:
    """Make a stock adapter whose bots pass every event to ``listener`` instead of NoneBot. Before
    each read, the adapter waits for ``listener.room``. Errors of the adapter's constructor are
    raised."""

    def bot_connect(self: Adapter, bot: Bot) -> None:
        # The stock method passes events to NoneBot's matchers. `on_event` replaces it.
        bot.handle_event = partial(listener.on_event, bot)  # type: ignore[attr-defined]
        bot.settled = partial(listener.settled, bot)  # type: ignore[attr-defined]
        try:
            Adapter.bot_connect(self, bot)
        except RuntimeError as error:  # raised if another adapter's bot has the same id
            logger.warning("NoneBot's plugins will not see account {}: {}", bot.self_id, error)
            self.bots[bot.self_id] = bot
        listener.connected(bot)

    def bot_disconnect(self: Adapter, bot: Bot) -> None:
        listener.disconnected(bot)
        if self.driver.bots.get(bot.self_id) is bot:
            Adapter.bot_disconnect(self, bot)
        else:
            self.bots.pop(bot.self_id, None)

    def report_problem(_: Adapter, account: str, words: str, *, final: bool) -> None:
        listener.problem(account, words, final=final)

    lifespan = driver._lifespan  # noqa: SLF001 - NoneBot's `Adapter.on_ready` writes there too
    lists = lifespan._startup_funcs, lifespan._ready_funcs, lifespan._shutdown_funcs  # noqa: SLF001
    before = [len(each) for each in lists]
    methods = {
        "bot_connect": bot_connect,
        "bot_disconnect": bot_disconnect,
        "report_problem": report_problem,
        **with_backpressure(stock, listener.room),
    }
    managed: Any = new_class(
        stock.__name__, (stock,), exec_body=lambda names: names.update(methods)
    )
    adapter: Adapter = managed(driver)
    added = [each[count:] for each, count in zip(lists, before, strict=True)]
    for each, count in zip(lists, before, strict=True):
        del each[count:]
    startup, ready, shutdown = added
    return ManagedAdapter(adapter, (*startup, *ready), tuple(shutdown))


async def _run(hook: Hook) -> None:
    work: Callable[[], Awaitable[Any]] = hook if is_coroutine_callable(hook) else run_sync(hook)
    await work()
