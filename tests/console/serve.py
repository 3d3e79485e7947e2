"""A program for tests: a bot with OneBot accounts, whose console anybody on this machine may open.

``python -m tests.console.serve FOLDER PORT [DATA ...]``. The cookie ``role`` gives the visitor's
role; without it, the visitor is the owner. The bot has data for the named pages, for all pages if
none is named, and for no page if the name is ``nothing``.
"""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from nicegui import ui
from starlette.requests import Request

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.console.download_routes import download_routes
from nekro_core.console.frame import ConsolePage, add_pages
from nekro_core.console.operator_api import OperatorApi
from nekro_core.console.site import open_console
from nekro_core.console.view import View
from nekro_core.llm.model import ChatRequest, ModelUnreachable
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.adapters.onebot_v11.running import new_driver
from tests.console import fill_chats
from tests.console.fill_logs import filled_log
from tests.console.fill_models import fill_models
from tests.console.fill_people import fill_people
from tests.console.fill_platforms import CONFIGURATION, fill_platforms
from tests.console.fill_plugins import add_chat, write_plugins
from tests.console.fill_statistics import fill_statistics
from tests.console.fill_turns import fill_turns


def visitor(request: Request) -> Actor:
    role = AccessRole(request.cookies.get("role", "owner"))
    return Actor(name=role.value, role=role, origin=RequestOrigin.PAGE, address="127.0.0.1")


async def _no_answer() -> AsyncIterator[str]:
    yield "h"
    await anyio.sleep(600)


def reply(request: ChatRequest) -> ScriptedReply:
    """The model's reply. With a certain persona it is so slow that a test sees a running turn. A
    person can ask for a file in the chat's box, or make the model fail."""
    if "You are very slow." in str(request.messages):
        return _no_answer()
    if "be unreachable" in str(request.messages[-1]).rpartition("Nekro,")[2]:
        raise ModelUnreachable("nobody listens there")
    if "write it down" in str(request.messages[-1]):
        return "```python\nopen('note.txt', 'w').write('milk')\nsend_channel_message('ok')\n```"
    return "hi"


async def draw_slowly(_: View) -> None:
    """Draw a page as slowly as a busy machine."""
    await anyio.sleep(4)
    ui.label("It took its time.")


SLOW_PAGE = ConsolePage(name="about", path="/slow", group="", icon="", draw=draw_slowly)
ALL = ("statistics", "turns", "plugins", "people", "models", "chats", "platforms")


async def main(folder: Path, port: int, named: Sequence[str]) -> None:
    filled = named or ALL
    os.environ["NEKRO_DATA_DIR"] = str(folder.resolve())
    os.chdir(folder)  # so the bot reads no .env of another folder and writes its settings here
    settings = Settings.load()
    closing = anyio.Event()
    if "statistics" in filled:
        await fill_statistics(settings.database_url)
    if "turns" in filled:
        await fill_turns(folder)
    if "plugins" in filled:
        write_plugins(folder)
    configuration: dict[str, Any] = {**CONFIGURATION}
    driver = new_driver()
    async with (
        App.open(settings, configuration, model=ScriptedModel(reply), logs=filled_log()[0]) as app,
        anyio.create_task_group() as tasks,
    ):
        app.platforms.attach(app, driver, configuration)
        if "plugins" in filled:
            await add_chat(app)
        if "people" in filled:
            await fill_people(app)
        if "models" in filled:
            await fill_models(app)
        if "chats" in filled:
            await fill_chats.fill(app, many="many" in filled)
        # platforms that are enabled later add their addresses to this application
        site = driver.server_app
        site.mount("/plugins", app.operator.pages)
        fill_chats.add_routes(site, app)
        site.include_router(download_routes(app.late_operations, visitor))
        site.mount("/api/v1/operator", OperatorApi(app.operations, visitor, "1.0"))
        async with open_console(app.operations, visitor, closing, "Nekro") as pages:
            add_pages((SLOW_PAGE,), app.operations, visitor, closing, "Nekro")
            site.mount("/ui", pages)
            server = uvicorn.Server(
                uvicorn.Config(site, port=port, log_level="warning", timeout_graceful_shutdown=1)
            )
            if "platforms" in filled:
                tasks.start_soon(fill_platforms, app, port)
            await server.serve()
            closing.set()
            tasks.cancel_scope.cancel()


if __name__ == "__main__":
    arguments = (Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    anyio.run(main, *arguments, backend_options={"use_uvloop": True})
