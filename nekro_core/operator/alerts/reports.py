"""Collects what the processes of a cluster have found, so that one of them tells all alerts.

Each process runs the checks that concern it: its accounts, the models that it asks, its disk, its
crashes. It stores what they have found. One gateway, the leader, reads what all processes have
stored, and tells each alert once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import anyio
import msgspec
from loguru import logger

from nekro_core.operator.alerts.alert import AlertKind, Check, Condition, ConditionState
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.store import StoreError
from nekro_core.store.pending import WaitingRepository
from nekro_core.store.values import WaitingRow

_KIND = "findings"
_CHECK_S = 20.0
"""Maximum number of seconds of one check. The database may be slow, and the other checks wait."""
_END_S = 1.0
"""Maximum number of seconds for storing that the process has ended."""
_LOOKS = 3
"""A process that has not reported for the time of this many looks (`AlertSettings.look_s`) and
`_CLOCKS_S` more does not run, or does not reach the database. Whether what it found before is still
so is not known."""
_CLOCKS_S = 120.0
"""The clocks of two machines may differ by this many seconds."""
_GONE_S = 86_400.0
"""A process that has not reported for a day counts as gone. Names of containers, for example, are
used once, so nobody would ever report under such a name again."""
_FACT_LENGTH = 500
"""Maximum number of characters of a fact, such as the reason why an account is away."""
_OF_ONE = frozenset({AlertKind.DISK, AlertKind.CRASH})
"""Kinds of which each process has a subject of its own, such as its disk. Subjects of other kinds,
such as a model, are common to all processes."""
_STRONGER: Mapping[AlertKind, Sequence[ConditionState]] = {
    # An account that is connected to one gateway is not away, whatever other gateways see.
    AlertKind.ACCOUNT: (
        ConditionState.FINE,
        ConditionState.WRONG,
        ConditionState.UNKNOWN,
        ConditionState.GONE,
    ),
    # A key is refused if one process says so: the others may not have used it.
    AlertKind.KEY: (
        ConditionState.WRONG,
        ConditionState.FINE,
        ConditionState.UNKNOWN,
        ConditionState.GONE,
    ),
}
"""If processes disagree about a subject, the state that comes first counts. Kinds that are not
named here have the order of `ConditionState`."""


class _Finding(msgspec.Struct, frozen=True):
    subject: str
    state: ConditionState
    facts: dict[str, str]


class _Report(msgspec.Struct, frozen=True):
    """What a process has stored. ``findings`` are by kind; a process of another version can know
    other kinds. ``served`` are the accounts, by their instances, through which workers can send
    now. ``ended`` means that the process has ended as it should, without a crash."""

    findings: dict[str, tuple[_Finding, ...]]
    served: tuple[str, ...] = ()
    ended: bool = False


class AlertReports:
    """What the processes of a cluster have found.

    Args:
        rows: Where it is stored.
        process: The name of this process.
        checks: The checks that concern this process.
        settings: Say how often to look.
        wall: Returns the current time, in seconds since 1970.
        served: Returns the instances of the accounts through which this process lets workers send.
    """

    def __init__(
        self,
        rows: WaitingRepository,
        process: str,
        checks: Mapping[AlertKind, Check],
        settings: AlertSettings,
        wall: Callable[[], float],
        served: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._rows = rows
        self._process = process
        self._checks = checks
        self._settings = settings
        self._wall = wall
        self._served = served
        self._found: dict[str, tuple[_Finding, ...]] = {}
        self._gone: dict[str, set[AlertKind]] = {}
        """For each process that does not exist any more, the kinds of which its report was read
        since then."""
        self.reachable: frozenset[str] = frozenset()
        """The instances of the accounts through which workers could send when the reports were last
        read."""

    async def live(self) -> None:
        """Report again and again until cancelled. At the end, store that the process has ended."""
        try:
            while True:
                try:
                    if not self._found:
                        await self._load()
                    await self.report()
                except Exception:  # noqa: BLE001 - the next report must come
                    logger.exception("the report for alerts failed; it is repeated")
                await anyio.sleep(self._settings.look_s)
        finally:
            with anyio.move_on_after(_END_S, shield=True):
                try:
                    await self._store(ended=True)
                except StoreError as error:
                    logger.warning("it is not stored that this process has ended: {}", error)

    async def report(self) -> None:
        """Run the checks once, and store what they have found. Raises `StoreError`."""
        for kind, check in self._checks.items():
            wrong = {each.subject for each in self._found.get(kind.value, ()) if _is_wrong(each)}
            try:
                with anyio.fail_after(_CHECK_S):
                    found = await check(wrong)
            except Exception as error:  # noqa: BLE001 - the other checks must run
                logger.warning("the check for alerts of the kind {} failed: {!r}", kind, error)
                continue
            self._found[kind.value] = tuple(
                _Finding(each.subject, each.state, _short(each.facts)) for each in found
            )
        await self._store()

    async def _load(self) -> None:
        """Read what an earlier process of this name has found: some checks must know which of their
        subjects have an alert. Raises `StoreError`."""
        for row in await self._rows.all(_KIND):
            if row.name == self._process:
                try:
                    self._found = msgspec.json.decode(row.data, type=_Report).findings
                except msgspec.DecodeError as error:
                    logger.warning("what {} has found cannot be read: {}", row.name, error)

    async def _store(self, *, ended: bool = False) -> None:
        report = _Report(self._found, tuple(self._served()), ended)
        data = msgspec.json.encode(report).decode()
        row = WaitingRow(
            kind=_KIND,
            name=self._process,
            plugin="",
            chat_key="",
            data=data,
            created=self._wall(),
        )
        await self._rows.put(row)

    def check(self, kind: AlertKind) -> Check:
        """Return a check whose result is what all processes have found of this kind."""

        async def found(_: Collection[str]) -> Sequence[Condition]:
            return await self._merged(kind)

        return found

    async def _merged(self, kind: AlertKind) -> Sequence[Condition]:
        """Return what all processes have found of one kind. Raises `StoreError`."""
        merged: dict[str, Condition] = {}
        order = _STRONGER.get(kind, tuple(ConditionState))
        for each in await self._read(kind):
            other = merged.get(each.subject)
            if other is None or order.index(each.state) < order.index(other.state):
                merged[each.subject] = each
        return [*merged.values()]

    async def _read(self, kind: AlertKind) -> list[Condition]:
        conditions, served = list[Condition](), set[str]()
        for row in await self._rows.all(_KIND):
            try:
                report = msgspec.json.decode(row.data, type=_Report)
            except msgspec.DecodeError as error:
                logger.warning("what {} has found cannot be read: {}", row.name, error)
                continue
            age_s = max(self._wall() - row.created, 0.0)
            silent = age_s > self._settings.look_s * _LOOKS + _CLOCKS_S
            if not (silent or report.ended):
                served.update(report.served)
            if age_s > _GONE_S:
                await self._forget(row.name, kind)
            for finding in report.findings.get(kind.value, ()):
                condition = _condition(kind, row.name, finding)
                if age_s > _GONE_S:
                    condition = _with_state(condition, ConditionState.GONE)
                elif report.ended:
                    condition = _with_state(condition, ConditionState.UNKNOWN)
                elif silent:
                    condition = self._silent(kind, row.name, condition, age_s)
                conditions.append(condition)
        self.reachable = frozenset(served)
        return conditions

    async def _forget(self, process: str, kind: AlertKind) -> None:
        """Delete the report of a process that does not exist any more, once it was read for all
        kinds, so that the alerts of all kinds are removed."""
        kinds = self._gone.setdefault(process, set())
        kinds.add(kind)
        if kinds >= self._checks.keys():
            del self._gone[process]
            await self._rows.forget(_KIND, process)

    def _silent(
        self, kind: AlertKind, process: str, condition: Condition, age_s: float
    ) -> Condition:
        """Return what is known of a subject whose process does not report. After
        ``account_away_minutes``, an account counts as away. Of any other subject, nothing is
        known."""
        minutes = self._settings.account_away_minutes
        if kind is not AlertKind.ACCOUNT or not minutes or age_s < minutes * 60:
            return _with_state(condition, ConditionState.UNKNOWN)
        platform, _, account = condition.subject.partition(":")
        facts = {
            "platform": platform,
            "account": account,
            "minutes": f"{minutes:g}",
            "reason": f"{process} does not run.",
        }
        return Condition(subject=condition.subject, state=ConditionState.WRONG, facts=facts)


def _condition(kind: AlertKind, process: str, finding: _Finding) -> Condition:
    if kind not in _OF_ONE:
        return Condition(subject=finding.subject, state=finding.state, facts=finding.facts)
    facts = {**finding.facts, "process": process}
    return Condition(subject=f"{finding.subject} of {process}", state=finding.state, facts=facts)


def _with_state(condition: Condition, state: ConditionState) -> Condition:
    return Condition(subject=condition.subject, state=state, facts=condition.facts)


def _is_wrong(finding: _Finding) -> bool:
    return finding.state is ConditionState.WRONG


def _short(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:_FACT_LENGTH] for name, value in facts.items()}
