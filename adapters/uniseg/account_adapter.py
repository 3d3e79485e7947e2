"""Provides the adapter of a platform whose accounts an operator can manage while the bot runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from anyio.abc import TaskGroup
from nonebot.adapters import Bot, Event
from nonebot.drivers import Driver

from nekro_core.api.adapter import AccountManager, AccountMonitor, Host, PlatformAccounts
from nekro_core.api.chat import Delivery, Receipt

from .account_connector import SharedAccount, UnisegConnector
from .account_kind import AccountKind
from .adapter import SEND_S, UnisegAdapter
from .intake import UnisegIntake
from .managed_adapter import EventListener
from .platform import Platform


class ManagedUnisegAdapter(UnisegAdapter):
    """`UnisegAdapter` with `SupportsAccounts`.

    The accounts that the bot's settings name share one stock adapter: an adapter of NoneBot, not of
    this project. Such an account appears in the list of accounts when it connects. While it is
    paused, its messages are dropped. An account that the operator added has its own stock adapter,
    and is disconnected while it is paused.
    """

    def __init__(
        self,
        host: Host,
        driver: Driver,
        platform: Platform,
        kind: AccountKind[Any],
        *,
        send_s: float = SEND_S,
    ) -> None:
        self._shared: dict[str, AccountMonitor] = {}
        super().__init__(host, driver, platform, send_s=send_s)
        self._source = kind.setting.upper()
        self._group: TaskGroup | None = None
        connector = UnisegConnector(platform, kind, driver, self._intake, self._shared)
        self._manager: AccountManager[Any] = AccountManager(
            kind.model, connector, host.account_settings, adapter=self.name
        )

    @property
    def managed_accounts(self) -> PlatformAccounts:
        """See `SupportsAccounts`."""
        return self._manager

    async def send(self, delivery: Delivery) -> Receipt:
        """See `UnisegAdapter.send`."""
        receipt = await super().send(delivery)
        if receipt.ok:
            account = await self._host.account_of(delivery.chat_key.instance)
            self._manager.count_send(account or "")
        return receipt

    def _listener(self) -> EventListener:
        return SharedListener(self._intake, self._shared, self._found)

    @asynccontextmanager
    async def _serve(self, tasks: TaskGroup) -> AsyncIterator[None]:
        self._group = tasks
        async with super()._serve(tasks):
            self._manager.open(tasks)
            yield

    def _found(self, account: str) -> None:
        """Add an account that the bot's settings name to the list of accounts."""
        if self._group is not None:
            shared = SharedAccount(account=account)
            self._group.start_soon(self._manager.found, shared, self._source)


class SharedListener:
    """Reports the events of the shared stock adapter to the intake, and to the monitors of the
    accounts. Drops the events of a paused account."""

    def __init__(
        self,
        intake: UnisegIntake,
        monitors: dict[str, AccountMonitor],
        found: Callable[[str], None],
    ) -> None:
        self._intake = intake
        self._monitors = monitors
        self._found = found

    def connected(self, bot: Bot) -> None:
        """See `EventListener.connected`."""
        self._intake.connected(bot)
        monitor = self._monitors.get(bot.self_id)
        if monitor is None:
            self._found(bot.self_id)
        else:
            monitor.online(bot.self_id)

    def disconnected(self, bot: Bot) -> None:
        """See `EventListener.disconnected`."""
        self._intake.disconnected(bot)
        if (monitor := self._monitors.get(bot.self_id)) is not None:
            monitor.offline("the connection ended; the log says why")

    def problem(self, account: str, words: str, *, final: bool) -> None:
        """See `EventListener.problem`."""
        if (monitor := self._monitors.get(account)) is not None:
            (monitor.failed if final else monitor.offline)(words)

    async def on_event(self, bot: Bot, event: Event) -> None:
        """See `EventListener.on_event`."""
        if bot.self_id in self._intake.paused:
            return
        if (monitor := self._monitors.get(bot.self_id)) is not None:
            monitor.event()
        await self._intake.on_event(bot, event)

    async def room(self) -> None:
        """See `EventListener.room`."""
        await self._intake.room()

    async def settled(self, bot: Bot) -> bool:
        """See `EventListener.settled`."""
        return await self._intake.settled(bot)
