"""Records what happens to one account: its state, last error, and how much it gets and sends."""

import time
from collections.abc import Callable

import anyio
from loguru import logger

from nekro_core.delivery.platforms.contract import AccountState, AccountStatus, TrafficCount

_MINUTES = 60


class MinuteCounter:
    """Counts how often something happened, in total and in the last hour. It keeps one number for
    each minute of the last hour, so a busy account needs no more memory than a quiet one."""

    def __init__(self) -> None:
        self._total = 0
        self._counts = [0] * _MINUTES
        self._minute = 0

    def add(self, now: float) -> None:
        """Count one more at the time ``now``, in seconds since 1970."""
        self._advance(now)
        self._total += 1
        self._counts[self._minute % _MINUTES] += 1

    def count(self, now: float) -> TrafficCount:
        """Return the counts at the time ``now``. The count of the last 60 s is the count of the
        present minute and a share of the previous one."""
        self._advance(now)
        earlier = self._counts[(self._minute - 1) % _MINUTES] * (60 - now % 60) / 60
        last_minute = self._counts[self._minute % _MINUTES] + round(earlier)
        return TrafficCount(total=self._total, last_minute=last_minute, last_hour=sum(self._counts))

    def _advance(self, now: float) -> None:
        """Make the minute of ``now`` the present one. A clock that was set back changes nothing."""
        minute = int(now // 60)
        for passed in range(max(self._minute, minute - _MINUTES) + 1, minute + 1):
            self._counts[passed % _MINUTES] = 0
        self._minute = max(self._minute, minute)


class AccountMonitor:
    """The state of one account. The adapter reports to it, and `AccountManager` reads it.

    Args:
        key: The account's key.
        clock: Returns the time in seconds since 1970.
    """

    def __init__(self, key: str, *, clock: Callable[[], float] = time.time) -> None:
        self.key = key
        self.state = AccountState.CONNECTING
        self.account = ""
        self._clock = clock
        self._connected_since: float | None = None
        self._last_event_at: float | None = None
        self._last_error = ""
        self._last_error_at: float | None = None
        self._events = MinuteCounter()
        self._sends = MinuteCounter()
        self._changed = anyio.Event()

    def online(self, account: str) -> None:
        """Report that the account is connected.

        Args:
            account: The platform's id of the account.
        """
        self.account = account
        self._connected_since = self._clock()
        self._become(AccountState.ONLINE)

    def offline(self, reason: str) -> None:
        """Report that the account is not connected, and will be connected again if possible.

        Args:
            reason: Why, in words for people.
        """
        self.problem(reason)
        lost = self.account or self.state is AccountState.OFFLINE
        self._leave(AccountState.OFFLINE if lost else AccountState.CONNECTING)

    def failed(self, reason: str) -> None:
        """Report that the account cannot connect until somebody changes something.

        Args:
            reason: What is wrong and what to do, in words for people.
        """
        self.problem(reason)
        self._leave(AccountState.FAILED)

    def problem(self, reason: str) -> None:
        """Record an error that does not change the state.

        Args:
            reason: What is wrong, in words for people.
        """
        self._last_error, self._last_error_at = reason[:500], self._clock()

    def paused(self) -> None:
        """Record that the operator has paused the account."""
        self._leave(AccountState.PAUSED)

    def stopped(self) -> None:
        """Record that the account is no longer connected because the adapter ends."""
        if self.state in (AccountState.ONLINE, AccountState.CONNECTING):
            self._leave(AccountState.OFFLINE)

    def started(self) -> None:
        """Record that connecting begins."""
        self._leave(AccountState.CONNECTING)

    def event(self) -> None:
        """Count a received message or notice."""
        self._last_event_at = self._clock()
        self._events.add(self._last_event_at)

    def sent(self) -> None:
        """Count a platform call that sent a message."""
        self._sends.add(self._clock())

    def status(self, *, locked: str = "", restart_needed: bool = False) -> AccountStatus:
        """Return the present state.

        Args:
            locked: See `AccountStatus`.
            restart_needed: See `AccountStatus`.

        Returns:
            The account and its state.
        """
        now = self._clock()
        return AccountStatus(
            key=self.key,
            state=self.state,
            account=self.account,
            locked=locked,
            restart_needed=restart_needed,
            connected_since=self._connected_since,
            last_event_at=self._last_event_at,
            last_error=self._last_error,
            last_error_at=self._last_error_at,
            events=self._events.count(now),
            sends=self._sends.count(now),
        )

    async def until_online(self) -> None:
        """Wait until the account is online. The caller must set a time limit."""
        while self.state is not AccountState.ONLINE:
            await self._changed.wait()

    def _leave(self, state: AccountState) -> None:
        self._connected_since = None
        self._become(state)

    def _become(self, state: AccountState) -> None:
        if state is not self.state:
            logger.debug("account {}: {} -> {}", self.key, self.state, state)
        self.state = state
        self._changed.set()
        self._changed = anyio.Event()
