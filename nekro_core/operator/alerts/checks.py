"""Finds what is wrong with accounts, keys, budgets, the disk and the outbox."""

import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread

from nekro_core.agent.session.record_takes import GIVEN_UP
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.platforms.contract import AccountState, SupportsAccounts
from nekro_core.llm.breaker import BreakerState, CircuitBreaker
from nekro_core.llm.model import PassReason, QuotaExceeded
from nekro_core.llm.role_budget import RoleBudget
from nekro_core.llm.roles import ModelRole
from nekro_core.operator.alerts.alert import Condition, ConditionState
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.policy.quotas import QuotaSources, quota_of_bot
from nekro_core.store.condition import StoreCondition

WITHIN_S = 3600.0
"""For how many seconds an event counts in `LastHourCheck`."""
_ENOUGH = 1.1
"""The alert of the disk is over when this many times the wanted space is free. Without a margin, it
would begin and end with each file."""
_MB = 1_000_000


def _state(*, wrong: bool) -> ConditionState:
    return ConditionState.WRONG if wrong else ConditionState.FINE


class AccountCheck:
    """Finds accounts that have not been connected for some minutes.

    Args:
        adapters: Returns the adapters that run, by name.
        problems: Returns why other adapters do not run, by name.
        settings: Say how many minutes.
        wall: Returns the current time, in seconds since 1970.
    """

    def __init__(
        self,
        adapters: Callable[[], Mapping[str, Adapter]],
        problems: Callable[[], Mapping[str, str]],
        settings: AlertSettings,
        wall: Callable[[], float],
    ) -> None:
        self._adapters = adapters
        self._problems = problems
        self._settings = settings
        self._wall = wall
        self._away: dict[str, float] = {}
        """When each account was first seen without a connection."""

    async def check(self, open_subjects: Collection[str]) -> Sequence[Condition]:
        """See `Check`."""
        minutes, now = self._settings.account_away_minutes, self._wall()
        if not minutes:
            return []
        found, away = list[Condition](), dict[str, float]()
        for platform, adapter in self._adapters().items():
            if not isinstance(adapter, SupportsAccounts):
                continue
            for account in adapter.managed_accounts.listed():
                subject = f"{platform}:{account.key}"
                if account.state in (AccountState.ONLINE, AccountState.PAUSED):
                    found.append(Condition(subject=subject, state=ConditionState.FINE))
                    continue
                since = away[subject] = self._away.get(subject, now)
                # After a restart, this check does not know how long the account was away before. An
                # alert that is there already stays until the account is online.
                wrong = now - since >= minutes * 60
                facts = {
                    "platform": platform,
                    "account": account.key,
                    "minutes": f"{minutes:g}",
                    "reason": account.last_error,
                }
                state = ConditionState.WRONG if wrong else ConditionState.UNKNOWN
                found.append(Condition(subject=subject, state=state, facts=facts))
        self._away = away
        broken = tuple(f"{platform}:" for platform in self._problems())
        listed = {each.subject for each in found}
        return found + [
            Condition(subject=subject, state=ConditionState.UNKNOWN)
            for subject in open_subjects
            if subject not in listed and subject.startswith(broken)
        ]


class KeyCheck:
    """Finds models whose key the provider refuses. ``breakers`` returns the breakers by the names
    of the models."""

    def __init__(self, breakers: Callable[[], Mapping[str, CircuitBreaker]]) -> None:
        self._breakers = breakers

    async def check(self, _: Collection[str]) -> Sequence[Condition]:
        """See `Check`. A new process knows nothing about a key until the model has answered or has
        refused the key."""
        found = []
        breakers = self._breakers()
        for name, breaker in breakers.items():
            refused = breaker.reason is PassReason.KEY and breaker.state is not BreakerState.CLOSED
            known = refused or breaker.worked
            state = _state(wrong=refused) if known else ConditionState.UNKNOWN
            found.append(Condition(subject=name, state=state, facts={"model": name}))
        return found


class BudgetCheck:
    """Finds daily budgets that are mostly used: those of the bot and of background work.

    Args:
        sources: Have the quota of the bot and what it used.
        background: The budget of background work.
        settings: Say which percentage.
    """

    def __init__(
        self, sources: QuotaSources, background: RoleBudget, settings: AlertSettings
    ) -> None:
        self._sources = sources
        self._background = background
        self._settings = settings

    async def check(self, _: Collection[str]) -> Sequence[Condition]:
        """See `Check`. Raises `StoreError`."""
        if not self._settings.budget_percent:
            return []
        shares: dict[str, float] = {}
        turn = self._sources.settings.turn
        if turn.turns_a_day or turn.tokens_a_day or turn.money_a_day:
            quota = await quota_of_bot(self._sources)
            shares = {
                f"bot {measure.value}": used / limit
                for measure, used, limit in quota.measures()
                if limit
            }
        try:
            left = await self._background.share_left(ModelRole.QUICK)
        except QuotaExceeded:
            left = 0.0
        shares["background work"] = 1 - left
        return [
            Condition(
                subject=budget,
                state=_state(wrong=share * 100 >= self._settings.budget_percent),
                facts={"budget": budget, "percent": f"{min(share, 1) * 100:.0f}"},
            )
            for budget, share in shares.items()
        ]


class DiskCheck:
    """Finds that little space is free on the disk of a folder."""

    def __init__(self, folder: Path, settings: AlertSettings) -> None:
        self._folder = folder
        self._settings = settings

    async def check(self, open_subjects: Collection[str]) -> Sequence[Condition]:
        """See `Check`. Raises `OSError`."""
        wanted = self._settings.disk_free_mb
        if not wanted:
            return []
        free = (await anyio.to_thread.run_sync(shutil.disk_usage, self._folder)).free / _MB
        wrong = free < wanted * (_ENOUGH if "data" in open_subjects else 1)
        facts = {"free": f"{free:.0f}", "wanted": str(wanted)}
        return [Condition(subject="data", state=_state(wrong=wrong), facts=facts)]


class LastHourCheck:
    """Finds that something has happened too often in the last hour.

    Args:
        subject: The subject of the condition.
        count: Counts the events since a time, in seconds since 1970.
        wanted: Returns how many events are too many; 0 if nothing is checked.
        wall: Returns the current time, in seconds since 1970.
    """

    def __init__(
        self,
        subject: str,
        count: Callable[[float], Awaitable[int]],
        wanted: Callable[[], int],
        wall: Callable[[], float],
    ) -> None:
        self._subject = subject
        self._count = count
        self._wanted = wanted
        self._wall = wall

    async def check(self, _: Collection[str]) -> Sequence[Condition]:
        """See `Check`. Raises `StoreError`."""
        wanted = self._wanted()
        if not wanted:
            return []
        number = await self._count(self._wall() - WITHIN_S)
        facts = {"number": str(number)}
        state = _state(wrong=number >= wanted)
        return [Condition(subject=self._subject, state=state, facts=facts)]


def unknown_sends_check(
    condition: StoreCondition, settings: AlertSettings, wall: Callable[[], float]
) -> LastHourCheck:
    """Return the check that finds messages of which it is not known whether they have arrived. A
    message counts for an hour after it was requested."""
    return LastHourCheck("outbox", condition.unknown_since, lambda: settings.unknown_sends, wall)


def given_up_check(
    condition: StoreCondition, settings: AlertSettings, wall: Callable[[], float]
) -> LastHourCheck:
    """Return the check that finds messages that were given up because each of them ended several
    workers. A message counts for an hour after a person wrote it."""
    count = partial(condition.failed_since, GIVEN_UP)
    return LastHourCheck("messages", count, lambda: settings.given_up_messages, wall)
