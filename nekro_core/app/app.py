"""Builds the bot: makes the objects of all rooms in order, and ends them in reverse order.

The order is: message input and output, boxes, plugins with all services that they use, and the
sessions, which answer. Only this room builds these objects. A process can have only one NoneBot, so
NoneBot and the web server are in `nekro_core.app.server` and not here. A test can therefore open
several `App` objects in one process, each with a temporary data folder.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.agent.turn.tool_service import AgentToolService
from nekro_core.app.adapter_host import AdapterHost
from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.alerts import alert_findings, open_alerts
from nekro_core.app.boxes import BoxServices
from nekro_core.app.documents import open_documents
from nekro_core.app.extensions import Extensions
from nekro_core.app.memory import QuickModel
from nekro_core.app.message_io import MessageIO
from nekro_core.app.models import ModelSources
from nekro_core.app.monitoring import MonitoredBot, Monitoring
from nekro_core.app.object_files import object_files_of
from nekro_core.app.operator_host import operator_host
from nekro_core.app.operator_parts import OperatorParts, open_operator
from nekro_core.app.operator_settings import RunningSettingsBook
from nekro_core.app.platform_control import PlatformControl
from nekro_core.app.process_role import WHOLE, ProcessRole
from nekro_core.app.restored_people import finish_at_start
from nekro_core.app.running_settings import RunningSettings
from nekro_core.app.settings import Settings, adapter_settings
from nekro_core.app.settings_editor import SettingsEditor
from nekro_core.app.settings_sources import SettingsError
from nekro_core.app.shared_files import BoxSharing
from nekro_core.app.tracing import open_tracing
from nekro_core.backup.make import BackupSource, env_files
from nekro_core.backup.service import BackupService
from nekro_core.chat import ChatKey
from nekro_core.console.web_site import ConsoleSite, WebSettingWrong
from nekro_core.delivery.accounts import AccountDirectory
from nekro_core.delivery.adapter import Adapter
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.current import CurrentModel
from nekro_core.llm.embedded.model import EmbeddedModel
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import DownloadProgress
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import ChatModel
from nekro_core.llm.named import NamedModels
from nekro_core.llm.observed_model import ObservedModel
from nekro_core.llm.replaceable import ReplaceableModel
from nekro_core.llm.role_budget import BudgetedRoles, RoleBudget
from nekro_core.llm.roles import ModelRole
from nekro_core.llm.settings import LLMSettings
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.operator.alerts.crashes import CrashCount
from nekro_core.operator.alerts.reports import AlertReports
from nekro_core.operator.alerts.watch import AlertWatch
from nekro_core.operator.chat_commands import ChatCommandActions
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.late_operator import LateOperator
from nekro_core.operator.live_tools import LiveTools
from nekro_core.operator.live_turns import LiveTurns
from nekro_core.plugins.host.file_moves import recover_interrupted_move
from nekro_core.plugins.host.isolation.blocked_loop import watch_event_loop
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.tasks.runner import TaskRunner
from nekro_core.policy.ban_list import BanList
from nekro_core.sandbox.preview import PreviewRegistry
from nekro_core.store import DataFolderLock
from nekro_core.store.ownership import ChatScope
from nekro_core.system.asgi import WebApplication
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.logs.book import LogBook
from nekro_core.system.logs.ring import LogRing
from nekro_core.system.telemetry.loop_lag import measure_loop_lag
from nekro_core.system.telemetry.telemetry import Telemetry
from nekro_core.timers import TimerService

if TYPE_CHECKING:
    from nekro_core.operator.operator import Operator

_BOXES_S = 1.0
"""The start of the bot waits at most this many seconds for the first box. Usually the check of the
box backend has ended before everything else is ready. If the bot did not wait for the check here,
the first run of code would wait for it."""

_START_S = 20.0
"""Time limit for starting an adapter, in seconds. The other adapters wait meanwhile, so an adapter
should only start its tasks and connect in them."""

Report = Callable[[DownloadProgress], None]


class App:
    """A running bot. `App.open` builds it without adapters. Then `add_adapter` adds them, and
    `start` starts them."""

    def __init__(
        self,
        *,
        host: AdapterHost,
        operator: OperatorHost,
        operations: LateOperator,
        site: ConsoleSite,
        tasks: TaskGroup,
        linked_media: WebApplication,
        runtime: AgentRuntime,
        plugins: PluginRegistry,
        adapters: dict[str, Adapter],
        timers: TimerService,
        memory: MemoryKeeper,
        boxes: BoxServices,
        data: Path,
        platforms: PlatformControl,
        settings: RunningSettings,
        alerts: AlertWatch,
        alert_reports: AlertReports | None,
        message_io: MessageIO,
        plugin_tasks: TaskRunner,
        turns: LiveTurns,
        tools: LiveTools,
    ) -> None:
        self.host = host
        self.platforms = platforms
        """Switches platforms on and off."""
        self.operator = operator
        self.late_operations = operations
        """Everything that an operator may see and do, made at its first use."""
        self.site = site
        """The web site, to which adapters add their pages. `ConsoleSite.install` adds it to the web
        server."""
        self.linked_media = linked_media
        """The application that serves the links of `MediaLinks`. It must be mounted at
        `MOUNTED`."""
        self.plugins = plugins
        self.memory = memory
        """What the bot remembers of chats."""
        self._tasks = tasks
        self._data = data
        self.settings = settings
        """The settings in force. They are updated when the files change."""
        self._runtime = runtime
        self._adapters = adapters
        self._timers = timers
        self.message_io = message_io
        """The store, the inbox, the outbox and their companions."""
        self.plugin_tasks = plugin_tasks
        """Runs the background tasks of plugins."""
        self.turns = turns
        """Knows in which chats turns run."""
        self.tools = tools
        """Calls tools for other programs."""
        self.account_problems: dict[str, str] = {}
        """For each account of this process that cannot be used: the adapter and the account as a
        text for people, and the reason. A gateway adds an account that another gateway uses."""
        self.served_accounts: set[str] = set()
        """The instances of the accounts through which a gateway lets workers send."""
        self._boxes = boxes
        self.alerts = alerts
        self._alert_reports = alert_reports
        """Tells operators what is wrong."""
        self._started: list[Adapter] = []
        self._builtin: set[str] = set()
        self._failed: dict[str, str] = {}
        self.running = False
        """Whether the start of the bot has ended and its end has not begun."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        configuration: Mapping[str, Any],
        *,
        model: ChatModel | None = None,
        report: Report = lambda _: None,
        preview: PreviewRegistry | None = None,
        logs: LogBook | None = None,
        named_platforms: Sequence[str] | None = None,
        restart: Callable[[], None] | None = None,
        role: ProcessRole = WHOLE,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> AsyncIterator[Self]:
        """Build the objects of all rooms. Adapters read their settings from ``configuration``.

        ``named_platforms`` are the platforms that the operator cannot switch off while the bot
        runs, because the environment or ``.env`` names them. By default, these are all platforms of
        the settings. ``model`` replaces the model that the settings name. ``report`` is called with
        the progress of downloads. ``preview`` makes the web servers that run in boxes reachable for
        people; without it, these servers cannot be reached. ``logs`` has the log lines of the
        process, which operators can read. ``restart`` begins a restart of the bot; without it,
        operators cannot restart the bot. ``role`` says what this process does of the bot's work.
        Raises `DataFolderInUse`, `StoreError` and `SettingsError`. If such an error is raised, all
        objects that were already built are closed first.
        """
        data = settings.nekro_data_dir.absolute()
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        logs = logs or LogBook(LogRing())
        async with AsyncExitStack() as stack:
            stack.enter_context(DataFolderLock(data))
            telemetry = Telemetry(
                tracer=await stack.enter_async_context(open_tracing(settings.nekro_traces))
            )
            recover_interrupted_move(data)
            message_io = await stack.enter_async_context(
                MessageIO.open(
                    settings,
                    data,
                    configuration,
                    clock=clock,
                    wall=wall,
                    telemetry=telemetry,
                    chats=role.chats,
                    objects=role.objects,
                )
            )
            crashes = await stack.enter_async_context(
                CrashCount.open(message_io.store.waiting, settings.nekro_alerts, wall, role.process)
            )
            documents = await stack.enter_async_context(
                open_documents(
                    settings.nekro_documents,
                    data,
                    message_io.store.documents,
                    own_accounts=role.own_accounts,
                )
            )
            accounts = await stack.enter_async_context(AccountDirectory(message_io.store, data))
            host = AdapterHost(
                message_io,
                accounts,
                data_dir=data,
                settings=configuration,
                documents=None if role.own_accounts else documents,
            )
            watched = settings.nekro_plugin
            stack.enter_context(watch_event_loop(watched.blocks_s, watched.breaks_s))
            boxes = await stack.enter_async_context(
                BoxServices.open(
                    settings,
                    data,
                    preview=preview,
                    clock=clock,
                    telemetry=telemetry,
                    runs_code=role.runs_code,
                    sharing=BoxSharing(message_io.store, role.objects),
                    bring=message_io.media.bring,
                )
            )
            make_model = partial(_make_model, data, report)
            own_model = ReplaceableModel(
                model or make_model(settings.nekro_llm, settings.nekro_embedded)
            )
            sources = ModelSources(
                own_model,
                NamedModels(settings.nekro_models),
                lambda: make_model(LLMSettings(), settings.nekro_embedded),
            )
            stack.push_async_callback(sources.aclose)
            chains = ModelChains(
                settings.nekro_roles,
                sources.find,
                clock=clock,
                observed=lambda model: ObservedModel(model, telemetry, clock),
            )
            roles = BudgetedRoles(
                chains, RoleBudget(settings.nekro_roles, message_io.store.model_uses, wall)
            )
            message_io.memory.use_model(QuickModel(roles))
            extensions = await stack.enter_async_context(
                Extensions.open(
                    settings,
                    configuration,
                    data,
                    message_io=message_io,
                    accept=host.accept,
                    boxes=boxes,
                    model=CurrentModel(lambda: chains.model(ModelRole.CHAT) or own_model),
                    roles=roles,
                    objects=role.objects,
                    node=role.process,
                    wall=wall,
                )
            )
            runtime = await stack.enter_async_context(
                AgentRuntime.open(
                    settings,
                    data,
                    message_io=message_io,
                    boxes=boxes,
                    extensions=extensions,
                    logs=logs,
                    documents=documents,
                    sources=sources,
                    chains=chains,
                    roles=roles,
                    make_model=make_model,
                    clock=clock,
                    wall=wall,
                )
            )
            host.admission = runtime.admission
            site = _make_site(message_io, data, configuration, wall)
            source = BackupSource(
                data=data,
                database_url=settings.database_url,
                settings=env_files(Path()),
                objects=object_files_of(message_io.store, role.objects, data),
            )
            backups = await stack.enter_async_context(
                BackupService.open(
                    source, settings.nekro_backup, wall=wall, keeps_schedule=role.leads
                )
            )
            named = settings.nekro_platforms if named_platforms is None else named_platforms
            running = RunningSettings(settings, named)
            platforms = PlatformControl(
                data, named, lambda *of: adapter_settings(running.wanted, *of)
            )
            editor = (
                SettingsEditor(settings.sources.folder, documents) if settings.were_read else None
            )
            alerts, reports = await open_alerts(
                settings,
                data,
                message_io=message_io,
                runtime=runtime,
                background=roles.budget,
                crashes=crashes,
                adapters=lambda: app.started_adapters(),  # noqa: PLW0108 - `app` is made below
                problems=lambda: app.adapter_problems(),  # noqa: PLW0108 - as above
                served=lambda: app.served_accounts,
                process="" if role.alone else role.process,
                leads=role.leads,
                wall=wall,
            )
            turns, tools = _live_parts(runtime)
            operations = await stack.enter_async_context(
                open_operator(
                    OperatorParts(
                        settings=settings,
                        data=data,
                        book=RunningSettingsBook(running, editor, restart),
                        message_io=message_io,
                        extensions=extensions,
                        runtime=runtime,
                        identity=site.identity,
                        backups=backups,
                        logs=logs,
                        platforms=platforms,
                        bans=BanList(runtime.services.policies.conduct),
                        boxes=boxes,
                        documents=documents,
                        turns=turns,
                        alerts=lambda: alert_findings(alerts, settings),
                        wall=wall,
                    )
                )
            )

            async def follow_settings() -> None:
                message_io.timers.timezone = settings.nekro_agent.timezone
                extensions.follow_settings(settings)
                chains.changed()
                runtime.services.policies.recompute()
                await runtime.models.replace(
                    settings.nekro_llm, settings.nekro_models, settings.nekro_embedded
                )

            running.listen(follow_settings)
            tasks = await stack.enter_async_context(background_tasks())
            tasks.start_soon(running.watch, name="a look at settings.toml")
            runtime.command_actions.now = ChatCommandActions(operations)
            app = cls(
                host=host,
                operator=operator_host(message_io, extensions, site=site, turns=turns, tools=tools),
                site=site,
                tasks=tasks,
                operations=operations,
                linked_media=message_io.links,
                runtime=runtime,
                plugins=extensions.plugins,
                adapters=message_io.adapters,
                timers=message_io.timers,
                memory=message_io.memory,
                boxes=boxes,
                data=data,
                platforms=platforms,
                settings=running,
                alerts=alerts,
                alert_reports=reports,
                message_io=message_io,
                plugin_tasks=extensions.tasks,
                turns=turns,
                tools=tools,
            )
            stack.push_async_callback(app.close_adapters)
            site.monitor = Monitoring(
                MonitoredBot(
                    message_io=message_io,
                    boxes=boxes,
                    sessions=runtime.sessions,
                    sources=sources,
                    chains=chains,
                    adapters=app.started_adapters,
                    problems=app.adapter_problems,
                    started=lambda: app.running,
                    alerts=alerts.counts,
                ),
                settings.nekro_metrics,
                clock=clock,
                wall=wall,
            )
            yield app

    def at_work(self, chat_key: ChatKey) -> bool:
        """See `AgentRuntime.at_work`."""
        return self._runtime.at_work(chat_key)

    def add_adapter(self, adapter: Adapter, *, builtin: bool = False) -> None:
        """Add an adapter, which `start` will start. If a ``builtin`` adapter cannot start, the bot
        ends. If another adapter cannot start, this is logged and the bot runs without it."""
        self._adapters[adapter.name] = adapter
        if builtin:
            self._builtin.add(adapter.name)

    async def start(self) -> None:
        """Resume the work of an earlier process, and start the adapters.

        Before the adapters are started, everything that the first answer needs is prepared, because
        a platform delivers missed messages as soon as its adapter is connected.
        """
        await self.finish_restore()
        await self.prepare_answers()
        await self._runtime.start()
        await self.start_adapters()
        self._timers.start()
        self.start_watching()

    async def hand_over_boxes(self, chats: ChatScope) -> None:
        """Save and end the boxes of chats of which another process takes care from now on."""
        await self._boxes.of_chats.hand_over(chats)

    @property
    def boxes_running(self) -> int:
        """The number of boxes of chats that run in this process."""
        return self._boxes.of_chats.warm

    async def finish_restore(self) -> None:
        """Finish what a restored backup needs: erase people again who were erased after the backup
        was made."""
        runtime = self._runtime
        await finish_at_start(self._data, runtime.erasure, runtime.sessions, self.plugins)

    async def prepare_answers(self) -> None:
        """Prepare everything that the first answer needs: the model and a box."""
        await self._runtime.sessions.prepare()
        with anyio.move_on_after(_BOXES_S):
            await self._boxes.settled()

    async def start_adapters(self) -> None:
        """Start the adapters that were added."""
        for adapter in [*self._adapters.values()]:  # a copy: a plugin may add an adapter meanwhile
            self._started.append(adapter)
            if adapter.name in self._builtin:
                await adapter.start()
            elif problem := await _start(adapter):
                self._failed[adapter.name] = problem

    def start_watching(self, *, alerts: bool = True) -> None:
        """Start what watches over the running process: pages, ``alerts`` for operators, the lag of
        the event loop. From now on, the process is ready."""
        self.site.start(self._tasks)
        if alerts:
            self._tasks.start_soon(self.alerts.live, name="alerts for operators")
        if self._alert_reports is not None:
            self._tasks.start_soon(self._alert_reports.live, name="what this process has found")
        lag = self._runtime.services.telemetry.metrics.loop_lag
        self._tasks.start_soon(measure_loop_lag, lag, name="lag of the event loop")
        self.running = True

    def started_adapters(self) -> Mapping[str, Adapter]:
        """Return the adapters that were started and not closed, by name."""
        return {each.name: each for each in self._started}

    def adapter_problems(self) -> Mapping[str, str]:
        """Return why adapters that should run do not run, by their names."""
        return {**self._failed, **self.platforms.problems, **self.account_problems}

    async def launch(self, adapter: Adapter) -> None:
        """Add an adapter and start it while the bot runs. If the adapter cannot start, it is
        closed. Raises the error of the adapter, or `TimeoutError` after `_START_S`."""
        self._adapters[adapter.name] = adapter
        try:
            with anyio.fail_after(_START_S):
                await adapter.start()
        except BaseException:
            await _close(adapter)
            raise
        self._started.append(adapter)
        self._failed.pop(adapter.name, None)

    async def end(self, name: str) -> None:
        """Close an adapter while the bot runs. Messages to its chats wait until the adapter is
        started again."""
        adapter = self.started_adapters().get(name)
        self._failed.pop(name, None)
        if adapter is not None:
            self._started.remove(adapter)
            await _close(adapter)

    async def close_adapters(self) -> None:
        """Close all adapters that were started, and the pages. May be called twice."""
        self.running = False
        self.site.close()
        while self._started:
            await _close(self._started.pop())

    @property
    def operations(self) -> "Operator":
        """Everything that an operator may see and do. See `LateOperator.now`."""
        return self.late_operations.now

    @property
    def runtime(self) -> AgentRuntime:
        """The sessions of all chats, with the models that they use."""
        return self._runtime

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """Return the adapters that were added, by name."""
        return self._adapters


