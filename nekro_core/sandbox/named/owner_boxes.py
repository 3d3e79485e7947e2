"""Finds, makes, uses, lists and destroys the boxes of one owner by their names. An owner is for
example a chat; it is named by a text."""

import errno
import logging
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

import anyio

from nekro_core.sandbox.box import BoxLost
from nekro_core.sandbox.named.named_box import (
    BoxDestroyed,
    BoxLease,
    BoxState,
    ImageMismatch,
    NamedBox,
    StoredBoxUnreadable,
    TooManyBoxes,
    UseEffect,
)
from nekro_core.sandbox.named.storage import NAME, BoxRecord, BoxStorage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBoxLimits:
    """The limits and default values of named boxes. A new box gets ``default_image`` and
    ``sleep_after_s``, unless its creator says otherwise. ``running`` limits the number of running
    boxes of all owners together, and ``idle_bytes`` the memory of their idle boxes. Above one of
    these two limits, the box that was unused longest is put to sleep. ``per_owner`` limits the
    boxes of one owner, running or sleeping."""

    default_image: str = "python"
    sleep_after_s: float = 600.0
    running: int = 64
    idle_bytes: float = math.inf
    per_owner: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxListing:
    """A box in the list of an owner's boxes."""

    name: str
    image: str
    running: bool


