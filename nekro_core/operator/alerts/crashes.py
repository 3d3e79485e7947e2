"""Counts how often the bot has crashed: how often a process ended without closing the bot."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio
from loguru import logger

from nekro_core.operator.alerts.alert import Condition, ConditionState
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.store import StoreError
from nekro_core.store.pending import WaitingRepository
from nekro_core.store.values import WaitingRow

WITHIN_S = 900.0
"""Only crashes of the last 15 minutes count. A bot that has run longer without a crash counts as
working."""
_KIND = "process"
_MOST = 20
"""Maximum number of crashes that are stored."""


class CrashCount:
    """The crashes of this data folder. Use `open`.

    Args:
        rows: Where the times of the crashes are stored.
        settings: Say how many crashes are an alert.
        wall: Returns the current time, in seconds since 1970.
        process: The name of this process. Processes that share a database have different names.
    """

    def __init__(
        self,
        rows: WaitingRepository,
        settings: AlertSettings,
        wall: Callable[[], float],
        process: str = "bot",
    ) -> None:
        self._rows = rows
        self._settings = settings
        self._wall = wall
        self._process = process
        self._crashes: list[float] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        rows: WaitingRepository,
        settings: AlertSettings,
        wall: Callable[[], float],
        process: str = "bot",
    ) -> AsyncIterator[Self]:
        """Note that the bot runs, and at the end of the block that it ended properly, also after an
        error. Raises `StoreError`."""
        crashes = cls(rows, settings, wall, process)
        await crashes.begin()
        try:
            yield crashes
        finally:
            with anyio.CancelScope(shield=True):
                await crashes.end()

    async def begin(self) -> None:
        """Note that the bot runs. If the process before this one did not note its end, it crashed.
        Raises `StoreError`."""
        running = False
        for row in await self._rows.all(_KIND):
            if row.name != self._process:
                continue
            try:
                data = json.loads(row.data)
                running, crashes = bool(data["running"]), [*map(float, data["crashes"])]
            except (ValueError, KeyError, TypeError) as error:
                logger.warning("the stored times of crashes are not readable: {!r}", error)
            else:
                self._crashes = crashes
        if running:
            self._crashes.append(self._wall())
            logger.warning("the bot's last process ended without closing the bot")
        await self._store(running=True)

    async def end(self) -> None:
        """Note that the bot ends properly."""
        try:
            await self._store(running=False)
        except StoreError as error:
            logger.warning("the next start counts a crash, because this is not stored: {}", error)

    async def check(self, _: Collection[str]) -> Sequence[Condition]:
        """See `Check`."""
        recent = [each for each in self._crashes if self._wall() - each < WITHIN_S]
        wrong = 0 < self._settings.crashes <= len(recent)
        facts = {"number": str(len(recent)), "minutes": f"{WITHIN_S / 60:g}"}
        state = ConditionState.WRONG if wrong else ConditionState.FINE
        return [Condition(subject="bot", state=state, facts=facts)]

    async def _store(self, *, running: bool) -> None:
        self._crashes = self._crashes[-_MOST:]
        data = json.dumps({"running": running, "crashes": self._crashes})
        await self._rows.put(
            WaitingRow(kind=_KIND, name=self._process, plugin="", chat_key="", data=data)
        )
