"""Builds the bot: makes the objects of all rooms in order, and ends them in reverse order.

The order is: message input and output, boxes, plugins with all services that they use, and the
sessions, which answer. Only this room builds these objects. NoneBot and the web server are in
`nekro_core.app.server`, so a test can open several `App` objects in one process, each in a
temporary folder.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio
from loguru import logger

from nekro_core.app.adapter_host import AdapterHost
from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.boxes import BoxServices
from nekro_core.app.extensions import Extensions
from nekro_core.app.message_io import MessageIO
from nekro_core.app.operator_areas import open_operator
from nekro_core.app.operator_host import operator_host
from nekro_core.app.operator_settings import RunningSettingsBook
from nekro_core.app.running_settings import RunningSettings
from nekro_core.app.settings import Settings
from nekro_core.app.settings_editor import SettingsEditor
from nekro_core.chat import ChatKey
from nekro_core.delivery.accounts import AccountDirectory
from nekro_core.delivery.adapter import Adapter
from nekro_core.llm.embedded import DownloadProgress, EmbeddedModel
from nekro_core.llm.model import ChatModel
from nekro_core.llm.openai_model import OpenAIChatModel
from nekro_core.llm.switchable_model import SwitchableModel
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.operator import Operator
from nekro_core.plugins.host.file_moves import recover_interrupted_move
from nekro_core.plugins.host.isolation.blocked_loop import watch_event_loop
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.sandbox.preview import PreviewRegistry
from nekro_core.store import DataFolderLock
from nekro_core.system.asgi import WebApplication
from nekro_core.system.background_tasks import background_tasks
from nekro_core.timers import TimerService

_BOXES_S = 1.0
"""Maximum wait of the start, in seconds, for the first box. Usually the check of the box backend
has ended by the time all else is ready. Without this wait, the first run of code would wait for the
check."""

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
        operations: Operator,
        linked_media: WebApplication,
        runtime: AgentRuntime,
        plugins: PluginRegistry,
        adapters: dict[str, Adapter],
        timers: TimerService,
        boxes: BoxServices,
        settings: RunningSettings,
    ) -> None:
        self.host = host
        self.operator = operator
        self.operations = operations
        """Everything that an operator may see and do."""
        self.linked_media = linked_media
        """The application that serves the links of `MediaLinks`. It must be mounted at
        `MOUNTED`."""
        self.plugins = plugins
        self.settings = settings
        """The settings in force, which follow the files."""
        self._runtime = runtime
        self._adapters = adapters
        self._timers = timers
        self._boxes = boxes
        self._started: list[Adapter] = []
        self._builtin: set[str] = set()

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
        restart: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> AsyncIterator[Self]:
        """Build the objects of all rooms. Adapters read their settings from ``configuration``.

        ``model`` replaces the model that the settings name. ``report`` is called with the progress
        of downloads. ``preview`` shows the servers that run in boxes; without it, they cannot be
        shown. ``restart`` begins a restart of the bot; without it, operators cannot restart it.
        Raises `DataFolderInUse`, `StoreError` and `SettingsError`. Then all objects that were built
        are closed.
        """
        data = settings.nekro_data_dir.absolute()
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with AsyncExitStack() as stack:
            stack.enter_context(DataFolderLock(data))
            recover_interrupted_move(data)
            message_io = await stack.enter_async_context(
                MessageIO.open(settings, data, configuration, clock=clock, wall=wall)
            )
            accounts = await stack.enter_async_context(AccountDirectory(message_io.store, data))
            host = AdapterHost(message_io, accounts, data_dir=data, settings=configuration)
            watched = settings.nekro_plugin
            stack.enter_context(watch_event_loop(watched.blocks_s, watched.breaks_s))
            boxes = await stack.enter_async_context(
                BoxServices.open(settings, data, preview=preview, clock=clock)
            )
            running = RunningSettings(settings)
            if model is None:
                model = own_model = SwitchableModel(_make_model(settings, data, report))
                stack.push_async_callback(own_model.aclose)
                running.listen(_ModelFollower(settings, own_model, data, report).follow)
            extensions = await stack.enter_async_context(
                Extensions.open(
                    settings,
                    configuration,
                    data,
                    message_io=message_io,
                    accept=host.accept,
                    boxes=boxes,
                    model=model,
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
                    model=model,
                    clock=clock,
                    wall=wall,
                )
            )
            host.admission = runtime.admission
            editor = SettingsEditor(settings.sources.folder) if settings.were_read else None
            book = RunningSettingsBook(running, editor, restart)
            operations = await stack.enter_async_context(
                open_operator(
                    settings, book=book, message_io=message_io, extensions=extensions, wall=wall
                )
            )

            async def refresh() -> None:
                message_io.timers.timezone = settings.nekro_agent.timezone
                extensions.follow_settings(settings, model)
                runtime.services.policies.refresh()

            running.listen(refresh)
            tasks = await stack.enter_async_context(background_tasks())
            tasks.start_soon(running.watch, name="a look at settings.toml")
            app = cls(
                host=host,
                operator=operator_host(message_io, extensions, runtime),
                operations=operations,
                linked_media=message_io.links,
                runtime=runtime,
                plugins=extensions.plugins,
                adapters=message_io.adapters,
                timers=message_io.timers,
                boxes=boxes,
                settings=running,
            )
            stack.push_async_callback(app.close_adapters)
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

        First, all that the first answer needs is prepared, because a platform delivers missed
        messages as soon as its adapter is connected.
        """
        await self._runtime.sessions.prepare()
        with anyio.move_on_after(_BOXES_S):
            await self._boxes.settled()
        await self._runtime.start()
        for adapter in [*self._adapters.values()]:  # a copy, because a plugin may add one meanwhile
            self._started.append(adapter)
            if adapter.name in self._builtin:
                await adapter.start()
            else:
                await _start(adapter)
        self._timers.start()

    async def close_adapters(self) -> None:
        """Close all adapters that were started. May be called twice."""
        while self._started:
            adapter = self._started.pop()
            try:
                await adapter.aclose()
            except Exception:  # noqa: BLE001 - other people's code; the other adapters must end
                logger.exception("the adapter {} failed while it was closed", adapter.name)

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """Return the adapters that were added, by name."""
        return self._adapters


async def _start(adapter: Adapter) -> None:
    """Start an adapter that did not come with the bot. A failure is logged, and the bot goes on."""
    try:
        with anyio.fail_after(_START_S):
            await adapter.start()
    except TimeoutError:
        logger.error("the adapter {} did not start within {:g} s", adapter.name, _START_S)
    except Exception:  # noqa: BLE001 - code of other people
        logger.exception("the adapter {} could not be started", adapter.name)


class _ModelFollower:
    """Replaces the model when its settings change."""

    def __init__(
        self, settings: Settings, model: SwitchableModel, data: Path, report: Report
    ) -> None:
        self._settings = settings
        self._model = model
        self._data = data
        self._report = report
        self._made_of = settings.nekro_llm.model_copy()

    async def follow(self) -> None:
        """Make the model again if the settings name another one, or other prices or limits."""
        if self._settings.nekro_llm != self._made_of:
            self._made_of = self._settings.nekro_llm.model_copy()
            await self._model.replace(_make_model(self._settings, self._data, self._report))


def _make_model(settings: Settings, data: Path, report: Report) -> ChatModel:
    """Make the model that the settings name. If they name none, make the embedded model."""
    if settings.nekro_llm.configured:
        # A copy, because a request that has begun keeps its settings.
        return OpenAIChatModel(settings.nekro_llm.model_copy())
    return EmbeddedModel(settings.nekro_embedded, data / "models", report=report)
