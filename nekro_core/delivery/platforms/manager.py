"""Runs the accounts of an adapter, each in a task, and changes them one by one."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.delivery.account_settings import (
    AccountSettingsStore,
    StoredAccounts,
    UnreadableAccounts,
)
from nekro_core.delivery.platforms.connector import AccountConnector, Settings
from nekro_core.delivery.platforms.contract import (
    AccountState,
    AccountStatus,
    ConnectionHint,
    ConnectionTest,
    ShownSettings,
)
from nekro_core.delivery.platforms.errors import (
    AccountError,
    AccountExists,
    AccountLocked,
    ConnectionProblem,
    ConnectionTestFailed,
    InvalidAccountSettings,
    UnknownAccount,
)
from nekro_core.delivery.platforms.forms import merged, read_form, with_secrets, without_secrets
from nekro_core.delivery.platforms.managed_account import ManagedAccount
from nekro_core.delivery.platforms.monitor import AccountMonitor

TEST_S = 15.0
"""Time limit for a connection test, in seconds."""


class AccountManager(Generic[Settings]):
    """Implements `PlatformAccounts`. Call `open` when the adapter starts.

    Args:
        model: The settings of one account. Each field has a title and a description.
        connector: Connects an account.
        store: Stores the accounts that the operator adds.
        adapter: The adapter's name.
        locked: The accounts that the settings define, each with the name of its setting.
        live: See `PlatformAccounts.live`.
        test_s: Time limit for a connection test, in seconds.
        clock: Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        model: type[Settings],
        connector: AccountConnector[Settings],
        store: AccountSettingsStore,
        *,
        adapter: str,
        locked: Iterable[tuple[Settings, str]] = (),
        live: bool = True,
        test_s: float = TEST_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.live = live
        self._test_s = test_s
        self._model = model
        self._connector = connector
        self._store = store
        self._adapter = adapter
        self._clock = clock
        self._entries: dict[str, ManagedAccount[Settings]] = {}
        self._paused: set[str] = set()
        self._unused: dict[str, Mapping[str, Any]] = {}
        # Stored accounts that a setting defines too. They stay stored, and are used again when the
        # setting no longer defines them.
        self._unreadable = ""
        self._tasks: TaskGroup | None = None
        self._changing = anyio.Lock()
        for settings, source in locked:
            self._enter(connector.key_of(settings), settings, locked=source)
        self._load()

    def open(self, tasks: TaskGroup) -> None:
        """Start all accounts that are not paused and whose settings can be used.

        Args:
            tasks: The task group in which the accounts run until it is cancelled.
        """
        self._tasks = tasks
        for entry in self._entries.values():
            if self._may_run(entry):
                tasks.start_soon(entry.run, self._connector, entry.begin())

    # -- the adapter's side ------------------------------------------------------------------

    async def found(self, settings: Settings, source: str) -> None:
        """Add and start an account that the setting ``source`` permits, but that no setting lists.
        For example, a QQ number connects with a shared token. Does nothing if there is already an
        account with its key, or if `open` was not called.

        When this call returns, `AccountConnector.run` of the account has run until its first wait.
        A paused account is listed, but not started.

        Args:
            settings: The settings.
            source: The name of the setting.
        """
        key = self._connector.key_of(settings)
        if key in self._entries or self._tasks is None:
            return
        entry = self._enter(key, settings, locked=source)
        if self._may_run(entry):
            await self._tasks.start(entry.run, self._connector, entry.begin())

    def known(self, key: str) -> Settings | None:
        """Return the settings of an account.

        Args:
            key: The account's key.

        Returns:
            The settings; None if there is no such account, or its settings cannot be used.
        """
        entry = self._entries.get(key)
        return entry.settings if entry is not None else None

    def monitor_of(self, account: str) -> AccountMonitor | None:
        """Return the monitor of the account with a platform id.

        Args:
            account: The platform's id of the account.

        Returns:
            The monitor; None if no account has this id.
        """
        found = [each.monitor for each in self._entries.values() if each.monitor.account == account]
        online = [each for each in found if each.state is AccountState.ONLINE]
        return next(iter([*online, *found]), None)

    def count_send(self, account: str) -> None:
        """Count a platform call that sent a message.

        Args:
            account: The platform's id of the account that sent it.
        """
        monitor = self.monitor_of(account)
        if monitor is not None:
            monitor.sent()

    # -- the operator's side -----------------------------------------------------------------

    def form(self) -> Mapping[str, Any]:
        """See `PlatformAccounts.form`.

        Returns:
            A JSON Schema.
        """
        return self._model.model_json_schema()

    def listed(self) -> tuple[AccountStatus, ...]:
        """See `PlatformAccounts.listed`.

        Returns:
            The accounts.
        """
        return tuple(each.status() for each in self._entries.values())

    def settings_of(self, key: str) -> ShownSettings:
        """See `PlatformAccounts.settings_of`.

        Args:
            key: The account's key.

        Returns:
            The settings without secrets.

        Raises:
            UnknownAccount: There is no such account.
        """
        entry = self._entry(key)
        if entry.settings is None:
            return ShownSettings(values={})
        return without_secrets(entry.settings)

    async def add(self, values: Mapping[str, Any]) -> AccountStatus:
        """See `PlatformAccounts.add`.

        Args:
            values: The settings.

        Returns:
            The new account.

        Raises:
            InvalidAccountSettings: The settings cannot be used.
            AccountExists: The account is there already.
            OSError: The settings cannot be stored.
        """
        settings = self._connector.complete(read_form(self._model, values))
        key = self._connector.key_of(settings)
        async with self._changing:
            if key in self._entries:
                raise AccountExists(f"{key} is there already: change it, or remove it first")
            entry = self._enter(key, settings)
            was_paused = key in self._paused
            self._paused.discard(key)
            try:
                await self._save()
            except BaseException:
                del self._entries[key]
                if was_paused:
                    self._paused.add(key)
                raise
            self._start(entry)
            return entry.status()

    async def change(self, key: str, values: Mapping[str, Any]) -> AccountStatus:
        """See `PlatformAccounts.change`.

        Args:
            key: The account's key.
            values: The changed fields.

        Returns:
            The account.

        Raises:
            InvalidAccountSettings: The settings cannot be used.
            UnknownAccount: There is no such account.
            AccountExists: Another account has the new key.
            AccountLocked: The environment or ``.env`` defines the account.
            OSError: The settings cannot be stored.
        """
        async with self._changing:
            old = self._own(key)
            known = merged(old.settings, values) if old.settings is not None else dict(values)
            settings = self._connector.complete(read_form(self._model, known))
            new_key = self._connector.key_of(settings)
            if new_key != key and new_key in self._entries:
                raise AccountExists(f"{new_key} is there already as another account")
            before = self._entries, set(self._paused)
            self._entries = dict(self._entries)
            del self._entries[key]
            entry = self._enter(new_key, settings)
            if key in self._paused:
                self._paused = (self._paused - {key}) | {new_key}
                entry.monitor.paused()
            try:
                await self._save()
            except BaseException:
                self._entries, self._paused = before
                raise
            await old.stop()
            self._start(entry)
            return entry.status()

    async def pause(self, key: str) -> AccountStatus:
        """See `PlatformAccounts.pause`.

        Args:
            key: The account's key.

        Returns:
            The account.

        Raises:
            UnknownAccount: There is no such account.
            AccountLocked: A setting defines the account, and `live` is False.
            OSError: The settings cannot be stored.
        """
        async with self._changing:
            entry = self._entry(key)
            if entry.locked and not self.live:
                raise AccountLocked(f"{key} is in {entry.locked}: it cannot be paused alone")
            if key in self._paused:
                return entry.status()
            self._paused.add(key)
            try:
                await self._save()
            except BaseException:
                self._paused.discard(key)
                raise
            await entry.stop()
            entry.monitor.paused()
            entry.restart_needed = not self.live
            return entry.status()

    async def resume(self, key: str) -> AccountStatus:
        """See `PlatformAccounts.resume`.

        Args:
            key: The account's key.

        Returns:
            The account.

        Raises:
            UnknownAccount: There is no such account.
            OSError: The settings cannot be stored.
        """
        async with self._changing:
            entry = self._entry(key)
            if key not in self._paused:
                return entry.status()
            self._paused.discard(key)
            try:
                await self._save()
            except BaseException:
                self._paused.add(key)
                raise
            entry.monitor.started()
            self._start(entry)
            return entry.status()

    async def remove(self, key: str) -> None:
        """See `PlatformAccounts.remove`.

        Args:
            key: The account's key.

        Raises:
            UnknownAccount: There is no such account.
            AccountLocked: The environment or ``.env`` defines the account.
            OSError: The settings cannot be stored.
        """
        async with self._changing:
            entry = self._own(key)
            before = self._entries, set(self._paused)
            self._entries = {name: each for name, each in self._entries.items() if name != key}
            self._paused.discard(key)
            try:
                await self._save()
            except BaseException:
                self._entries, self._paused = before
                raise
            await entry.stop()

    async def test(self, values: Mapping[str, Any], *, key: str = "") -> ConnectionTest:
        """See `PlatformAccounts.test`.

        Args:
            values: The settings.
            key: An account whose secrets are used where ``values`` has none; may be empty.

        Returns:
            The outcome of the test.

        Raises:
            InvalidAccountSettings: The settings cannot be used.
            UnknownAccount: There is no account with this key.
        """
        known = self._entry(key).settings if key else None
        settings = read_form(self._model, merged(known, values) if known else values)
        began = anyio.current_time()
        problem, text = ConnectionProblem.NONE, ""
        try:
            with anyio.fail_after(self._test_s):
                text = await self._connector.test(settings)
        except ConnectionTestFailed as error:
            problem, text = error.problem, str(error)
        except TimeoutError:
            problem = ConnectionProblem.TOO_SLOW
            text = f"no answer within {self._test_s:g} s"
        seconds = round(anyio.current_time() - began, 3)
        ok = problem is ConnectionProblem.NONE
        return ConnectionTest(ok=ok, problem=problem, text=text, seconds=seconds)

    def connection_hint(self, key: str, address: str) -> ConnectionHint:
        """See `PlatformAccounts.connection_hint`.

        Args:
            key: The account's key.
            address: Where the bot's web server is reached, for example ``http://10.0.0.5:8080``.

        Returns:
            What to enter on the platform's side.

        Raises:
            UnknownAccount: There is no such account.
        """
        settings = self._entry(key).settings
        if settings is None:
            return ConnectionHint(text="The stored settings cannot be used: change them first.")
        return self._connector.hint(settings, address.rstrip("/"))

    async def wait_until_seen(self, key: str, *, limit_s: float) -> AccountStatus:
        """See `PlatformAccounts.wait_until_seen`.

        Args:
            key: The account's key.
            limit_s: The longest wait in seconds.

        Returns:
            The account.

        Raises:
            UnknownAccount: There is no such account.
        """
        entry = self._entry(key)
        with anyio.move_on_after(limit_s):
            await entry.monitor.until_online()
        return entry.status()

    # -- inside ------------------------------------------------------------------------------

    def _load(self) -> None:
        try:
            stored = self._store.load(self._adapter)
        except UnreadableAccounts as error:
            logger.error("{}: accounts that were added are left out: {}", self._adapter, error)
            self._unreadable = str(error)
            return
        self._paused = set(stored.paused)
        for key, values in stored.accounts.items():
            if key in self._entries:
                source = self._entries[key].locked
                logger.warning("{}: {} defines {}, so that is used", self._adapter, source, key)
                self._unused[key] = values
                continue
            try:
                settings = read_form(self._model, values)
            except InvalidAccountSettings as error:
                entry = self._enter(key, None, stored=values)
                entry.monitor.failed(f"the stored settings cannot be used: {error}")
            else:
                self._enter(key, settings)
        for key in self._paused & self._entries.keys():
            self._entries[key].monitor.paused()

    def _enter(
        self,
        key: str,
        settings: Settings | None,
        *,
        locked: str = "",
        stored: Mapping[str, Any] | None = None,
    ) -> ManagedAccount[Settings]:
        entry = ManagedAccount(
            adapter=self._adapter,
            monitor=AccountMonitor(key, clock=self._clock),
            settings=settings,
            locked=locked,
            stored=stored if stored is not None else with_secrets(settings) if settings else {},
        )
        if key in self._paused:
            entry.monitor.paused()
        self._entries[key] = entry
        return entry

    def _entry(self, key: str) -> ManagedAccount[Settings]:
        entry = self._entries.get(key)
        if entry is None:
            known = ", ".join(self._entries) or "none"
            raise UnknownAccount(f"{self._adapter} has no account {key!r}; there are: {known}")
        return entry

    def _own(self, key: str) -> ManagedAccount[Settings]:
        entry = self._entry(key)
        if entry.locked:
            raise AccountLocked(
                f"{key} is defined by {entry.locked} in the environment or .env: change it there"
            )
        return entry

    def _may_run(self, entry: ManagedAccount[Settings]) -> bool:
        return entry.settings is not None and entry.monitor.key not in self._paused

    def _start(self, entry: ManagedAccount[Settings]) -> None:
        if not self.live:
            entry.restart_needed = True
        elif self._tasks is not None and self._may_run(entry):
            self._tasks.start_soon(entry.run, self._connector, entry.begin())

    async def _save(self) -> None:
        if self._unreadable:
            raise AccountError(f"mend this file first, or move it away: {self._unreadable}")
        own = {key: each.stored for key, each in self._entries.items() if not each.locked}
        stored = StoredAccounts(accounts=self._unused | own, paused=frozenset(self._paused))
        await anyio.to_thread.run_sync(self._store.save, self._adapter, stored)
