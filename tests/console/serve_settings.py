"""A program for tests: a bot with settings files, which can be restarted.

``python -m tests.console.serve_settings FOLDER PORT``. See `tests.console.serve`.
"""

import os
import sys
from pathlib import Path

import anyio
import uvicorn
from fastapi import FastAPI

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.console.operator_api import OperatorApi
from nekro_core.console.site import open_console
from nekro_core.llm.scripted import ScriptedModel
from tests.console.serve import visitor

ROOT = Path(__file__).parents[2]


async def main(folder: Path, port: int) -> None:
    os.chdir(folder)  # the data folder is in the folder in which the bot is started
    settings = Settings.load()
    again = False

    def restart() -> None:
        nonlocal again
        again = server.should_exit = True

    closing = anyio.Event()
    model = ScriptedModel(lambda _: "hi")
    async with App.open(settings, {}, model=model, restart=restart) as app:
        site = FastAPI(openapi_url=None)
        site.mount("/api/v1/operator", OperatorApi(app.operations, visitor, "1.0"))
        async with open_console(app.operations, visitor, closing, "Nekro") as pages:
            site.mount("/ui", pages)
            server = uvicorn.Server(
                uvicorn.Config(site, port=port, log_level="warning", timeout_graceful_shutdown=1)
            )
            await server.serve()
            closing.set()
    if again:
        os.chdir(ROOT)
        os.execv(
            sys.executable, [sys.executable, "-m", "tests.console.serve_settings", *sys.argv[1:]]
        )


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), backend_options={"use_uvloop": True})
