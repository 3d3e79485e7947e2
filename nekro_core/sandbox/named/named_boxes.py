"""All named boxes of all owners, and which of them must sleep."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

import anyio

from nekro_core.sandbox.box import Box
from nekro_core.sandbox.named.named_box import Equip, NamedBox
from nekro_core.sandbox.named.owner_boxes import NamedBoxLimits, OwnerBoxes
from nekro_core.sandbox.named.storage import BoxRecord, BoxStorage

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_QUIET_S = 3600.0
_JUST_USED_S = 1.0
_LAST_SAVES_S = 2.0
"""Time to save the files of all boxes together when the process ends."""


class BoxSource(Protocol):
    """Gives new boxes (`nekro_core.sandbox.supply.BoxSupply`)."""

    async def take(self, image: str = "") -> Box:
        """Take a box that no other caller has. Raises `BackendUnavailable` and
        `ImageUnavailable`."""


class NamedBoxes:
    """Every owner's boxes. Its owner runs `watch`, and awaits `aclose` at the end."""

    def __init__(
        self,
        source: BoxSource,
        storage: BoxStorage,
        limits: NamedBoxLimits,
        *,
        clock: Callable[[], float],
        equip: Equip | None = None,
        crowded: Callable[[], bool] = lambda: False,
        pool_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """``crowded`` says that boxes must make room even if not too many run. ``pool_bytes`` is
        the memory of the ready boxes in the pool. It counts with that of idle boxes."""
        self._crowded = crowded
        self.limits = limits
        self._source = source
        self._storage = storage
        self._clock = clock
        self._equip = equip or _leave_as_it_is
        self._pool_bytes = pool_bytes
        self._owners: dict[str, OwnerBoxes] = {}
        self._running: set[NamedBox] = set()

    @property
    def running(self) -> list[NamedBox]:
        """The running boxes, the one unused longest first."""
        return sorted(
            (named for named in self._running if named.running), key=lambda named: named.idle_since
        )

    def of(self, owner: str) -> OwnerBoxes:
        """The boxes of one owner; always the same object."""
        owned = self._owners.get(owner)
        if owned is None:
            owned = self._owners[owner] = OwnerBoxes(
                owner,
                new_box=partial(self._new_box, owner),
                storage=self._storage,
                limits=self.limits,
            )
        return owned

    async def watch(self) -> None:
        """Save changed boxes and put idle ones to sleep, until cancelled."""
        forgotten = self._clock()
        while True:
            await anyio.sleep(_LOOK_S)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 (one box's fault must not end the care for the others)
                _log.exception("looking after the boxes failed and goes on")
            if self._clock() - forgotten > _QUIET_S:
                forgotten = self._clock()
                self.forget_quiet()

    async def look(self) -> None:
        """Check every running box once."""
        for named in tuple(self._running):
            if not named.running:
                await named.note_death()
            elif named.needs_save:
                await named.save()
        await self.end_idle()
        await self.make_room()

    def forget_quiet(self) -> None:
        """Forget owners' boxes that have all slept for a long time. They are stored."""
        for owned in self._owners.values():
            owned.forget_quiet(self._clock() - _QUIET_S)

    async def end_idle(self) -> None:
        """Put boxes to sleep that were idle for their time."""
        for named in self.running:
            idle = self._clock() - named.idle_since
            if not named.in_use and idle >= named.record.sleep_after_s:
                await named.sleep()

    async def make_room(self) -> None:
        """Put boxes to sleep, the one unused longest first, while too many run, while all boxes use
        too much memory, or while idle boxes have too much memory."""
        for named in self.running:
            too_many = len(self.running) > self.limits.running or self._crowded()
            if not too_many and self._idle_bytes() <= self.limits.idle_bytes:
                return
            if not named.in_use:
                await named.sleep()

    def _idle_bytes(self) -> int:
        """The memory of boxes that are idle for more than a moment. An active chat uses its box
        again at once, and a box needs a moment to give memory back."""
        before = self._clock() - _JUST_USED_S
        idle = (one for one in self.running if not one.in_use and one.idle_since <= before)
        return sum(one.idle_bytes for one in idle) + self._pool_bytes()

    async def aclose(self) -> None:
        """Save and end every box."""
        running = self.running
        with anyio.move_on_after(_LAST_SAVES_S, shield=True):
            for named in running:
                await named.save()
        for named in tuple(self._running):
            await named.end()

    def _new_box(self, owner: str, name: str, record: BoxRecord, stored: bool) -> NamedBox:
        return NamedBox(
            owner,
            name,
            record,
            make=self._source.take,
            equip=self._equip,
            storage=self._storage,
            clock=self._clock,
            running=self._running,
            stored=stored,
        )


async def _leave_as_it_is(owner: str, name: str, box: Box) -> None:
    """Does nothing with a new box."""
