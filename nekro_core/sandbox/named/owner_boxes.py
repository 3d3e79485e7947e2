"""One owner's boxes by name."""

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
    """``default_image`` and ``sleep_after_s`` are those of a box that its first use creates.
    ``running`` bounds the running boxes of all owners, ``idle_bytes`` the memory of those that
    nobody uses: over either the one unused longest sleeps."""

    default_image: str = "python"
    sleep_after_s: float = 600.0
    running: int = 64
    idle_bytes: float = math.inf
    per_owner: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxListing:
    """A box as a list shows it."""

    name: str
    image: str
    running: bool


class OwnerBoxes:
    """The boxes of one owner. Any number of uses at once; made by `NamedBoxes`.

    ``new_box`` makes a `NamedBox` of a name, what it is, and whether it is stored already.
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
        self._changing = anyio.Lock()

    @property
    def known(self) -> tuple[NamedBox, ...]:
        """Those that were looked at since the process began."""
        return tuple(self._boxes.values())

    @asynccontextmanager
    async def use(
        self, name: str = "default", effect: UseEffect = UseEffect.PROCESSES
    ) -> AsyncGenerator[BoxLease]:
        """A living box, awake while it is used; created or woken where need be.

        Raises `TooManyBoxes`, and what `NamedBox.take` does but `BoxDestroyed`. A `BoxLost` of the
        body passes through and is taken note of.
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
        """The same without a context, and whether the box was made now. Whoever takes it calls
        ``give_back`` of what came."""
        return await self._take(name, self._default_record())

    async def create(
        self, name: str, *, image: str, sleep_after_s: float, any_image: bool = False
    ) -> bool:
        """Make a box of this name. False where there is one, which is not woken.

        Raises `ImageMismatch` where that is from another image and not ``any_image``; and as `use`.
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
        """The box of this name. Asking changes nothing of it."""
        await self._load()
        return self._boxes.get(name)

    async def list(self) -> tuple[BoxListing, ...]:
        """Those that there are, by name. Asking changes nothing of them."""
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

    async def save(self) -> None:
        """Store what changed in boxes that run, also by what goes on in their background."""
        for named in self.known:
            await named.save()

    def forget_quiet(self, before: float) -> None:
        """Forget boxes that all sleep, unused since then. Whoever still holds one, as a preview
        does, keeps it: the same object comes back with its next use."""
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
        """End a box and remove its files; its name is free then. False where there is none.

        Raises `OSError` where files could not be removed.
        """
        await self._load()
        async with self._changing:
            named = self._boxes.pop(name, None)
            if named is not None:
                await named.destroy()
        return named is not None

    async def destroy_all(self) -> None:
        """All of them. Raises as `destroy`."""
        await self._load()
        for name in tuple(self._boxes):
            await self.destroy(name)

    async def _take(self, name: str, record: BoxRecord) -> tuple[BoxLease, bool]:
        await self._load()
        while True:
            named = self._boxes.get(name) or await self._admit(name, record)
            try:
                return await named.take()
            except BoxDestroyed:
                continue  # the name is free now
            finally:
                if named.state is BoxState.ABSENT and not named.in_use:
                    # It never came to life, and nobody else tries to start it.
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
                    f"there are {len(self._boxes)} already, which is the most: "
                    f"use one of {', '.join(sorted(self._boxes))}"
                )
            named = self._boxes[name] = self._new_box(name, record, False)
            return named

    async def _load(self) -> None:
        if not self._loaded:
            async with self._changing:
                await self._load_once()

    async def _load_once(self) -> None:
        if self._loaded:
            return
        try:
            records = await self._storage.records(self.owner)
        except OSError as error:
            _log.error("the boxes of %s cannot be read: %s", self.owner, error)
            raise StoredBoxUnreadable("the list of the boxes cannot be read now") from error
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
            _log.error("what %s (%s) is was not stored: %s", named.name, self.owner, error)
