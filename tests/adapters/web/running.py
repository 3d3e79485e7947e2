"""Runs the web adapter on a real server. Either its API runs in this process, or its page and its
API run in another process."""

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import uvicorn
from fastapi import FastAPI

from adapters.web import WebAdapter, add_api
from adapters.web.settings import WebSettings
from nekro_core.app.web_server_settings import WebServerSettings
from nekro_core.console.web_site import ConsoleSite
from nekro_core.operator.actions import Area
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.late_operator import LateOperator
from nekro_core.operator.people import People
from nekro_core.store import Store
from nekro_core.store.audit import AuditRepository
from nekro_core.system.telemetry.readiness import BotMonitor
from tests.adapters.web.fake_host import FakeHost

SERVE = Path(__file__).with_name("serve.py")
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A TLS context without certificates. All connections are local and unencrypted, and loading the
system's certificates would take time."""
BEGINNING = 1_700_000_000.0


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = BEGINNING

    def __call__(self) -> float:
        return self.now


@dataclass
class Web:
    """The API running in this process, and the objects behind it."""

    host: FakeHost
    adapter: WebAdapter
    site: ConsoleSite
    audit: AuditRepository
    url: str
    client: httpx.AsyncClient
    clock: Clock

    async def say(
        self, text: str, *, room: str = "lobby", speaker: str = "lin", **more: Any
    ) -> Any:
        """Post a message, which must be accepted. Return the stored message."""
        answer = await self.post(room, {"speaker": speaker, "text": text, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, room: str, body: Any, **headers: str) -> httpx.Response:
        return await self.client.post(f"/api/v1/rooms/{room}/messages", json=body, headers=headers)

    def stranger(self, **headers: str) -> httpx.AsyncClient:
        """Make a client without the token."""
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60, verify=NO_TLS)


@asynccontextmanager
async def web(
    data: Path,
    *,
    root_path: str = "",
    outbox: Any = None,
    monitor: BotMonitor | None = None,
    **settings: Any,
) -> AsyncIterator[Web]:
    clock = Clock()
    app = FastAPI(openapi_url=None)
    app.root_path = root_path
    async with Store.open(f"sqlite://{data}/web.sqlite3", clock=clock) as store:
        site = ConsoleSite.of(store, data, settings, clock=clock)
        site.monitor = monitor
        host = FakeHost(data, outbox=outbox, site=site)
        adapter = add_api(
            host, host.operator, WebSettings.read(settings), anyio.Event(), clock=clock
        )
        operations: Any = SomeOperations(People(AuditLog(store.audit), site.identity))
        site.install(app, host.operator, LateOperator(lambda: operations))
        await adapter.start()
        async with serving(app) as url:
            headers = {"Authorization": f"Bearer {site.access_token}"}
            async with httpx.AsyncClient(
                base_url=url, headers=headers, timeout=60, verify=NO_TLS
            ) as client:
                yield Web(host, adapter, site, store.audit, url, client, clock)
                await adapter.aclose()


class SomeOperations:
    """The operations of some areas. The whole bot has all of them."""

    def __init__(self, *areas: Area) -> None:
        self._areas = areas

    def operation(self, full_name: str) -> Any:
        area_name, _, name = full_name.partition(".")
        for area in self._areas:
            if area.name == area_name and name in area.declared():
                return getattr(area, name)
        raise NoSuchItem(full_name)


class QuietServer(uvicorn.Server):
    """A server that leaves signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: FastAPI, *proxies: str) -> AsyncIterator[str]:
    """Serve the application on a free local port. ``proxies`` has the addresses of trusted
    proxies."""
    options = WebServerSettings(trusted_proxies=proxies).options()
    server = QuietServer(uvicorn.Config(app, port=0, log_level="error", lifespan="off", **options))

    async def serve() -> None:
        # The server is shielded from cancellation. If a failing test cancelled it, its socket would
        # stay open and the next test would fail too.
        with anyio.CancelScope(shield=True):
            await server.serve()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            while not server.started:
                await anyio.sleep(0.005)
            port = server.servers[0].sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True


@dataclass
class WholePage:
    """The page and the API in a separate process. `serve.py` runs them there, with the scripted
    bot."""

    process: asyncio.subprocess.Process
    url: str
    token: str
    link: str
    log: Path

    async def end(self, how: signal.Signals = signal.SIGTERM, within: float = 30) -> int:
        if self.process.returncode is None:
            self.process.send_signal(how)
        with anyio.fail_after(within):
            return await self.process.wait()


@asynccontextmanager
async def whole_page(data: Path, *settings: str) -> AsyncIterator[WholePage]:
    given = [part for setting in settings for part in ("--set", setting)]
    with (data / "serve.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SERVE),
            "--data",
            str(data),
            *given,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=data,
            env={key: value for key, value in os.environ.items() if "PYTEST" not in key},
        )
    assert process.stdout is not None
    page = None
    try:
        with anyio.fail_after(60):
            async for line in process.stdout:
                if line.startswith(b"{"):
                    page = WholePage(process, **json.loads(line), log=data / "serve.log")
                    break
        assert page is not None, (data / "serve.log").read_text()
        yield page
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until(true: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    with anyio.fail_after(30):
        while not true():
            await anyio.sleep(0.01)


class EventReader:
    """Reads server-sent events as a browser does."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self) -> tuple[str, str, Any]:
        """Wait for the next event that is not a heartbeat: id, name, data."""
        event_id = name = data = ""
        with anyio.fail_after(30):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "id":
                    event_id = value
                elif field == "event":
                    name = value
                elif field == "data":
                    data = value
                elif not line and name:
                    return event_id, name, json.loads(data)
        raise EOFError("the stream ended")