def _live_parts(runtime: AgentRuntime) -> tuple[LiveTurns, LiveTools]:
    """Return the objects through which the console and the HTTP API use running turns and tools."""
    services = runtime.services
    turns = LiveTurns(runtime.sessions, services.policies)
    return turns, LiveTools(AgentToolService(services))


async def _close(adapter: Adapter) -> None:
    try:
        await adapter.aclose()
    except Exception:  # noqa: BLE001 - other people's code; the other adapters must end
        logger.exception("the adapter {} failed while it was closed", adapter.name)


async def _start(adapter: Adapter) -> str:
    """Start an adapter that did not come with the bot. If the start fails, this is logged and the
    bot runs without the adapter. Returns why the start failed; empty if it did not fail."""
    try:
        with anyio.fail_after(_START_S):
            await adapter.start()
    except TimeoutError:
        logger.error("the adapter {} did not start within {:g} s", adapter.name, _START_S)
        return f"it did not start within {_START_S:g} s"
    except Exception as error:  # noqa: BLE001 - code of other people
        logger.exception("the adapter {} could not be started", adapter.name)
        return f"it could not be started: {error!r}"
    return ""


def _make_site(
    message_io: MessageIO,
    data: Path,
    configuration: Mapping[str, Any],
    wall: Callable[[], float],
) -> ConsoleSite:
    """Make the web site, which checks who makes each request. The bot does not start without this
    check, so a wrong setting of the site raises `SettingsError`."""
    try:
        return ConsoleSite.of(message_io.store, data, configuration, clock=wall)
    except (WebSettingWrong, RuntimeError) as error:
        raise SettingsError(str(error)) from None


def _make_model(
    data: Path, report: Report, llm: LLMSettings, embedded: EmbeddedSettings
) -> ChatModel:
    """Make the model that the settings ``llm`` name. If they name none, make the embedded model."""
    # Give the model copies of the settings, so that running requests keep their settings.
    if llm.configured:
        return HttpChatModel(llm.model_copy())
    return EmbeddedModel(embedded.model_copy(), data / "models", report=report)
