"""The bot, composed: who is made from what, in which order, and ended in the reverse one.

Nothing else builds a room's objects. NoneBot and the web server are not here (`nekro_core.gateway`
has them), so a test opens an `App` of its own in a temporary folder, several in one process.
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from loguru import logger

from nekro_core.agent import (
    ChatBoxes,
    ChatJournal,
    Discovery,
    Manners,
    Pictures,
    Ports,
    Sessions,
    ToolDesk,
)
from nekro_core.agent.erased_marks import FILE_NAME as MARKS
from nekro_core.agent.erased_marks import ErasedMarks
from nekro_core.agent.erasing import Erasing
from nekro_core.catalogue import Catalogue
from nekro_core.chat import ChatKey
from nekro_core.compat import Host as OlderHost
from nekro_core.compat import hosted, provided_names
from nekro_core.conduct import ConductFile
from nekro_core.conduct.file import FILE_NAME
from nekro_core.delivery import (
    AccountBook,
    Adapter,
    Broadcast,
    Fetcher,
    Inbox,
    LocalHost,
    MediaStore,
    Outbox,
)
from nekro_core.delivery.fitting import Fitting
from nekro_core.delivery.hearing import Hearing
from nekro_core.delivery.links import MediaLinks
from nekro_core.delivery.tidying import Tidying
from nekro_core.erasers import erasers
from nekro_core.llm.embedded import EmbeddedModel, Progress
from nekro_core.llm.model import ChatModel
from nekro_core.llm.named import NamedModels
from nekro_core.llm.openai_model import OpenAIChatModel
from nekro_core.maibot import MaiBotHost, MaiBotPorts
from nekro_core.mcp_servers import McpServers
from nekro_core.media.converter import Converter
from nekro_core.plugin import PluginRegistry, Services, loop_watched
from nekro_core.plugin.commands.access import Access, CommandPermission, standing
from nekro_core.plugin.commands.book import CommandBook
from nekro_core.plugin.commands.command import Command, CommandFamily
from nekro_core.plugin.commands.desk import CommandDesk
from nekro_core.plugin.models.endpoints import PluginModels
from nekro_core.plugin.models.metered import Ledger
from nekro_core.plugin.moving import settle
from nekro_core.plugin.tasks.kept import KeptTasks
from nekro_core.plugin.tasks.runner import TaskRunner
from nekro_core.plugin.web.pages import PluginPages
from nekro_core.plugin.web.values import PluginRouter, Webhook
from nekro_core.plugin.web.webhooks import Webhooks
from nekro_core.sandbox.egress import Egress, EgressLimits, box_environment
from nekro_core.sandbox.egress.overrides import OverridesFile
from nekro_core.sandbox.egress.source import LetOutBoxes
from nekro_core.sandbox.preview import Preview
from nekro_core.sandbox.supply import BoxSupply, owner_of
from nekro_core.settings import Settings
from nekro_core.speech.choose import open_speaker, open_transcriber
from nekro_core.store import DataFolderLock, Store
from nekro_core.store.secrets import kept_secret
from nekro_core.timers import Timers
from nekro_core.vectors.home import VectorHome

Report = Callable[[Progress], None]


class App:
    """A running bot without its platforms. Use `App.open`, then `add_adapter` and `start`."""

    def __init__(
        self,
        *,
        host: LocalHost,
        sessions: Sessions,
        plugins: PluginRegistry,
        adapters: dict[str, Adapter],
        timers: Timers,
    ) -> None:
        self.host = host
        self.plugins = plugins
        self._sessions = sessions
        self._adapters = adapters
        self._timers = timers
        self._started: list[Adapter] = []

    @classmethod
    @asynccontextmanager
    async def open(  # noqa: PLR0915 - every room is opened here, one after another
        cls,
        settings: Settings,
        configuration: Mapping[str, Any],
        *,
        model: ChatModel | None = None,
        report: Report = lambda _: None,
        preview: Preview | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> AsyncIterator[Self]:
        """Open every room. ``configuration`` is what adapters read their settings from.

        ``model`` replaces the one that the settings name. ``report`` is told of downloads.
        ``preview`` is where servers in boxes are shown; without it they cannot be. Raises
        `DataFolderInUse`, `StoreError` and `SettingsError`; nothing is left open then.
        """
        data = settings.nekro_data_dir.absolute()
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with AsyncExitStack() as stack:
            stack.enter_context(DataFolderLock(data))
            settle(data)
            store = await stack.enter_async_context(
                Store.open(settings.database_url, settings.nekro_store, clock=wall)
            )
            bounds = settings.nekro_plugin
            stack.enter_context(loop_watched(bounds.blocks_s, bounds.breaks_s))
            activity = Broadcast()
            conduct, commands = ConductFile(data / FILE_NAME), settings.commands
            media = await stack.enter_async_context(MediaStore(data, settings.nekro_delivery.media))
            inbox = Inbox(store, activity, clock=clock, wall=wall)
            adapters: dict[str, Adapter] = {}
            converter = Converter()
            bounds_of_media = settings.nekro_delivery.media
            links = MediaLinks(
                data,
                partial(kept_secret, data, "links"),
                address=bounds_of_media.link_address,
                seconds=bounds_of_media.link_s,
                clock=wall,
            )
            outbox = await stack.enter_async_context(
                Outbox(
                    store,
                    adapters,
                    activity,
                    settings.nekro_delivery,
                    media=media,
                    fitting=Fitting(media, converter, links),
                    clock=wall,
                )
            )
            keep = settings.nekro_store.keep
            await stack.enter_async_context(Tidying.open(store, media, keep, wall=wall))
            journal = ChatJournal(store, inbox)
            supply = await stack.enter_async_context(
                BoxSupply.open(
                    settings.nekro_sandbox,
                    clock=clock,
                    report=_say_no_boxes,
                    owner=owner_of(data),
                )
            )
            egress = await stack.enter_async_context(_open_egress(settings, data, clock))
            boxes = ChatBoxes(
                supply,
                data / "boxes",
                settings.nekro_agent,
                clock=clock,
                sandbox=settings.nekro_sandbox,
                preview=preview,
                equip=egress.attach,
            )
            speaker = open_speaker(settings.nekro_speech)
            stack.push_async_callback(speaker.aclose)
            transcriber = open_transcriber(settings.nekro_speech.transcriber)
            if transcriber is not None:
                stack.push_async_callback(transcriber.aclose)
            hearing = await stack.enter_async_context(
                Hearing(
                    store,
                    activity,
                    media,
                    converter,
                    transcriber,
                    settings.nekro_speech.transcriber,
                )
            )
            if model is None:
                model = make_model(settings, data, report)
                stack.push_async_callback(model.aclose)
            models = PluginModels(
                model, settings.nekro_llm, settings.nekro_models, Ledger(store.model_uses, wall)
            )
            stack.push_async_callback(models.aclose)
            vectors = VectorHome(data / "vectors")
            stack.push_async_callback(vectors.aclose)
            fetcher = await stack.enter_async_context(Fetcher(settings.nekro_delivery.media))
            timers = await stack.enter_async_context(
                Timers.open(
                    store,
                    inbox,
                    settings.nekro_timer,
                    timezone=settings.nekro_agent.timezone,
                    wall=wall,
                )
            )
            older = OlderHost(
                store=store,
                llm=settings.nekro_llm,
                agent=settings.nekro_agent,
                trigger=settings.nekro_trigger,
                command=commands,
                adapters=adapters,
                data_dir=data,
                run_seconds=settings.nekro_sandbox.limits.seconds,
            )
            stack.enter_context(provided_names())
            stack.enter_context(hosted(older))
            catalogue = Catalogue.load()
            book = CommandBook(settings.nekro_plugin.order)
            pages, webhooks = PluginPages(), Webhooks(partial(kept_secret, data, "webhooks"))
            packages = settings.nekro_plugin.shelf(data)
            stack.enter_context(packages.on_path())
            services = Services(
                outgoing=outbox,
                journal=journal,
                media=media,
                plugin_data=store.plugin_data,
                speaker=speaker,
                data_dir=data,
                adapter_of=partial(_adapter_of, store),
                may_send_elsewhere=settings.nekro_plugin.may_send_elsewhere,
                shared_bytes=settings.nekro_plugin.shared_bytes,
                editor=outbox,
                boxes=LetOutBoxes(supply, egress),
                pool_of=boxes.pool,
                model=models.own,
                fetcher=fetcher,
                packages=packages,
                older=older,
                timers=timers,
                models=models,
                vectors=vectors,
                tasks=TaskRunner(KeptTasks(store.waiting, wall=wall)),
            )
            maibot = await stack.enter_async_context(
                MaiBotHost.open(
                    MaiBotPorts(
                        services=services,
                        store=store,
                        adapters=adapters,
                        inbound=inbox.accept,
                        names=settings.nekro_agent.names,
                        persona=settings.nekro_agent.persona,
                        tool_s=settings.nekro_plugin.tool_s,
                        operator=partial(_is_operator, store, settings),
                        wall=wall,
                        online=outbox.nudge,
                        hook_sends=outbox.hook,
                    )
                )
            )
            plugins = await stack.enter_async_context(
                PluginRegistry.open(
                    services,
                    settings.nekro_plugin,
                    kinds=[maibot],
                    registrars={
                        Command: book.put,
                        CommandFamily: book.put_family,
                        PluginRouter: pages.put,
                        Webhook: webhooks.put,
                    },
                )
            )
            older.plugins = plugins
            maibot.attach(plugins)
            others = NamedModels(settings.nekro_models, staged=maibot.staged)
            stack.push_async_callback(others.aclose)
            staged = maibot.staged(model)
            manners = Manners(
                conduct,
                settings.nekro_agent,
                settings.nekro_trigger,
                staged,
                others.get,
                adapter_of=partial(_adapter_of, store),
            )
            await stack.enter_async_context(
                McpServers.open(data, plugins.offer, settings.nekro_mcp, _variables(configuration))
            )
            ports = Ports(
                store=store,
                inbox=inbox,
                outbox=outbox,
                activity=activity,
                model=staged,
                plugins=plugins,
                commands=CommandDesk(
                    book,
                    commands,
                    plugins.context_for,
                    partial(_adapter_of, store),
                    catalogue,
                    language=settings.nekro_agent.language,
                    keeper=store.waiting,
                    wall=wall,
                    access=Access(commands, conduct),
                ),
                boxes=boxes,
                journal=journal,
                catalogue=catalogue,
                pictures=Pictures(longer_side=settings.nekro_agent.prompt.image_pixels),
                settings=settings.nekro_agent,
                trigger=settings.nekro_trigger,
                manners=manners,
                timers=timers,
                run_limits=settings.nekro_sandbox.limits,
                clock=clock,
                wall=wall,
                discovery=Discovery(settings.nekro_agent.prompt.found_tools, store.plugin_data),
                hearing=hearing,
            )
            erasing = Erasing(
                ports,
                ErasedMarks(data / MARKS, partial(kept_secret, data, "erased"), wall),
                media=media,
                data=data,
                erasers=erasers(data, vectors=vectors, older=older, conduct=conduct),
            )
            sessions = await stack.enter_async_context(Sessions(ports, erasing))
            older.reset = sessions.begin_anew
            accounts = await stack.enter_async_context(AccountBook(store, data))
            host = LocalHost(
                data_dir=data,
                settings=configuration,
                store=store,
                inbox=inbox,
                activity=activity,
                media=media,
                stop=sessions.stop,
                busy=sessions.working,
                online=outbox.nudge,
                desk=ToolDesk(ports),
                outbox=outbox.desk,
                pages=pages,
                webhooks=webhooks,
                links=links,
                accounts=accounts,
                plugins=plugins.shown,
            )
            app = cls(
                host=host, sessions=sessions, plugins=plugins, adapters=adapters, timers=timers
            )
            stack.push_async_callback(app.close_adapters)
            yield app

    def add_adapter(self, adapter: Adapter) -> None:
        """Serve one more platform from `start` on."""
        self._adapters[adapter.name] = adapter

    async def start(self) -> None:
        """Let the platforms in, and take up what an earlier process left."""
        await self._sessions.recover()
        for adapter in self._adapters.values():
            await adapter.start()
            self._started.append(adapter)
        self._timers.start()
        self._sessions.prepare()

    async def close_adapters(self) -> None:
        """Let nobody in any more, and end what they keep open. May be called again."""
        while self._started:
            await self._started.pop().aclose()

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """Those that were added, by name."""
        return self._adapters


def _variables(configuration: Mapping[str, Any]) -> dict[str, str]:
    """What the operator wrote into ``.env`` and the environment, under its names there."""
    written = {name.upper(): text for name, text in configuration.items() if isinstance(text, str)}
    return {**written, **os.environ}


def make_model(settings: Settings, data: Path, report: Report) -> ChatModel:
    """The model that the settings name, or the embedded one where they name none."""
    if settings.nekro_llm.configured:
        return OpenAIChatModel(settings.nekro_llm)
    return EmbeddedModel(settings.nekro_embedded, data / "models", report=report)


def _is_operator(store: Store, settings: Settings, chat: ChatKey, user_id: str) -> bool:
    adapter, instance = _adapter_of(store, chat.instance), chat.instance
    known = standing(settings.commands, adapter=adapter, instance=instance, user_id=user_id)
    return known.allows(CommandPermission.SUPER_USER)


def _adapter_of(store: Store, instance: str) -> str:
    account = store.accounts.of(instance)
    return account.adapter if account else instance.partition(".")[0]


@asynccontextmanager
async def _open_egress(
    settings: Settings, data: Path, clock: Callable[[], float]
) -> AsyncIterator[Egress]:
    sandbox = settings.nekro_sandbox
    rules = OverridesFile(data / "egress.toml", sandbox.egress_rules)
    async with Egress.open(
        rules.rules,
        limits=EgressLimits(bytes_per_hour=sandbox.egress_mb * 1024 * 1024),
        environment=box_environment(sandbox.pip_index),
        clock=clock,
    ) as egress:
        egress.follow(rules.look)
        yield egress


def _say_no_boxes(reason: str) -> None:
    logger.error("no code will run on this machine; `nekro doctor` tells more.\n{}", reason)
