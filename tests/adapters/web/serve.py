"""Runs the web adapter with the scripted bot in a separate process, because NiceGUI can be started
only once in a process.

``python tests/adapters/web/serve.py --data FOLDER [--port N] [--set NAME=VALUE]`` prints one line
of JSON (``url``, ``token``, ``link``) when it serves. It can also be used to try the page by hand.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import anyio
import nonebot
import uvicorn

from adapters.web import SERVER_OPTIONS, create_page
from nekro_core.console.web_site import ConsoleSite
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.late_operator import LateOperator
from nekro_core.operator.people import People
from nekro_core.store import Store
from tests.adapters.web.fake_host import FakeHost, ScriptedMind
from tests.adapters.web.running import SomeOperations


class Server(uvicorn.Server):
    """Ends the adapter's event streams before it shuts down, as the bot's own web server does."""

    adapter = None
    site = None
    tasks = None

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        await self.adapter.start()
        self.site.start(self.tasks)
        port = self.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        told = {
            "url": url,
            "token": self.site.access_token,
            "link": self.site.login_link(url),
        }
        print(json.dumps(told), flush=True)

    async def shutdown(self, sockets=None) -> None:
        self.site.close()
        await self.adapter.aclose()
        await super().shutdown(sockets)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in given.set)
    nonebot.init(driver="~fastapi", log_level="WARNING")
    driver = nonebot.get_driver()
    async with Store.open(f"sqlite://{given.data}/web.sqlite3") as store:
        site = ConsoleSite.of(store, given.data, settings, clock=time.time)
        host = FakeHost(given.data, settings, site=site)
        adapter = create_page(host, driver, host.operator)
        people = People(AuditLog(store.audit), site.identity)
        operations: Any = SomeOperations(people)
        site.install(driver.server_app, host.operator, LateOperator(lambda: operations))
        config = uvicorn.Config(
            driver.server_app, port=given.port, log_level="warning", **SERVER_OPTIONS
        )
        server = Server(config)
        server.adapter, server.site = adapter, site
        async with anyio.create_task_group() as tasks:
            ScriptedMind(host, adapter, tasks, time.time)
            server.tasks = tasks
            await server.serve()
            tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
