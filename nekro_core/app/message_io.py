"""Builds the objects for message input and output: store, inbox, outbox, media, timers."""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from loguru import logger

from nekro_core.app.settings import Settings
from nekro_core.app.shared_files import open_shared_media
from nekro_core.app.shared_secrets import share_secrets
from nekro_core.app.voices import transcriber_of
from nekro_core.cluster.objects import ObjectStore
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.inbound.inbox import ChatJournal, Inbox
from nekro_core.delivery.inbound.voice_transcriber import VoiceTranscriber
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import PlatformFetchPolicy
from nekro_core.delivery.media.fitter import MediaFitter
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.announcements import FOLDER as ANNOUNCEMENTS
from nekro_core.delivery.outbound.announcements import Announcements
from nekro_core.delivery.platforms.requests import ContactRequests
from nekro_core.delivery.retention import RetentionLoop
from nekro_core.media.converter import MediaConverter
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.search.open import MessageSearchService
from nekro_core.plugins.host.hooked_outbox import HookedOutbox
from nekro_core.store import Store
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.secrets import kept_secret
from nekro_core.system.telemetry.telemetry import Telemetry
from nekro_core.timers import TimerService, zone_of
from nekro_core.tools.discovery import SentenceVectors


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageIO:
    """The objects that accept, store and send messages.

    Attributes:
        adapters: The adapters by name. Adapters may be added later.
        sentences: The sentence encoder; None if the operator has switched the encoder off.
        search: Finds messages.
        telemetry: Records what the bot does, as metrics and traces.
    """

    store: Store
    activity: Broadcast
    converter: MediaConverter
    fetcher: Fetcher
    media: MediaStore
    links: MediaLinks
    inbox: Inbox
    adapters: dict[str, Adapter]
    outbox: HookedOutbox
    journal: ChatJournal
    transcriber: VoiceTranscriber
    timers: TimerService
    memory: MemoryKeeper
    requests: ContactRequests
    announcements: Announcements
    sentences: SentenceVectors | None
    search: MessageSearchService
    telemetry: Telemetry = field(default_factory=Telemetry)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        data: Path,
        configuration: Mapping[str, Any],
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        telemetry: Telemetry | None = None,
        chats: ChatScope = every_chat,
        objects: ObjectStore | None = None,
    ) -> AsyncIterator[Self]:
        """Build all these objects. Their files are in the folder ``data``. The caller must hold the
        folder's lock. The adapters read their settings from ``configuration``. ``chats`` returns
        whether this process takes care of a chat: reports its timers, draws notes out of it, and
        so on. ``objects`` has the media that the processes of a cluster share. Raises `StoreError`,
        and `DocumentError` if the secrets of a shared database cannot be read."""
        delivery, speech = settings.nekro_delivery, settings.nekro_speech.transcriber
        telemetry = telemetry or Telemetry()
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(
                Store.open(settings.database_url, settings.nekro_store, clock=wall)
            )
            if settings.nekro_store.node:
                await share_secrets(data, store.documents)
            activity = Broadcast()
            converter = await stack.enter_async_context(MediaConverter())
            addresses = settings.adapters.address_settings()
            reach = _platform_reach(delivery.media, configuration, addresses)
            fetcher = Fetcher(delivery.media, reach)
            shared = await stack.enter_async_context(
                open_shared_media(
                    store, objects, data, delivery.media, settings.nekro_store.node, wall=wall
                )
            )
            media = await stack.enter_async_context(
                MediaStore(data, delivery.media, converter, fetcher, shared)
            )
            inbox = Inbox(store, activity, clock=clock, wall=wall)
            links = MediaLinks(
                data,
                partial(kept_secret, data, "links"),
                address=delivery.media.link_address,
                seconds=delivery.media.link_s,
                clock=wall,
                bring=media.bring,
            )
            adapters: dict[str, Adapter] = {}
            fitting = MediaFitter(media, converter, links)
            outbox = await stack.enter_async_context(
                HookedOutbox(
                    store,
                    adapters,
                    activity,
                    delivery,
                    media=media,
                    fitting=fitting,
                    clock=wall,
                    telemetry=telemetry,
                    chats=chats,
                )
            )
            keep = settings.nekro_store.keep
            await stack.enter_async_context(RetentionLoop.open(store, media, keep, wall=wall))
            tasks = await stack.enter_async_context(background_tasks())
            tasks.start_soon(store.statistics_counter.follow, name="statistics")
            engine = transcriber_of(settings.nekro_roles, settings.nekro_models, speech)
            if engine is not None:
                stack.push_async_callback(engine.aclose)
            transcriber = await stack.enter_async_context(
                VoiceTranscriber(store, activity, media, converter, engine, speech)
            )
            timers = await stack.enter_async_context(
                TimerService.open(
                    store,
                    inbox,
                    settings.nekro_timer,
                    timezone=settings.nekro_agent.timezone,
                    wall=wall,
                    chats=chats,
                )
            )
            memory = MemoryKeeper(
                store,
                settings.nekro_memory,
                data=data,
                secret=partial(kept_secret, data, "memory"),
                messages_days=lambda: keep.messages_days,
                zone=lambda _: zone_of(settings.nekro_agent.timezone),
                clock=clock,
                wall=wall,
                chats=chats,
            )
            await memory.load()
            stack.callback(memory.knowledge.close)
            tasks.start_soon(memory.live, name="memory")
            tasks.start_soon(memory.knowledge.live, name="documents to look things up in")
            announcements = await stack.enter_async_context(
                Announcements(data / ANNOUNCEMENTS, outbox.send, clock=wall)
            )
            sentences = None
            if settings.nekro_agent.prompt.search_by_meaning:
                sentences = SentenceVectors()
                stack.push_async_callback(sentences.aclose)
            search = await stack.enter_async_context(
                MessageSearchService.open(
                    store,
                    sentences,
                    timezone=settings.nekro_agent.timezone,
                    clock=clock,
                    wall=wall,
                    chats=chats,
                )
            )
            yield cls(
                store=store,
                activity=activity,
                converter=converter,
                fetcher=fetcher,
                media=media,
                links=links,
                inbox=inbox,
                adapters=adapters,
                outbox=outbox,
                journal=ChatJournal(store, inbox),
                transcriber=transcriber,
                timers=timers,
                memory=memory,
                requests=ContactRequests(data, adapters, clock=wall),
                announcements=announcements,
                sentences=sentences,
                search=search,
                telemetry=telemetry,
            )


_WS_PORT = re.compile(r"(wss?)://(?:\[[^\]]*\]|[^/:?#\s\"']*)(?::(\d{1,5}))?")


def _platform_reach(
    settings: MediaSettings, configuration: Mapping[str, Any], names: Iterable[str]
) -> PlatformFetchPolicy:
    """Return the policy that decides from which addresses received media may be fetched.

    ``names`` are the settings that contain addresses of platforms. An entry in the old format is a
    host without a port. Such entries are logged, and the log says what to write instead.
    """
    urls = [configuration.get(name) or "" for name in names]
    found = _WS_PORT.finditer(str(urls))
    ports = {int(match[2] or (443 if match[1] == "wss" else 80)) for match in found}
    reach = PlatformFetchPolicy(settings.private_hosts, old_ports=ports)
    for host in reach.bare:
        shown = f"[{host}]" if ":" in host else host
        logger.warning(
            'NEKRO_DELIVERY__MEDIA__PRIVATE_HOSTS: "{}" names no port, so only {} are open there; '
            'write the port at which the platform serves its files: ["{}:3001"]',
            host,
            ", ".join(map(str, reach.old_ports)),
            shown,
        )
    return reach
