"""A program for tests: a bot without platforms, with its real web site, guard and logins.

``python -m tests.console.serve_site FOLDER PORT``. `fill_people` says who may log in.
"""

import sys
from pathlib import Path

import anyio
import uvicorn
from fastapi import FastAPI

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.llm.scripted import ScriptedModel
from tests.console.fill_logs import filled_log
from tests.console.fill_people import fill_people


async def main(folder: Path, port: int) -> None:
    settings = Settings(nekro_data_dir=folder, _env_file=None)  # type: ignore[call-arg]
    async with (
        App.open(settings, {}, model=ScriptedModel(lambda _: "hi"), logs=filled_log()[0]) as app,
        anyio.create_task_group() as tasks,
    ):
        await fill_people(app)
        application = FastAPI(openapi_url=None)
        app.site.install(application, app.operator, app.late_operations)
        app.site.start(tasks)
        server = uvicorn.Server(
            uvicorn.Config(application, port=port, log_level="warning", timeout_graceful_shutdown=1)
        )
        await server.serve()
        app.site.close()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), backend_options={"use_uvloop": True})
