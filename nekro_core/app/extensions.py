"""Loads all kinds of plugins (`NekroPlugin`, MaiBot's plugins, MCP servers), and builds the
services that they use."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from nekro_core.app.boxes import BoxServices
from nekro_core.app.message_io import MessageIO
from nekro_core.app.models import PluginModelViews
from nekro_core.app.settings import Settings
from nekro_core.app.voices import speaker_of
from nekro_core.chat import ChatKey, ChatMessage
from nekro_core.cluster.objects import ObjectStore
from nekro_core.compat.maibot import BotView, GatewayPorts, MaiBotHost
from nekro_core.compat.nekro_agent.box_extras import box_extras, box_tools
from nekro_core.compat.nekro_agent.context import LegacyAgentCtx
from nekro_core.compat.nekro_agent.host import NekroAgentHost, use_host
from nekro_core.compat.nekro_agent.imports import install_facades
from nekro_core.compat.nekro_agent.legacy_services import NekroAgentServices
from nekro_core.compat.nekro_agent.message_forms import legacy_changes, legacy_form
from nekro_core.compat.nekro_agent.models.groups import ModelGroups
from nekro_core.compat.qdrant.home import EmbeddedVectorStore
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import ChatModel
from nekro_core.llm.observed_model import ObservedModel
from nekro_core.llm.role_budget import BudgetedRoles
from nekro_core.plugins.authoring.chat_network import PluginFetcher, PluginMediaKeeper
from nekro_core.plugins.authoring.commands import Command, CommandFamily, SpokenCommand
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.authoring.tool_uses import PluginUses
from nekro_core.plugins.authoring.web import PluginRouter, Webhook
from nekro_core.plugins.commands.book import CommandRegistry
from nekro_core.plugins.host.kinds import LegacySupport
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.models.endpoints import PluginModels
from nekro_core.plugins.models.metered import UsageLedger
from nekro_core.plugins.tasks.interrupted import RunningTaskRecords
from nekro_core.plugins.tasks.runner import TaskRunner
from nekro_core.plugins.web.pages import PluginPages
from nekro_core.plugins.web.webhooks import Webhooks
from nekro_core.policy.permissions import CommandPermission, permission_of
from nekro_core.store import Store
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.secrets import kept_secret
from nekro_core.tools.mcp_client import McpServers

if TYPE_CHECKING:
    from nekro_core.app.shared_plugins import PluginSharing
    from nekro_core.plugins.installation.manager import PluginManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """The loaded plugins, the MCP servers, and the registries of the plugins' commands, pages and
    webhooks. ``models`` are the descriptions of the models that plugins read. ``manager`` returns
    what installs plugins, and makes it at its first use."""

    models: PluginModelViews
    mcp: McpServers
    plugins: PluginRegistry
    commands: CommandRegistry
    pages: PluginPages
    webhooks: Webhooks
    vectors: EmbeddedVectorStore
    older: NekroAgentServices
    maibot: MaiBotHost
    tasks: TaskRunner
    manager: "Callable[[], PluginManager]"
    may_send_elsewhere: set[str]

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        configuration: Mapping[str, Any],
        data: Path,
        *,
        message_io: MessageIO,
        accept: Callable[[ChatMessage], Awaitable[None]],
        boxes: BoxServices,
        model: ChatModel,
        roles: BudgetedRoles,
        objects: ObjectStore | None = None,
        node: str = "",
        wall: Callable[[], float],
    ) -> AsyncIterator[Self]:
        """Load the plugins. The log and ``nekro plugin list`` name the plugins that cannot be
        loaded.

        ``configuration`` is the content of ``.env``. The operator can pass variables of it to MCP
        servers. ``accept`` is called with the messages that plugins receive from their platforms.
        ``objects`` is the object store of a cluster, and ``node`` the name of this process in the
        cluster. With them, all processes get the same plugins.
        """
        store, outbox = message_io.store, message_io.outbox
        enabled = settings.adapters.enabled(settings.nekro_platforms)
        async with AsyncExitStack() as stack:
            sharing = await _shared(store, objects, data, settings, node)
            vectors = EmbeddedVectorStore(data / "vectors")
            stack.push_async_callback(vectors.aclose)
            older = _older_host(settings, data, message_io, wall)
            await older.load()
            stack.enter_context(install_facades(on_first_import=partial(_offer_sql, stack)))
            stack.enter_context(use_host(older))
            tasks = TaskRunner(RunningTaskRecords(store.waiting, wall=wall))
            may_send_elsewhere = {*settings.nekro_plugin.may_send_elsewhere}
            services, models = await stack.enter_async_context(
                _open_services(
                    settings,
                    data,
                    tasks=tasks,
                    may_send_elsewhere=may_send_elsewhere,
                    message_io=message_io,
                    boxes=boxes,
                    model=model,
                    roles=roles,
                    vectors=vectors,
                    older=older,
                    wall=wall,
                )
            )
            maibot = await stack.enter_async_context(
                MaiBotHost.open(
                    BotView(
                        services=services,
                        store=store,
                        wall=wall,
                        agent=settings.nekro_agent,
                    ),
                    GatewayPorts(
                        adapters=message_io.adapters,
                        own_adapters=[each.name for each in enabled],
                        inbound=accept,
                        on_online=outbox.retry_now,
                        received_media=message_io.media,
                    ),
                    tool_s=settings.nekro_plugin.tool_s,
                    strict_host_range=settings.nekro_plugin.strict_host_range,
                    is_operator=partial(_is_operator, store, settings),
                    hook_sends=outbox.add_hook,
                )
            )
            commands = CommandRegistry(settings.nekro_plugin.order)
            pages, webhooks = PluginPages(), Webhooks(partial(kept_secret, data, "webhooks"))
            plugins = await stack.enter_async_context(
                PluginRegistry.open(
                    services,
                    settings.nekro_plugin,
                    kinds=[maibot],
                    registrars={
                        Command: commands.put,
                        CommandFamily: commands.add_family,
                        SpokenCommand: commands.list_only,
                        PluginRouter: pages.put,
                        Webhook: webhooks.put,
                    },
                    legacy=LegacySupport(
                        make_context=LegacyAgentCtx,
                        message_form=legacy_form,
                        message_changes=legacy_changes,
                        keeps_silent=older.keeps_silent,
                        persona=older.persona,
                        box_extras=box_extras,
                        tools=box_tools(),
                    ),
                )
            )
            older.plugins = plugins
            maibot.attach(plugins)
            mcp = await stack.enter_async_context(
                McpServers.open(data, plugins.offer, settings.nekro_mcp, _variables(configuration))
            )
            manager = cache(partial(_manager, plugins, settings, data))
            if sharing is not None:
                followers = await stack.enter_async_context(background_tasks())
                followers.start_soon(
                    sharing.live, manager(), plugins, name="plugins of all processes"
                )
            yield cls(
                models=models,
                mcp=mcp,
                plugins=plugins,
                commands=commands,
                pages=pages,
                webhooks=webhooks,
                vectors=vectors,
                older=older,
                maibot=maibot,
                tasks=tasks,
                manager=manager,
                may_send_elsewhere=may_send_elsewhere,
            )

    def follow_settings(self, settings: Settings) -> None:
        """After a change of the settings, make again what plugins see of the settings."""
        self.may_send_elsewhere.clear()
        self.may_send_elsewhere.update(settings.nekro_plugin.may_send_elsewhere)


def _offer_sql(stack: AsyncExitStack) -> None:
    """Offer plugins for nekro-agent the connection of Tortoise, until ``stack`` is closed."""
    # This import loads Tortoise, which takes 0.15 s and 8 MiB. Few bots have such plugins.
    from nekro_core.compat.nekro_agent.sql import offer_connection  # noqa: PLC0415

    end = offer_connection()
    if end is not None:
        stack.push_async_callback(end)


@asynccontextmanager
async def _open_services(
    settings: Settings,
    data: Path,
    *,
    tasks: TaskRunner,
    message_io: MessageIO,
    boxes: BoxServices,
    model: ChatModel,
    roles: BudgetedRoles,
    vectors: EmbeddedVectorStore,
    older: NekroAgentServices,
    may_send_elsewhere: set[str],
    wall: Callable[[], float],
) -> AsyncIterator[tuple[Services, PluginModelViews]]:
    store, bounds = message_io.store, settings.nekro_plugin
    async with AsyncExitStack() as stack:
        speaker = speaker_of(settings.nekro_roles, settings.nekro_models, settings.nekro_speech)
        stack.push_async_callback(speaker.aclose)
        models = PluginModels(
            model,
            settings.nekro_llm,
            settings.nekro_models,
            UsageLedger(store.model_uses, wall),
            make=lambda endpoint: ObservedModel(HttpChatModel(endpoint), message_io.telemetry),
            roles=roles,
        )
        stack.push_async_callback(models.aclose)
        packages = bounds.shelf(data)
        stack.enter_context(packages.on_path())
        groups = ModelGroups.of(
            settings.nekro_llm, settings.nekro_models, embedded=model.profile.name
        )
        services = Services(
            outgoing=message_io.outbox,
            journal=message_io.journal,
            media=PluginMediaKeeper(message_io.media, boxes.network),
            bring_media=message_io.media.bring,
            plugin_data=store.plugin_data,
            speaker=speaker,
            data_dir=data,
            adapter_of=store.accounts.adapter_of,
            chat_name=store.chats.name,
            may_send_elsewhere=may_send_elsewhere,
            shared_bytes=bounds.shared_bytes,
            editor=message_io.outbox,
            pictures=message_io.converter,
            boxes=boxes.for_plugins,
            pool_of=boxes.of_chats.pool,
            model=models.own,
            fetcher=PluginFetcher(message_io.fetcher, boxes.network),
            packages=packages,
            extensions={
                NekroAgentHost: older,
                ModelGroups: groups,
            },
            timers=message_io.timers,
            memory=message_io.memory,
            models=models,
            vectors=vectors,
            tasks=tasks,
            uses=PluginUses(clock=time.monotonic, wall=wall),
            search=message_io.search.finder,
        )
        yield services, PluginModelViews(endpoints=models, groups=groups, host=older)


async def _shared(
    store: Store, objects: ObjectStore | None, data: Path, settings: Settings, node: str
) -> "PluginSharing | None":
    """Open the sharing of plugins if this process belongs to a cluster."""
    if objects is None:
        return None
    # Only a cluster needs this import. It loads everything that installs plugins.
    from nekro_core.app.shared_plugins import PluginSharing  # noqa: PLC0415

    return await PluginSharing.open(store, objects, data, settings.nekro_plugin, node)


def _manager(plugins: PluginRegistry, settings: Settings, data: Path) -> "PluginManager":
    # These imports take 40 ms, also because of the package `packaging`. Only an operator who looks
    # at plugins needs them.
    from nekro_core.compat.maibot.plugin.preflight import manifest_problems  # noqa: PLC0415
    from nekro_core.plugins.installation.manager import PluginManager  # noqa: PLC0415

    shelf, bounds = plugins.services.packages, settings.nekro_plugin
    return PluginManager(
        plugins,
        data,
        shelf if shelf is not None else bounds.shelf(data),
        bounds,
        preflight=partial(manifest_problems, strict_host_range=bounds.strict_host_range),
    )


def _older_host(
    settings: Settings, data: Path, message_io: MessageIO, wall: Callable[[], float]
) -> NekroAgentServices:
    return NekroAgentServices(
        store=message_io.store,
        llm=settings.nekro_llm,
        agent=settings.nekro_agent,
        trigger=settings.nekro_trigger,
        command=settings.commands,
        adapters=message_io.adapters,
        data_dir=data,
        wall=wall,
        run_seconds=settings.nekro_sandbox.limits.seconds,
    )


def _variables(configuration: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of ``.env`` and of the environment, with upper-case names."""
    written = {name.upper(): text for name, text in configuration.items() if isinstance(text, str)}
    return {**written, **os.environ}


def _is_operator(store: Store, settings: Settings, chat: ChatKey, user_id: str) -> bool:
    adapter, instance = store.accounts.adapter_of(chat.instance), chat.instance
    known = permission_of(settings.commands, adapter=adapter, instance=instance, user_id=user_id)
    return known.allows(CommandPermission.SUPER_USER)
