"""Runs accounts that the operator added. Each has its own stock adapter (an adapter of NoneBot, not
of this project). So one account can be added or ended while the others run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
from loguru import logger
from nonebot.adapters import Bot, Event
from nonebot.drivers import Driver

from nekro_core.api.adapter import (
    AccountMonitor,
    ConnectionHint,
    ConnectionProblem,
    ConnectionTestFailed,
)

from .account_kind import AccountKind, UnisegAccount
from .intake import UnisegIntake
from .managed_adapter import manage
from .platform import Platform

END_S = 3.0
"""Time limit for the stock adapter of one account to disconnect, in seconds."""
RETRY_S = (2.0, 5.0, 15.0, 60.0)
"""Seconds before an account is checked again, after the first, second, ... failure in a row. The
last value repeats."""
_ABSENT = object()


class AccountListener:
    """Reports the events of one stock adapter to the intake, and to the monitor of the account."""

    def __init__(self, intake: UnisegIntake, monitor: AccountMonitor) -> None:
        self._intake = intake
        self._monitor = monitor

    def connected(self, bot: Bot) -> None:
        """See `EventListener.connected`."""
        self._intake.connected(bot)
        self._monitor.online(bot.self_id)

    def disconnected(self, bot: Bot) -> None:
        """See `EventListener.disconnected`."""
        self._intake.disconnected(bot)
        self._monitor.offline("the connection ended; the log says why")

    def problem(self, _account: str, words: str, *, final: bool) -> None:
        """See `EventListener.problem`."""
        (self._monitor.failed if final else self._monitor.offline)(words)

    async def on_event(self, bot: Bot, event: Event) -> None:
        """See `EventListener.on_event`."""
        self._monitor.event()
        await self._intake.on_event(bot, event)

    async def room(self) -> None:
        """See `EventListener.room`."""
        await self._intake.room()

    async def settled(self, bot: Bot) -> bool:
        """See `EventListener.settled`."""
        return await self._intake.settled(bot)


class UnisegConnector:
    """The `AccountConnector` of a platform.

    Args:
        platform: The platform.
        kind: The settings of the platform's accounts, and how to check them.
        driver: NoneBot's driver.
        intake: Processes the events of all accounts.
        shared: Maps accounts to their monitors. It has the accounts that the bot's settings name.
            These share one stock adapter. A paused account is not in it.
    """

    def __init__(
        self,
        platform: Platform,
        kind: AccountKind[Any],
        driver: Driver,
        intake: UnisegIntake,
        shared: dict[str, AccountMonitor],
    ) -> None:
        self._platform = platform
        self._kind = kind
        self._driver = driver
        self._intake = intake
        self._shared = shared

    def key_of(self, settings: UnisegAccount) -> str:
        """Return the account's key."""
        return settings.key

    def complete(self, settings: UnisegAccount) -> UnisegAccount:
        """Return the settings unchanged, because the bot has no values to add."""
        return settings

    async def run(self, settings: UnisegAccount, monitor: AccountMonitor) -> None:
        """Keep the account connected until cancelled."""
        if isinstance(settings, SharedAccount):
            await self._share(monitor)
        else:
            await self._run_alone(settings, monitor)

    async def test(self, settings: UnisegAccount) -> str:
        """Ask the platform about the account. Raises `ConnectionTestFailed`."""
        found: str = await self._kind.check(settings, self._proxy)
        return found

    def hint(self, _settings: UnisegAccount, _address: str) -> ConnectionHint:
        """Return what the operator must do on the platform."""
        return ConnectionHint(text=self._kind.hint)

    @property
    def _proxy(self) -> str | None:
        return getattr(self._driver.config, self._kind.proxy, None) if self._kind.proxy else None

    async def _until_accepted(self, settings: UnisegAccount, monitor: AccountMonitor) -> None:
        """Check the settings until the platform accepts them. Most stock adapters only log a wrong
        token, and some do not try again."""
        failures = 0
        while True:
            try:
                await self._kind.check(settings, self._proxy)
            except ConnectionTestFailed as error:
                logger.warning("{}: account {}: {}", self._platform.name, monitor.key, error)
                final = error.problem is ConnectionProblem.REFUSED
                (monitor.failed if final else monitor.offline)(str(error))
            else:
                return
            await anyio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])
            failures += 1

    async def _share(self, monitor: AccountMonitor) -> None:
        """Accept the messages of an account that the bot's settings name, until cancelled."""
        account = monitor.key
        self._shared[account] = monitor
        self._intake.paused.discard(account)
        if self._intake.bot(account) is not None:
            monitor.online(account)
        try:
            await anyio.sleep_forever()
        finally:
            self._intake.paused.add(account)
            self._shared.pop(account, None)

    async def _run_alone(self, settings: UnisegAccount, monitor: AccountMonitor) -> None:
        if not self._kind.reports:
            await self._until_accepted(settings, monitor)
        listener = AccountListener(self._intake, monitor)
        values = {self._kind.setting: [settings.entry()], **self._kind.without}
        with _settings_for_a_while(self._driver, values), _no_new_hooks(self._driver):
            managed = manage(self._platform.stock, self._driver, listener)
        try:
            with _no_new_routes(self._driver):
                await managed.start()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(END_S):
                await managed.end()
            for bot in [*managed.adapter.bots.values()]:
                managed.adapter.bot_disconnect(bot)
            logger.info("{}: account {} is stopped", self._platform.name, monitor.key)


class SharedAccount(UnisegAccount):
    """An account that the bot's settings name. Its token is not here, because the shared stock
    adapter reads the token from the bot's settings."""

    account: str

    @property
    def key(self) -> str:
        """The platform's id of the account."""
        return self.account

    def entry(self) -> dict[str, Any]:
        """See `UnisegAccount.entry`. It is empty, because the shared stock adapter has read the
        entry from the bot's settings."""
        return {}


@contextmanager
def _settings_for_a_while(driver: Driver, values: Mapping[str, Any]) -> Iterator[None]:
    """Let code in the block see other values of settings. A stock adapter reads its settings from
    the driver when it is made. The block must not contain an ``await``, because other code would
    see these values too."""
    config = driver.config
    before = {name: getattr(config, name, _ABSENT) for name in values}
    for name, value in values.items():
        setattr(config, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                delattr(config, name)
            else:
                setattr(config, name, value)


@contextmanager
def _no_new_hooks(driver: Driver) -> Iterator[None]:
    """Remove the hooks for connected bots that are added in the block. The shared stock adapter has
    added the same hooks, and they are called for the bots of every adapter."""
    hooks = driver._bot_connection_hook  # noqa: SLF001 - NoneBot has no function to remove one
    before = set(hooks)
    try:
        yield
    finally:
        hooks.intersection_update(before)


@contextmanager
def _no_new_routes(driver: Driver) -> Iterator[None]:
    """Remove the routes that are added in the block. An added account never uses a webhook, and the
    shared stock adapter has the same routes."""
    application = getattr(driver, "server_app", None)
    routes = application.router.routes if application is not None else []
    before = list(routes)
    try:
        yield
    finally:
        routes[:] = [route for route in routes if route in before]
