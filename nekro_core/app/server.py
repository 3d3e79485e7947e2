"""Runs the process: sets up NoneBot, opens the `App` and runs the web server.

Some things can exist only once in a process: `nonebot.init`, signals, the garbage collector. Only
this module uses them, so a test can build all other objects several times in one process. See
docs/decisions/0001.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
import nonebot
import uvicorn
from fastapi import FastAPI
from loguru import logger
from nonebot.drivers import ASGIMixin, Driver

from nekro_core.api.adapter import Page
from nekro_core.app.adapters import AdapterMaker, adapter_makers
from nekro_core.app.app import App, Report
from nekro_core.app.documents import settle_before_start
from nekro_core.app.http_limits import LimitedHttpProtocol
from nekro_core.app.instance import InstanceInfo, PortTaken, bind_listener, instance_file
from nekro_core.app.logs import (
    RedactingStream,
    account_secrets,
    configure_logging,
    stored_secrets,
)
from nekro_core.app.platform_control import read_enabled
from nekro_core.app.process_role import WHOLE, ProcessPart, ProcessRole
from nekro_core.app.progress import ProgressLine
from nekro_core.app.restart import RESTART_SIGNAL, Restarter, StartedCommand
from nekro_core.app.settings import Settings, adapter_settings
from nekro_core.app.settings_sources import SettingsError
from nekro_core.backup.errors import BackupError
from nekro_core.backup.prepared import prepared_restore
from nekro_core.chat.catalogue import Catalogue
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.objects import ObjectStore
from nekro_core.delivery.media.links import MOUNTED
from nekro_core.plugins.host.isolation.log_names import name_plugins_in_log
from nekro_core.sandbox.preview import PreviewRegistry
from nekro_core.sandbox.preview.front import PreviewFront
from nekro_core.store import DataFolderLock, StoreError, StoreUnavailable
from nekro_core.system.documents import DocumentError
from nekro_core.system.errors import NekroError
from nekro_core.system.httpcore_loop import httpcore_knows_asyncio

DRIVER = "~fastapi+~httpx+~websockets"
GRACEFUL_SHUTDOWN_S = 1
"""Maximum number of seconds that open requests may take after SIGTERM. The bot itself ends within
3 s."""

END_S = 2.5
"""Seconds after SIGTERM at which all tasks that have not ended are cancelled."""

SWITCH_S = 0.0005
"""Python's switch interval in seconds: the time for which another thread may hold the interpreter
while the event loop needs it. With Python's default of 5 ms, each step in the handling of a message
waits that long while another thread computes or imports: four steps took 57 ms at the median. With
this value, they take 6 ms."""

Announce = Callable[[InstanceInfo, Sequence[str]], None]
"""A function that is called when the web server answers. It gets the bot's address and the one-time
login links: one for the bot's own site, and one for each adapter that has its own login."""


class StartFailed(NekroError):
    """The web server did not start."""


class ProcessKind(Protocol):
    """What a command starts: the whole bot, a gateway or a worker."""

    @property
    def wrong_settings_status(self) -> int:
        """The exit status if the settings are wrong."""

    @property
    def own_accounts(self) -> bool:
        """See `ProcessRole.own_accounts`."""

    def settings(self) -> Settings:
        """Read the settings. Raises `SettingsError`."""

    def open(self, settings: Settings) -> AbstractAsyncContextManager[ProcessPart]:
        """Open what the process needs besides the bot itself."""

    def shared_objects(self, settings: Settings) -> AbstractAsyncContextManager[ObjectStore | None]:
        """Connect to the object store of the cluster until the block ends, for a restore before the
        start. Yields None if the process has the bot for itself."""


