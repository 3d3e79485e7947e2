"""Looks regularly for what is wrong, and tells each target once when it begins and once when it is
over."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import anyio
from loguru import logger

from nekro_core.operator.alerts.alert import Alert, AlertKind, Check, Condition, ConditionState
from nekro_core.operator.alerts.book import AlertRows
from nekro_core.operator.alerts.settings import AlertSettings

_TRIES = 20
"""Number of tries to tell a target about an alert, one at each look. If the last of them fails too,
the log gets an error."""
_SELDOM = 60
"""After `_TRIES` failed tries, telling the target is tried only at every sixtieth look, because its
network may be away for hours. If it was to be told that an alert is over, this is not tried any
more."""
_CHECK_S = 20.0
"""Maximum number of seconds of one check. The database may be slow, and the other checks wait."""


class AlertTarget(Protocol):
    """Somebody who is told about alerts."""

    @property
    def name(self) -> str:
        """The name of this target. Each stored alert has the names of the targets that were
        told."""

    async def tell(self, alert: Alert) -> str:
        """Tell about an alert or, if it is over, about its end. Returns why the target could not be
        told; empty if it was told. Takes at most some seconds."""


class AlertWatch:
    """Watches the bot.

    Args:
        book: Stores the alerts.
        checks: Find what is wrong, by kind.
        targets: Returns the present targets. It is called at each look, because the settings may
            have changed.
        settings: Say how often to look.
        wall: Returns the current time, in seconds since 1970.
        leads: Returns whether this process tells the alerts now. If several processes share a
            database, one does. The others only show them.
    """

    def __init__(
        self,
        book: AlertRows,
        checks: Mapping[AlertKind, Check],
        targets: Callable[[], Sequence[AlertTarget]],
        settings: AlertSettings,
        wall: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._book = book
        self._checks = checks
        self._targets = targets
        self._settings = settings
        self._wall = wall
        self._leads = leads
        self._led = True
        self._tries: Counter[tuple[str, str, bool]] = Counter()

    @property
    def present(self) -> tuple[Alert, ...]:
        """The alerts that are not over, oldest first."""
        found = (each for each in self._book.alerts.values() if not each.over)
        return tuple(sorted(found, key=lambda each: each.since))

    def counts(self) -> Mapping[str, int]:
        """Return how many alerts of each kind are not over. If several processes share a database,
        only the one that tells the alerts counts them."""
        return Counter(each.kind.value for each in self.present if self._leads())

    async def live(self) -> None:
        """Look again and again until cancelled, with a pause of `AlertSettings.look_s`."""
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - the next look must come
                logger.exception("the look for alerts failed; it is repeated")
            await anyio.sleep(self._settings.look_s)

    async def look(self) -> None:
        """Look once, and tell what has changed. If another process tells the alerts, only read
        them."""
        leads = self._leads()
        if not (leads and self._led):
            await self._book.load()
        self._led = leads
        if not leads:
            return
        for kind, check in self._checks.items():
            await self._look_at(kind, check)
        targets = {target.name: target for target in self._targets()}
        for alert in [*self._book.alerts.values()]:
            await self._tell(alert, targets)

    async def _look_at(self, kind: AlertKind, check: Check) -> None:
        alerts = {
            each.subject: each
            for each in self._book.alerts.values()
            if each.kind is kind and not each.over
        }
        try:
            with anyio.fail_after(_CHECK_S):
                found = await check(alerts.keys())
        except Exception as error:  # noqa: BLE001 - the other checks must run
            logger.warning("the check for alerts of the kind {} failed: {!r}", kind, error)
            return
        wrong = {each.subject: each for each in found if each.state is ConditionState.WRONG}
        unsure = {each.subject for each in found if each.state is ConditionState.UNKNOWN}
        gone = {each.subject for each in found if each.state is ConditionState.GONE}
        for subject, condition in wrong.items():
            if subject not in alerts:
                await self._begin(kind, condition)
        for subject, alert in alerts.items():
            if subject in gone:
                await self._book.remove(alert)
            elif subject not in wrong and subject not in unsure:
                logger.info("alert over: {}", alert.key)
                await self._book.put(replace(alert, over=self._wall()))

    async def _begin(self, kind: AlertKind, condition: Condition) -> None:
        alert = Alert(
            kind=kind, subject=condition.subject, facts=condition.facts, since=self._wall()
        )
        # Some targets may not know yet that the earlier alert with this key is over. They know that
        # something is wrong, so they are not told again.
        earlier = self._book.alerts.get(alert.key)
        logger.warning("alert: {} {}", alert.key, dict(condition.facts))
        await self._book.put(replace(alert, told=earlier.told if earlier else frozenset()))

    async def _tell(self, alert: Alert, targets: Mapping[str, AlertTarget]) -> None:
        """Tell the targets that do not know yet. Each target that was told is stored at once, so
        that it is not told again after a restart."""
        for name in sorted(alert.told if alert.over else targets.keys() - alert.told):
            target = targets.get(name)
            if target is not None and not await self._told(target, alert):
                continue
            told = alert.told - {name} if alert.over else alert.told | {name}
            alert = replace(alert, told=told)
            await self._book.put(alert)
        if alert.over and not alert.told:
            await self._book.remove(alert)
            for tried in [each for each in self._tries if each[1] == alert.key]:
                del self._tries[tried]

    async def _told(self, target: AlertTarget, alert: Alert) -> bool:
        """Tell one target. Returns True if it was told or was given up, and False if it must be
        tried again at a later look."""
        tried = (target.name, alert.key, bool(alert.over))
        beyond = self._tries[tried] - _TRIES
        if beyond >= 0 and (beyond + 1) % _SELDOM:
            self._tries[tried] += 1
            return False
        try:
            problem = await target.tell(alert)
        except Exception as error:  # noqa: BLE001 - the other targets must be told
            problem = repr(error)
        if not problem:
            del self._tries[tried]
            return True
        self._tries[tried] += 1
        last = self._tries[tried] == _TRIES
        logger.log(
            "ERROR" if last else "WARNING",
            "{} was not told of the alert {}: {}",
            target.name,
            alert.key,
            problem,
        )
        return last and bool(alert.over)
