"""Stores in the database which processes the cluster has, so that the console can list them and say
that one of them does not answer."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import anyio
from loguru import logger

from nekro_core.cluster.credentials import ClusterRole
from nekro_core.store import StoreError, writing_as
from nekro_core.store.pending import WaitingRepository
from nekro_core.store.values import WaitingRow

_KIND = "node"
_AGAIN_S = 60.0
"""A process stores every so many seconds that it still runs."""
_FORGOTTEN_S = 86_400.0
"""A process that has not stored for a day that it runs is forgotten: it was killed, and the list
has shown that to the operator for a day."""
_LEAVE_S = 1.0
"""Maximum number of seconds for deleting the row at the end of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProcess:
    """A process of the cluster. ``started`` is in seconds since 1970."""

    node: str
    role: ClusterRole
    version: str
    started: float


class ProcessRegister:
    """The list of the processes of a cluster.

    Args:
        rows: Where the list is stored.
        own: This process.
        wall: Returns the current time, in seconds since 1970.
    """

    def __init__(
        self, rows: WaitingRepository, own: RegisteredProcess, wall: Callable[[], float]
    ) -> None:
        self._rows = rows
        self._wall = wall
        self.own = own

    async def live(self) -> None:
        """Keep this process in the list until cancelled. A process that ends is deleted from the
        list; one that is killed stays for a day."""
        try:
            while True:
                try:
                    await self.note()
                except StoreError as error:
                    logger.debug("this process is not in the list of processes yet: {}", error)
                await anyio.sleep(_AGAIN_S)
        finally:
            with anyio.move_on_after(_LEAVE_S, shield=True), writing_as(None):
                try:
                    await self._rows.forget(_KIND, self.own.node)
                except StoreError as error:
                    logger.debug("this process stays in the list of processes: {}", error)

    async def note(self) -> None:
        """Store that this process runs, and forget processes that were killed more than a day ago.
        Raises `StoreError`."""
        data = json.dumps({"role": self.own.role.value, "version": self.own.version})
        with writing_as(None):
            await self._rows.put(
                WaitingRow(
                    kind=_KIND,
                    name=self.own.node,
                    plugin="",
                    chat_key="",
                    data=data,
                    created=self.own.started,
                    until=self._wall(),
                )
            )
            for row in await self._rows.all(_KIND):
                if row.until < self._wall() - _FORGOTTEN_S:
                    await self._rows.forget(_KIND, row.name)

    async def all(self) -> list[RegisteredProcess]:
        """Return this process, those that run, and those that were killed within the last day:
        gateways first. Raises `StoreError`."""
        found = [
            _process(row)
            for row in await self._rows.all(_KIND)
            if row.until >= self._wall() - _FORGOTTEN_S
        ]
        known = [each for each in found if each is not None and each.node != self.own.node]
        return sorted([self.own, *known], key=lambda each: (each.role, each.node))


def _process(row: WaitingRow) -> RegisteredProcess | None:
    try:
        data = json.loads(row.data)
        role, version = ClusterRole(data["role"]), str(data["version"])
    except (ValueError, KeyError, TypeError) as error:
        # A newer version may have other roles.
        logger.debug("the process {} cannot be listed: {!r}", row.name, error)
        return None
    return RegisteredProcess(node=row.name, role=role, version=version, started=row.created)