class WholeBot:
    """Implements `ProcessKind` and `ProcessPart` for a process that does everything."""

    wrong_settings_status = 1
    own_accounts = False
    role: ProcessRole = WHOLE
    connects = True
    end_s = END_S

    def settings(self) -> Settings:
        """See `ProcessKind.settings`."""
        return Settings.load()

    def shared_objects(
        self,
        settings: Settings,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[ObjectStore | None]:
        """See `ProcessKind.shared_objects`."""
        return nullcontext(None)

    @asynccontextmanager
    async def open(self, settings: Settings) -> AsyncIterator[ProcessPart]:  # noqa: ARG002
        """See `ProcessKind.open`."""
        yield self

    @asynccontextmanager
    async def work(self, app: App) -> AsyncIterator[None]:
        """See `ProcessPart.work`."""
        await app.start()
        yield

    def install(self, app: App, server: FastAPI) -> None:
        """See `ProcessPart.install`."""
        app.site.install(server, app.operator, app.late_operations)


def run(kind: ProcessKind | None = None) -> int:
    """Run the bot in this process, with the settings in the current folder. ``kind`` is the kind of
    process in a cluster; by default, the process does everything. Return the exit status."""
    kind = kind or WholeBot()
    line = ProgressLine(sys.stderr)
    # The bot's files contain people's messages, so other users of the machine may not read them.
    os.umask(0o077)

    command = StartedCommand.of_this_process()

    def announce(place: InstanceInfo, links: Sequence[str]) -> None:
        line.share()  # a download of the model may go on while other code prints
        _announce(place, links)

    async def main() -> tuple[ShutdownSignals, Path]:
        settings = kind.settings()
        with _ended_by_signals() as ending:
            _look_ahead(settings)
            if await _restore_first(settings, kind):
                settings = kind.settings()  # The restored folder has its own settings.
            if await settle_before_start(settings, own_accounts=kind.own_accounts):
                settings = kind.settings()
            async with kind.open(settings) as part:
                await serve(settings, ending, part, report=line.report, announce=announce)
        return ending, settings.nekro_data_dir.absolute()

    try:
        with short_switch_interval(), httpcore_knows_asyncio():
            ended, data = anyio.run(main, backend_options={"use_uvloop": True})
        if ended.starts_again:
            command.start_again(data)
        return ended.status  # noqa: TRY300 - `start_again` can fail too
    except (
        SettingsError,
        PortTaken,
        StartFailed,
        StoreError,
        ClusterError,
        OSError,
    ) as error:
        line.end()
        sys.stderr.write(f"nekro-core cannot start: {error}{_remedy(error)}\n")
        return kind.wrong_settings_status if isinstance(error, SettingsError) else 1
    finally:
        gc.enable()  # after a failed start, it is still disabled


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Let the event loop get the interpreter sooner; see `SWITCH_S`."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _look_ahead(settings: Settings) -> None:
    """Check that no other bot uses the data folder or the port. This is done before a prepared
    restore, which takes long. Creates no file. Raises `DataFolderInUse`, `PortTaken`, `OSError`."""
    if settings.nekro_data_dir.is_dir():
        with DataFolderLock(settings.nekro_data_dir):
            pass
    bind_listener(str(settings.host), settings.port).close()


async def _restore_first(settings: Settings, kind: ProcessKind) -> bool:
    """Carry out the restore that an operator prepared, and return True if there was one. If the
    restore fails, the bot starts with the data that it has."""
    try:
        if prepared_restore(settings.nekro_data_dir) is None:
            return False
        from nekro_core.app.restore import carry_out_prepared  # noqa: PLC0415 - seldom needed

        report = await carry_out_prepared(settings, shared=kind.shared_objects(settings))
    except (BackupError, StoreError, OSError) as error:
        logger.error("the prepared restore failed, and the data is as it was: {}", error)
        return False
    if report is None:
        return False
    logger.success("{} was restored; what was there is in {}", report.folder, report.aside)
    for sentence in report.sentences:
        logger.warning("restore: {}", sentence)
    return True


def _remedy(error: Exception) -> str:
    """Return what the operator should check; empty if the text of the error says it."""
    if isinstance(error, DocumentError):
        return ""
    if isinstance(error, StoreUnavailable):
        return ". Does its server run, is NEKRO_DATABASE_URL right, is the disk full?"
    if isinstance(error, OSError):
        return ". Is NEKRO_DATA_DIR a folder that this user may write to, is the disk full?"
    return ""


def _announce(place: InstanceInfo, links: Sequence[str]) -> None:
    say = f"\nThe bot answers at {place.address}\n"
    for link in links:
        say += f"Open this once to log in:\n\n    {link}\n\n"
    sys.stderr.write(say)
    sys.stderr.flush()


class ShutdownSignals:
    """Handles SIGTERM and SIGINT: the first signal lets the bot shut down, and a second signal
    cancels the shutdown, so the bot ends at once. Also handles `RESTART_SIGNAL`."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self.status = 0
        self.starts_again = False
        """Whether the command must be started again when the bot has ended."""
        self._scope = scope
        self._end_s = END_S
        self._server: uvicorn.Server | None = None

    def watch(self, server: uvicorn.Server, end_s: float = END_S) -> None:
        """Let the first signal shut down this server, within ``end_s`` seconds. Before this call, a
        signal cancels the start."""
        self._server = server
        self._end_s = end_s

    def ask(self, number: signal.Signals) -> None:
        """Handle one signal."""
        logger.info("{}: the bot ends", number.name)
        self.starts_again = False
        self._end()
        # Shells expect this status after Ctrl-C. SIGTERM is the normal way to end a service.
        self.status = 128 + number if number is signal.SIGINT else 0

    def ask_restart(self) -> None:
        """Handle `RESTART_SIGNAL`. If the settings are wrong, the bot is not restarted."""
        try:
            self.restarter.restart()
        except SettingsError as error:
            logger.error("the bot is not restarted, because it could not start: {}", error)

    @property
    def restarter(self) -> Restarter:
        """The object that restarts the bot. A restart while the bot is already ending has no
        effect."""
        return Restarter(Path(), self._end_to_start_again)

    def _end_to_start_again(self) -> None:
        if self._server is not None and not self._server.should_exit:
            self.starts_again = True
            self._end()

    def _end(self) -> None:
        if self._server is None or self._server.should_exit:
            self._scope.cancel()
        else:
            self._server.should_exit = True
            self._scope.deadline = anyio.current_time() + self._end_s


@contextmanager
def _ended_by_signals() -> Iterator[ShutdownSignals]:
    """Handle SIGTERM, SIGINT and `RESTART_SIGNAL` while the bot runs. Uvicorn's handlers are not
    used: after its end, uvicorn would raise SIGTERM again, which would kill the process before the
    `App` is closed."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    with anyio.CancelScope() as scope:
        ending = ShutdownSignals(scope)
        for number in numbers:
            loop.add_signal_handler(number, ending.ask, number)
        loop.add_signal_handler(RESTART_SIGNAL, ending.ask_restart)
        try:
            yield ending
        finally:
            for number in (*numbers, RESTART_SIGNAL):
                loop.remove_signal_handler(number)


async def serve(
    settings: Settings,
    ending: ShutdownSignals,
    part: ProcessPart,
    *,
    report: Report,
    announce: Announce,
) -> None:
    """Run the bot, or a part of it, until a signal ends it.

    ``report`` is called with the progress of downloads, and ``announce`` with the bot's address
    when the web server answers. Raises `PortTaken`, `StartFailed` and the errors of `App.open`.
    """
    with bind_listener(str(settings.host), settings.port) as listener:
        # Switch the garbage collector off while the bot is built. The objects that are built now
        # exist until the process ends. Checking them for garbage would take a tenth of the start's
        # time, and later 0.1 s during a turn.
        gc.disable()
        named = settings.nekro_platforms
        switched_on = read_enabled(settings.nekro_data_dir) if part.connects else ()
        settings = settings.model_copy(
            update={"nekro_platforms": tuple(dict.fromkeys((*named, *switched_on)))}
        )
        port = listener.getsockname()[1]
        redactor, logs = configure_logging(
            settings.written(), settings.nekro_data_dir.absolute() / "logs", settings.nekro_log
        )
        redactor.add_secrets(settings.secrets())
        written = adapter_settings(settings)
        nonebot.init(**written, driver=DRIVER, host=settings.host, port=port)
        name_plugins_in_log()
        driver = nonebot.get_driver()
        if not isinstance(driver, ASGIMixin):
            raise TypeError(f"driver {driver.type} serves no web application; {DRIVER} does")
        failure: Exception | None = None
        # Unless the configuration gives a name, the web page shows the first of the bot's names.
        configuration = {"web_bot_name": settings.nekro_agent.names[0]} | driver.config.model_dump()
        configuration["nekro_platforms"] = settings.nekro_platforms
        preview = PreviewRegistry(settings.nekro_preview, port)
        makers: list[AdapterMaker] = []
        if part.connects:
            makers = adapter_makers(settings.adapters, configuration, settings.nekro_platforms)
        opened = App.open(
            settings,
            configuration,
            report=report,
            preview=preview,
            logs=logs,
            named_platforms=named,
            restart=ending.restarter.restart,
            role=part.role,
        )
        async with opened as app:
            # Keep an error and raise it after this block. Inside the block, a task group would wrap
            # it in an exception group.
            try:
                driver.server_app.mount(MOUNTED, app.linked_media)
                app.host.account_files.listen(
                    lambda stored: redactor.add_secrets(account_secrets(stored))
                )
                options = add_adapters(app, driver, makers)
                part.install(app, driver.server_app)
                app.platforms.attach(app, driver, configuration)
                redactor.add_secrets(stored_secrets(settings.nekro_data_dir))
                app.settings.listen(partial(_hide_secrets, redactor, settings))
                config = uvicorn.Config(
                    PreviewFront(driver.asgi, preview, Catalogue.load().say),
                    log_config=None,
                    access_log=False,
                    http=LimitedHttpProtocol,
                    **settings.nekro_web.options(),
                    **{"timeout_graceful_shutdown": GRACEFUL_SHUTDOWN_S, **options},
                )
                server = _Server(config, partial(_let_in, settings, app, part, port, announce))
                ending.watch(server, part.end_s)
                await server.serve([listener])
            except SystemExit:
                # Uvicorn raises this if a hook of NoneBot or of a plugin failed.
                failure = StartFailed("the web server did not start; the log above says why.")
            except Exception as error:  # noqa: BLE001 (raised again below)
                failure = error
        if failure is not None:
            raise failure


def add_adapters(app: App, driver: Driver, makers: Iterable[AdapterMaker]) -> dict[str, Any]:
    """Make every adapter and add it to ``app``. If one cannot be made, this is logged and the bot
    runs without it.

    Returns the options that the adapters need for the web server.
    """
    options: dict[str, Any] = {}
    for maker in makers:
        try:
            adapter = maker.create(app.host, driver, app.operator)
            app.add_adapter(adapter, builtin=maker.builtin)
        except (RuntimeError, ValueError) as error:
            logger.error("the adapter {} is left out: {}", maker.name, error)
            app.platforms.failed(maker.name, str(error))
        except Exception as error:  # noqa: BLE001 - as above
            logger.exception("the adapter {} is left out", maker.name)
            app.platforms.failed(maker.name, repr(error))
        else:
            options |= maker.options
    return options


async def _hide_secrets(redactor: RedactingStream, settings: Settings) -> None:
    redactor.add_secrets(settings.secrets())


class _Server(uvicorn.Server):
    """uvicorn's server, which starts the adapters when it answers requests. At the shutdown, it
    closes the adapters before it waits for open requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        let_in: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        super().__init__(config)
        self._let_in = let_in
        self._stack = AsyncExitStack()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers: `ShutdownSignals` handles signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            try:
                await self._stack.enter_async_context(self._let_in())
            except BaseException:
                await self.shutdown(sockets)
                raise
            gc.freeze()
            gc.enable()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._stack.aclose()
        await super().shutdown(sockets)


@asynccontextmanager
async def _let_in(
    settings: Settings, app: App, part: ProcessPart, port: int, announce: Announce
) -> AsyncIterator[None]:
    """Begin the work of the process, and announce its address. When the block ends, the work ends
    and the adapters are closed."""
    failure: Exception | None = None
    try:
        async with part.work(app):
            # An error of the block is raised outside of the work's task groups, so that they do not
            # wrap it.
            try:
                token = app.site.access_token
                host = str(settings.host)
                with instance_file(settings.nekro_data_dir, host, port, token) as place:
                    if part.connects:
                        others = [one for one in app.adapters.values() if isinstance(one, Page)]
                        pages = (app.site, *others)
                        announce(place, [each.login_link(place.address) for each in pages])
                    yield
            except Exception as error:  # noqa: BLE001 (raised again below)
                failure = error
    finally:
        await app.close_adapters()
    if failure is not None:
        raise failure
