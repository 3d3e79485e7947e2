"""Manages all named boxes of all owners, and decides which of them are put to sleep."""

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
"""Longest time, in seconds, for saving the files of all boxes when the process ends."""


class BoxSource(Protocol):
    """Gives new boxes (`nekro_core.sandbox.supply.BoxSupply`)."""

    async def take(self, image: str = "") -> Box:
        """Take a new box for this caller alone. Raises `BackendUnavailable` and
        `ImageUnavailable`."""


class NamedBoxes:
    """The boxes of all owners. The code that makes this object runs `watch` as a task, and awaits
    `aclose` at the end."""

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
        """``source`` makes the boxes, ``storage`` stores their files and records while they sleep.
        For ``equip`` see `Equip`. ``crowded`` says whether boxes must be put to sleep because
        memory is short.
        ``pool_bytes`` returns the memory of the ready boxes in the pool. This memory counts as
        memory of idle boxes."""
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
        """The running boxes. The first is the box that was unused longest."""
        return sorted(
            (named for named in self._running if named.running), key=lambda named: named.idle_since
        )

    async def count_asleep(self) -> int:
        """Return how many boxes sleep: their files are stored, and no process runs. A running box
        whose files were never saved is not stored, so the number may be slightly too small."""
        return max(await self._storage.count() - len(self.running), 0)

    def of(self, owner: str) -> OwnerBoxes:
        """Return the boxes of one owner. It is always the same object for the same owner."""
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
        """Save changed boxes and put idle boxes to sleep, until cancelled."""
        forgotten = self._clock()
        while True:
            await anyio.sleep(_LOOK_S)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 (the fault of one box must not stop this task)
                _log.exception("the check of the boxes failed; it is repeated in a second")
            if self._clock() - forgotten > _QUIET_S:
                forgotten = self._clock()
                self.forget_quiet()

    async def look(self) -> None:
        """Check every running box once: save it, or put it to sleep, if necessary."""
        for named in tuple(self._running):
            if not named.running:
                await named.note_death()
            elif named.needs_save:
                await named.save()
        await self.end_idle()
        await self.make_room()

    def forget_quiet(self) -> None:
        """Unload the boxes of owners whose boxes have all slept for `_QUIET_S`. Their next use
        loads them from the storage."""
        for owned in self._owners.values():
            owned.forget_quiet(self._clock() - _QUIET_S)

    async def end_idle(self) -> None:
        """Put boxes to sleep that have been idle for longer than their ``sleep_after_s``."""
        for named in self.running:
            idle = self._clock() - named.idle_since
            if not named.in_use and idle >= named.record.sleep_after_s:
                await named.sleep()

    async def make_room(self) -> None:
        """Put boxes to sleep, first the box that was unused longest. Continue while too many boxes
        run, while all boxes together use too much memory, or while the idle boxes use too much.
        Boxes in use stay awake."""
        for named in self.running:
            too_many = len(self.running) > self.limits.running or self._crowded()
            if not too_many and self._idle_bytes() <= self.limits.idle_bytes:
                return
            if not named.in_use:
                await named.sleep()

    def _idle_bytes(self) -> int:
        """Return the memory of the pool and of all boxes that have been idle for `_JUST_USED_S`.
        Boxes that were used more recently do not count. An active chat uses its box again at once,
        and a box needs a moment to free memory."""
        before = self._clock() - _JUST_USED_S
        idle = (one for one in self.running if not one.in_use and one.idle_since <= before)
        return sum(one.idle_bytes for one in idle) + self._pool_bytes()

    async def hand_over(self, owners: Callable[[str], bool]) -> None:
        """Save and end the boxes of some owners, because another process uses them from now on."""
        for owner, owned in tuple(self._owners.items()):
            if owners(owner):
                await owned.save()
                await owned.unload()
                self._owners.pop(owner, None)
                await self._storage.let_go(owner)

    async def aclose(self) -> None:
        """Save all running boxes at the same time, and end them. Saving takes at most
        `_LAST_SAVES_S`; changes that are not saved by then are lost, and the log names these
        boxes."""
        with anyio.move_on_after(_LAST_SAVES_S, shield=True) as saving:
            async with anyio.create_task_group() as tasks:
                for named in self.running:
                    tasks.start_soon(_save_at_end, named)
        for named in tuple(self._running):
            if saving.cancelled_caught and named.changed:
                _log.error(
                    "the last changes of the files of %s (%s) are lost: saving took over %g s",
                    *(named.name, named.owner, _LAST_SAVES_S),
                )
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


async def _save_at_end(named: NamedBox) -> None:
    """Save a box. A fault of one box must not stop the saving of the others."""
    try:
        await named.save()
    except Exception:  # noqa: BLE001 - see above
        _log.exception("files of %s (%s) were not saved", named.name, named.owner)


async def _leave_as_it_is(owner: str, name: str, box: Box) -> None:
    """Change nothing in a new box. This is the default for ``equip``."""
