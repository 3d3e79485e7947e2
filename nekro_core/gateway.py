"""The process: NoneBot, the web server and the `App`, started in this order and ended in reverse.

Only this module touches what exists once a process (`nonebot.init`, signals, the listening
socket), so everything behind it can be built twice in a test. See docs/decisions/0001.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import nonebot
import uvicorn
from loguru import logger
from nonebot.drivers import ASGIMixin, Driver

from nekro_core.api.adapter import AdapterFactory, Page
from nekro_core.app import App, Report
from nekro_core.llm.embedded import WeightsError, ensure_weights
from nekro_core.logs import kept_secrets, open_log
from nekro_core.plugin.builtin import builtin_adapters, load_adapter
from nekro_core.progress import ProgressLine
from nekro_core.settings import Settings, SettingsError, adapter_settings, written_settings
from nekro_core.store import StoreError

DRIVER = "~fastapi+~httpx+~websockets"
GRACEFUL_SHUTDOWN_S = 1
"""After SIGTERM, how long open requests may take to end; the whole bot ends in 3 s."""
NOTE = "running.json"
"""Under the data folder, while a bot runs: where it answers."""


class Place(msgspec.Struct, frozen=True):
    """Where a running bot answers, and the token of its HTTP API."""

    pid: int
    port: int
    address: str
    token: str


Announce = Callable[[Place, str], None]
"""Told once the bot answers: where, and the one-time link of its page (empty without a page)."""


class StartFailed(Exception):
    """The web server did not come up."""


class PortTaken(Exception):
    """The address cannot be bound; says who might hold it and what to set instead."""


def listen(host: str, port: int) -> socket.socket:
    """The bound socket, before anything else is made, so that a taken port costs nothing.

    Port 0 takes a free one. Raises `PortTaken`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"cannot listen on {host} port {port}: {error.strerror}. "
            "Another program holds it, or the address is not this machine's: "
            "set PORT (or HOST) in .env"
        ) from None
    return listener


async def serve(settings: Settings, *, report: Report, announce: Announce) -> None:
    """Run the bot until SIGTERM or SIGINT.

    ``report`` is told of downloads, ``announce`` where the bot can be reached once it answers.
    Raises `PortTaken`, `StartFailed` and what `App.open` raises.
    """
    with listen(str(settings.host), settings.port) as listener:
        port = listener.getsockname()[1]
        redactor = open_log(written_settings())
        nonebot.init(**adapter_settings(), driver=DRIVER, host=settings.host, port=port)
        driver = nonebot.get_driver()
        if not isinstance(driver, ASGIMixin):
            raise TypeError(f"driver {driver.type} serves no web application; {DRIVER} does")
        async with App.open(settings, driver.config.model_dump(), report=report) as app:
            options = add_adapters(app, driver)
            redactor.hide(kept_secrets(settings.nekro_data_dir))
            config = uvicorn.Config(
                driver.asgi,
                log_config=None,
                access_log=False,
                **{"timeout_graceful_shutdown": GRACEFUL_SHUTDOWN_S, **options},
            )
            server = _Server(config, app, partial(_let_in, settings, app, port, announce))
            await server.serve([listener])
            if not server.was_ready:
                raise StartFailed("the web server did not start; the log above says why")


def add_adapters(app: App, driver: Driver) -> dict[str, Any]:
    """Make every built-in adapter; one that cannot be run safely is named in the log and left out.

    Returns what they ask of the web server.
    """
    options: dict[str, Any] = {}
    for name in builtin_adapters():
        module = load_adapter(name)
        create: AdapterFactory = module.create
        try:
            app.add_adapter(create(app.host, driver))
        except (RuntimeError, ValueError) as error:
            logger.error("the adapter {} is left out: {}", name, error)
            continue
        options |= getattr(module, "SERVER_OPTIONS", {})
    return options


def where_it_runs(data_dir: Path) -> Place | None:
    """Where the bot of this data folder answers, if one runs: its own note, kept while it does."""
    try:
        return msgspec.json.decode((data_dir / NOTE).read_bytes(), type=Place)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


class _Server(uvicorn.Server):
    """Lets the platforms in once it answers, and ends their streams before it waits for them."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: App,
        let_in: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        super().__init__(config)
        self.was_ready = False
        self._app = app
        self._let_in = let_in
        self._stack = AsyncExitStack()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            try:
                await self._stack.enter_async_context(self._let_in())
            except BaseException:
                await self.shutdown(sockets)
                raise
            self.was_ready = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._stack.aclose()
        await super().shutdown(sockets)


@asynccontextmanager
async def _let_in(
    settings: Settings, app: App, port: int, announce: Announce
) -> AsyncIterator[None]:
    """Start the adapters and say where the bot is; leaving ends them."""
    try:
        await app.start()
        page = next((one for one in app.adapters.values() if isinstance(one, Page)), None)
        with _note(settings, page, port) as place:
            announce(place, page.login_link(place.address) if page else "")
            yield
    finally:
        await app.close_adapters()


@contextmanager
def _note(settings: Settings, page: Page | None, port: int) -> Iterator[Place]:
    """Write down where the bot answers, for `nekro chat` and for scripts; gone when it ends."""
    place = Place(
        pid=os.getpid(),
        port=port,
        address=_address(str(settings.host), port),
        token=page.access_token if page else "",
    )
    path = settings.nekro_data_dir / NOTE
    fresh = path.with_suffix(".new")
    # The token is in it: nobody else may read it, not even for a moment.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(place))
    fresh.replace(path)
    try:
        yield place
    finally:
        path.unlink(missing_ok=True)


def _address(host: str, port: int) -> str:
    # One that listens everywhere is reached from here through loopback.
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run() -> int:
    """Run the bot as this process with the settings of this folder; returns an exit status."""
    line = ProgressLine(sys.stderr)

    async def main() -> None:
        settings = Settings.load()
        if not settings.nekro_llm.configured:
            await ensure_weights(
                settings.nekro_embedded, settings.nekro_data_dir / "models", line.report
            )
            line.end()
        await serve(settings, report=line.report, announce=_announce)

    try:
        anyio.run(main)
    except (SettingsError, PortTaken, StartFailed, StoreError, WeightsError) as error:
        line.end()
        sys.stderr.write(f"nekro-core cannot start. {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _announce(place: Place, link: str) -> None:
    say = f"\nThe bot answers at {place.address}\n"
    if link:
        say += f"Open this once to log in:\n\n    {link}\n\n"
    sys.stderr.write(say)
    sys.stderr.flush()
