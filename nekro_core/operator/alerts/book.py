"""Stores alerts, so that a restart neither forgets nor repeats them."""

import json
from collections.abc import Mapping
from typing import Protocol

from loguru import logger

from nekro_core.operator.alerts.alert import Alert, AlertKind
from nekro_core.store import StoreError
from nekro_core.store.pending import WaitingRepository
from nekro_core.store.values import WaitingRow

_KIND = "alert"


class AlertRows(Protocol):
    """Where alerts are stored (`AlertBook`)."""

    @property
    def alerts(self) -> Mapping[str, Alert]:
        """The alerts by key."""

    async def load(self) -> None:
        """Read the stored alerts. Raises `StoreError`."""

    async def put(self, alert: Alert) -> None:
        """Store an alert in the place of the one with the same key."""

    async def remove(self, alert: Alert) -> None:
        """Delete an alert."""


class AlertBook:
    """The alerts that are not over, or of whose end not all targets know. `load` reads them."""

    def __init__(self, rows: WaitingRepository) -> None:
        self._rows = rows
        self._alerts: dict[str, Alert] = {}

    @property
    def alerts(self) -> Mapping[str, Alert]:
        """The alerts by key."""
        return self._alerts

    async def load(self) -> None:
        """Read the alerts that this or another process has stored. Raises `StoreError`."""
        rows = await self._rows.all(_KIND)
        self._alerts = {}
        for row in rows:
            try:
                alert = _decoded(row.data)
            except (ValueError, KeyError, TypeError) as error:
                logger.warning("the stored alert {} is not readable: {!r}", row.name, error)
                continue
            self._alerts[alert.key] = alert

    async def put(self, alert: Alert) -> None:
        """See `AlertRows.put`. If the store fails, the alert is kept in memory, and the log says
        so."""
        self._alerts[alert.key] = alert
        row = WaitingRow(
            kind=_KIND,
            name=alert.key,
            plugin="",
            chat_key="",
            data=_encoded(alert),
            created=alert.since,
        )
        try:
            await self._rows.put(row)
        except StoreError as error:
            logger.error("the alert {} is not stored: {}", alert.key, error)

    async def remove(self, alert: Alert) -> None:
        """See `AlertRows.remove`. If the store fails, the log says so."""
        self._alerts.pop(alert.key, None)
        try:
            await self._rows.forget(_KIND, alert.key)
        except StoreError as error:
            logger.error("the alert {} stays stored: {}", alert.key, error)


def _encoded(alert: Alert) -> str:
    return json.dumps(
        {
            "kind": alert.kind.value,
            "subject": alert.subject,
            "facts": dict(alert.facts),
            "since": alert.since,
            "over": alert.over,
            "told": sorted(alert.told),
        },
        ensure_ascii=False,
    )


def _decoded(text: str) -> Alert:
    data = json.loads(text)
    return Alert(
        kind=AlertKind(data["kind"]),
        subject=str(data["subject"]),
        facts={str(name): str(value) for name, value in data["facts"].items()},
        since=float(data["since"]),
        over=float(data["over"]),
        told=frozenset(map(str, data["told"])),
    )
