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
"""How often a target is told at each look about an alert that it does not take. Then the log says
that it was not told."""
_SELDOM = 60
"""After `_TRIES`, while something is still wrong, the target is tried only once in so many looks:
its network may be away for hours. The end of an alert is then not tried any more."""
_CHECK_S = 20.0
"""Maximum number of seconds of one check. The database may be slow, and the other checks wait."""


class AlertTarget(Protocol):
    """Somebody who is told about alerts."""

    @property
    def name(self) -> str:
        """The name under which it is stored that this target was told."""

    async def tell(self, alert: Alert) -> str:
        """Tell about an alert or, if it is over, about its end. Returns why it could not be told;
        empty if it was. Takes at most some seconds."""


class AlertWatch:
    """Watches the bot.

    Args:
        book: Stores the alerts.
        checks: Find what is wrong, by kind.
        targets: Returns the present targets. It is called at each look, because the settings may
            have changed.
        settings: Say how often to look.
        wall: Returns the current time, in seconds since 1970.
    """

    def __init__(
        self,
        book: AlertRows,
        checks: Mapping[AlertKind, Check],
        targets: Callable[[], Sequence[AlertTarget]],
        settings: AlertSettings,
        wall: Callable[[], float],
    ) -> None:
        self._book = book
        self._checks = checks
        self._targets = targets
        self._settings = settings
        self._wall = wall
        self._tries: Counter[tuple[str, str, bool]] = Counter()

    @property
    def present(self) -> tuple[Alert, ...]:
        """The alerts that are not over, oldest first."""
        found = (each for each in self._book.alerts.values() if not each.over)
        return tuple(sorted(found, key=lambda each: each.since))

    def counts(self) -> Mapping[str, int]:
        """Return how many alerts of each kind are not over."""
        return Counter(each.kind.value for each in self.present)

    async def live(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - the next look must come
                logger.exception("the look for alerts failed; it is repeated")
            await anyio.sleep(self._settings.look_s)

    async def look(self) -> None:
        """Look once, and tell what has changed."""
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
        for subject, condition in wrong.items():
            if subject not in alerts:
                await self._begin(kind, condition)
        for subject, alert in alerts.items():
            if subject not in wrong and subject not in unsure:
                logger.info("alert over: {}", alert.key)
                await self._book.put(replace(alert, over=self._wall()))

    async def _begin(self, kind: AlertKind, condition: Condition) -> None:
        alert = Alert(
            kind=kind, subject=condition.subject, facts=condition.facts, since=self._wall()
        )
        # If the end of the last such alert has not been told yet, the targets know about it still.
        earlier = self._book.alerts.get(alert.key)
        logger.warning("alert: {} {}", alert.key, dict(condition.facts))
        await self._book.put(replace(alert, told=earlier.told if earlier else frozenset()))

    async def _tell(self, alert: Alert, targets: Mapping[str, AlertTarget]) -> None:
        """Tell the targets that do not know yet. Each of them is stored at once, so that it is not
        told again after a restart."""
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
        """Tell one target. Returns False if it must be tried again."""
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
