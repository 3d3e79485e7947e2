"""A program for tests: a bot without platforms, whose console anybody on this machine may open.

``python -m tests.console.serve FOLDER PORT``. The cookie ``role`` says which role the visitor has;
without it, the visitor is the owner.
"""

import sys
from pathlib import Path

import anyio
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request

from nekro_core.app import App
from nekro_core.app.settings import Settings
from nekro_core.console.file_routes import file_routes
from nekro_core.console.operator_api import OperatorApi
from nekro_core.console.site import open_console
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.console.fill_logs import filled_log
from tests.console.fill_people import fill_people


def visitor(request: Request) -> Actor:
    role = AccessRole(request.cookies.get("role", "owner"))
    return Actor(name=role.value, role=role, origin=RequestOrigin.PAGE, address="127.0.0.1")


async def main(folder: Path, port: int) -> None:
    settings = Settings(nekro_data_dir=folder, _env_file=None)  # type: ignore[call-arg]
    closing = anyio.Event()
    async with App.open(
        settings, {}, model=ScriptedModel(lambda _: "hi"), logs=filled_log()[0]
    ) as app:
        site = FastAPI(openapi_url=None)
        await fill_people(app)
        site.include_router(file_routes(app.operations, visitor))
        site.mount("/api/v1/operator", OperatorApi(app.operations, visitor, "1.0"))
        async with open_console(app.operations, visitor, closing, "Nekro") as pages:
            site.mount("/ui", pages)
            server = uvicorn.Server(
                uvicorn.Config(site, port=port, log_level="warning", timeout_graceful_shutdown=1)
            )
            await server.serve()
            closing.set()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), backend_options={"use_uvloop": True})
