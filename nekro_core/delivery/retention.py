"""Deletes old rows and old media, in small slices so that messages are not delayed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, Self

import anyio
from loguru import logger

from nekro_core.store import RetentionSettings, Store, StoreError
from nekro_core.system.background_tasks import background_tasks

DAY_S = 86_400.0
_PAUSE_S = 0.05
"""Seconds between two slices. Deletion then uses the database for about 5 % of the time."""
_FIRST_S = 300.0
"""Seconds from the bot's start to the first round, so that deletion does not slow the start."""


class ExpiringMedia(Protocol):
    """The only part of `nekro_core.delivery.media.store.MediaStore` that this module uses."""

    async def tidy(self, now: float) -> int:
        """Delete old files. Returns the number of deleted files."""


class RetentionStep(Protocol):
    """A method of `nekro_core.store.retention.RowRetention`."""

    def __call__(self, *, before: float, after: int = 0) -> Awaitable[int]:
        """Delete one slice of old rows. Returns the value of ``after`` for the next slice; 0 at the
        end."""


class RetentionLoop:
    """Deletes old rows and media at regular intervals. ``wall`` returns seconds since 1970."""

    def __init__(
        self,
        store: Store,
        media: ExpiringMedia,
        settings: RetentionSettings,
        *,
        wall: Callable[[], float],
    ) -> None:
        self._store = store
        self._media = media
        self._settings = settings
        self._wall = wall

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        media: ExpiringMedia,
        settings: RetentionSettings,
        *,
        wall: Callable[[], float],
    ) -> AsyncIterator[Self]:
        """Run one round after another until the block ends."""
        tidying = cls(store, media, settings, wall=wall)
        async with background_tasks() as tasks:
            tasks.start_soon(tidying.live, name="what is old")
            yield tidying

    async def live(self) -> None:
        """Run one round after another until cancelled."""
        await anyio.sleep(_FIRST_S)
        while True:
            try:
                await self.run_once()
            except (StoreError, OSError) as error:
                logger.warning("old rows and media stay until the next round: {}", error)
            await anyio.sleep(self._settings.round_s)

    async def run_once(self) -> None:
        """Run one round. Raises `StoreError` and `OSError`."""
        now, keep, old = await self._now(), self._settings, self._store.retention
        await self._all_of(old.messages, now, keep.messages_days)
        await self._all_of(old.turns, now, keep.turns_days)
        await self._all_of(old.prompt_parts, now, keep.turns_days)
        await self._all_of(old.loose_runs, now, keep.turns_days)
        await self._all_of(old.deliveries, now, keep.turns_days)
        await self._all_of(old.uses, now, keep.uses_days)
        await self._take_all(partial(old.statistics, before=now))
        if gone := await self._media.tidy(now):
            logger.info("{} old media were deleted", gone)

    async def _now(self) -> float:
        """Return the current time, or a day after the newest message's time, whichever is earlier.
        So a clock that is wrong by years cannot delete the whole history."""
        newest = await self._store.retention.newest_message_time()
        return min(self._wall(), newest + DAY_S)

    async def _all_of(self, take: RetentionStep, now: float, days: float) -> None:
        if not days:
            return
        await self._take_all(partial(take, before=now - days * DAY_S))

    async def _take_all(self, further: Callable[..., Awaitable[int]]) -> None:
        at = await further()
        while at:
            await anyio.sleep(_PAUSE_S)
            at = await further(after=at)
