"""The way in and the way out of the bot: what is said is kept here, and goes out here."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from nekro_core.agent import ChatJournal
from nekro_core.delivery import Adapter, Broadcast, Inbox, MediaStore, Outbox
from nekro_core.delivery.fitting import Fitting
from nekro_core.delivery.hearing import Hearing
from nekro_core.delivery.links import MediaLinks
from nekro_core.delivery.tidying import Tidying
from nekro_core.media.converter import Converter
from nekro_core.settings import Settings
from nekro_core.speech.choose import open_transcriber
from nekro_core.store import Store
from nekro_core.store.secrets import kept_secret
from nekro_core.timers import Timers


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Where messages come in, are kept and go out. ``adapters`` are the platforms by name; one may
    be added later."""

    store: Store
    activity: Broadcast
    converter: Converter
    media: MediaStore
    links: MediaLinks
    inbox: Inbox
    adapters: dict[str, Adapter]
    outbox: Outbox
    journal: ChatJournal
    hearing: Hearing
    timers: Timers

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        data: Path,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> AsyncIterator[Self]:
        """Open them below the folder ``data``, which must be locked. Raises `StoreError`."""
        delivery, heard = settings.nekro_delivery, settings.nekro_speech.transcriber
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(
                Store.open(settings.database_url, settings.nekro_store, clock=wall)
            )
            activity = Broadcast()
            converter = await stack.enter_async_context(Converter())
            media = await stack.enter_async_context(MediaStore(data, delivery.media, converter))
            inbox = Inbox(store, activity, clock=clock, wall=wall)
            links = MediaLinks(
                data,
                partial(kept_secret, data, "links"),
                address=delivery.media.link_address,
                seconds=delivery.media.link_s,
                clock=wall,
            )
            adapters: dict[str, Adapter] = {}
            fitting = Fitting(media, converter, links)
            outbox = await stack.enter_async_context(
                Outbox(
                    store, adapters, activity, delivery, media=media, fitting=fitting, clock=wall
                )
            )
            keep = settings.nekro_store.keep
            await stack.enter_async_context(Tidying.open(store, media, keep, wall=wall))
            transcriber = open_transcriber(heard)
            if transcriber is not None:
                stack.push_async_callback(transcriber.aclose)
            hearing = await stack.enter_async_context(
                Hearing(store, activity, media, converter, transcriber, heard)
            )
            timers = await stack.enter_async_context(
                Timers.open(
                    store,
                    inbox,
                    settings.nekro_timer,
                    timezone=settings.nekro_agent.timezone,
                    wall=wall,
                )
            )
            yield cls(
                store=store,
                activity=activity,
                converter=converter,
                media=media,
                links=links,
                inbox=inbox,
                adapters=adapters,
                outbox=outbox,
                journal=ChatJournal(store, inbox),
                hearing=hearing,
                timers=timers,
            )