class OwnerBoxes:
    """The boxes of one owner. Only `NamedBoxes` makes such objects. Any number of calls may use
    them at the same time.

    ``new_box`` makes a `NamedBox` from a name, a record, and whether the box is stored already.
    """

    def __init__(
        self,
        owner: str,
        *,
        new_box: Callable[[str, BoxRecord, bool], NamedBox],
        storage: BoxStorage,
        limits: NamedBoxLimits,
    ) -> None:
        self.owner = owner
        self._new_box = new_box
        self._storage = storage
        self._limits = limits
        self._boxes: dict[str, NamedBox] = {}
        self._held: WeakValueDictionary[str, NamedBox] = WeakValueDictionary()
        self._loaded = False
        self._version = 0
        self._changing = anyio.Lock(fast_acquire=True)

    @property
    def known(self) -> tuple[NamedBox, ...]:
        """The boxes that are loaded now."""
        return tuple(self._boxes.values())

    @asynccontextmanager
    async def use(
        self, name: str = "default", effect: UseEffect = UseEffect.PROCESSES
    ) -> AsyncGenerator[BoxLease]:
        """Use a box in an ``async with``. The box is created or woken if necessary, and stays awake
        inside the ``with`` block. ``effect`` is what the block may change in the box.

        Raises `ValueError` for an invalid name, `TooManyBoxes`, and the errors of `NamedBox.take`
        except `BoxDestroyed`. If the block raises `BoxLost`, the box is marked as sleeping and the
        error is raised again.
        """
        used, _ = await self.take(name)
        try:
            yield used
        except BoxLost:
            await used.named.note_loss()
            raise
        finally:
            used.named.give_back(effect)

    async def take(self, name: str = "default") -> tuple[BoxLease, bool]:
        """Do the same as `use`, but not as a context manager. The caller must call
        ``named.give_back`` of the lease. Also returns whether the box was created now."""
        return await self._take(name, self._default_record())

    async def create(
        self, name: str, *, image: str, sleep_after_s: float, any_image: bool = False
    ) -> bool:
        """Make a box of this name, and return whether it was made. An existing box is not woken. A
        new box is put to sleep when it was unused for ``sleep_after_s`` seconds.

        Raises `ImageMismatch` if the existing box has another image and ``any_image`` is false, and
        the same errors as `use`.
        """
        there = await self.find(name)
        if there is not None and image != there.record.image and not any_image:
            raise ImageMismatch(
                f"{name} is there already, from the image {there.record.image}: "
                "take another name, or use it as it is"
            )
        if there is not None and there.state in (BoxState.RUNNING, BoxState.SLEEPING):
            return False
        record = BoxRecord(image=image, sleep_after_s=sleep_after_s)
        used, created = await self._take(name, record)
        try:
            if created:
                await self._remember(used.named)
            elif used.named.record.image != image and not any_image:
                raise ImageMismatch(f"{name} was made from {used.named.record.image} meanwhile")
        finally:
            used.named.give_back(UseEffect.NOTHING)
        return created

    async def find(self, name: str) -> NamedBox | None:
        """Return the box of this name, or None. The box is not woken."""
        await self._load()
        return self._boxes.get(name)

    async def list(self) -> tuple[BoxListing, ...]:
        """Return all boxes of the owner, sorted by name. No box is woken."""
        await self._load()
        return tuple(
            BoxListing(
                name=name,
                image=named.record.image,
                running=named.running or named.state is BoxState.STARTING,
            )
            for name, named in sorted(self._boxes.items())
            if named.state is not BoxState.ABSENT
        )

    async def stored_bytes(self) -> int:
        """Return how many bytes the stored files of all boxes of the owner need in the storage."""
        return await self._storage.stored_bytes(self.owner)

    async def save(self) -> None:
        """Store the changed files of all running boxes, including files that background processes
        changed."""
        for named in self.known:
            await named.save()

    def forget_quiet(self, before: float) -> None:
        """Unload the boxes if all of them sleep and none was used at or after the time ``before``
        of the monotonic clock. Other code, such as a preview, may still have a reference to a
        `NamedBox`. Then the next use of this box returns the same object."""
        boxes = self._boxes.values()
        quiet = all(
            each.state is BoxState.SLEEPING and not each.in_use and each.idle_since < before
            for each in boxes
        )
        if self._loaded and quiet and not self._changing.locked():
            self._held.update(self._boxes)
            self._boxes = {}
            self._loaded = False

    async def destroy(self, name: str) -> bool:
        """End a box and remove its files. Its name is then free. Returns False if there is no such
        box.

        Raises `OSError` if files could not be removed.
        """
        await self._load()
        async with self._changing:
            named = self._boxes.pop(name, None)
            if named is not None:
                await named.destroy()
        return named is not None

    async def destroy_all(self) -> None:
        """Destroy all boxes of the owner. Raises `OSError` if files could not be removed."""
        await self._load()
        for name in tuple(self._boxes):
            await self.destroy(name)
        await self._storage.forget_owner(self.owner)

    async def unload(self) -> None:
        """End all running boxes without saving them, and forget what is known about the boxes. The
        next use loads them from the storage."""
        async with self._changing:
            await self._unload()

    async def _unload(self) -> None:
        for named in self._boxes.values():
            await named.end()
        self._held.update(self._boxes)
        self._boxes = {}
        self._loaded = False

    async def _take(self, name: str, record: BoxRecord) -> tuple[BoxLease, bool]:
        await self._load()
        while True:
            named = self._boxes.get(name) or await self._admit(name, record)
            try:
                return await named.take()
            except BoxDestroyed:
                continue  # The name is free now, so the next attempt makes a new box.
            finally:
                if named.state is BoxState.ABSENT and not named.in_use:
                    # The box was never started, and no other caller waits for its start.
                    self._boxes.pop(name, None)

    async def _admit(self, name: str, record: BoxRecord) -> NamedBox:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a box")
        async with self._changing:
            there = self._boxes.get(name)
            if there is not None:
                return there
            if len(self._boxes) >= self._limits.per_owner:
                raise TooManyBoxes(
                    f"there are {len(self._boxes)} already, and no more are allowed: "
                    f"use one of {', '.join(sorted(self._boxes))}"
                )
            named = self._boxes[name] = self._new_box(name, record, False)
            return named

    async def _load(self) -> None:
        version = self._storage.version(self.owner)
        if self._loaded and version == self._version:
            return
        async with self._changing:
            if self._loaded and version != self._version:
                await self._unload()
            self._version = version
            await self._load_once()

    async def _load_once(self) -> None:
        if self._loaded:
            return
        try:
            records = await self._storage.records(self.owner)
        except OSError as error:
            _log.error("the boxes of %s cannot be read: %s", self.owner, error)
            raise StoredBoxUnreadable(
                "the list of the boxes cannot be read now", passing=error.errno == errno.EAGAIN
            ) from error
        for name, record in records.items():
            held = self._held.pop(name, None)
            self._boxes[name] = held or self._new_box(name, record or self._default_record(), True)
        self._loaded = True

    def _default_record(self) -> BoxRecord:
        return BoxRecord(image=self._limits.default_image, sleep_after_s=self._limits.sleep_after_s)

    async def _remember(self, named: NamedBox) -> None:
        try:
            await self._storage.remember(self.owner, named.name, named.record)
        except OSError as error:
            _log.error("record of %s (%s) was not stored: %s", named.name, self.owner, error)
