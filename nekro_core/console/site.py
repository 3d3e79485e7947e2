"""Makes the console's pages as one ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from fastapi import FastAPI
from nicegui import ui
from starlette.types import ASGIApp

from nekro_core.console.file_routes import file_routes
from nekro_core.console.frame import RECONNECT_S, ActorOf, add_pages
from nekro_core.console.pages import PAGES
from nekro_core.operator.operator import Operator


@asynccontextmanager
async def open_console(
    operator: Operator, actor_of: ActorOf, closing: anyio.Event, bot_name: str
) -> AsyncIterator[ASGIApp]:
    """Open the pages as an ASGI application, which must be mounted at ``/ui``. This can be done
    only once in a process, because NiceGUI's pages are global."""
    app = FastAPI(openapi_url=None)
    app.include_router(file_routes(operator, actor_of))
    add_pages(PAGES, operator, actor_of, closing, bot_name)
    ui.run_with(
        app,
        title=bot_name,
        dark=None,
        tailwind=False,
        reconnect_timeout=RECONNECT_S,
        show_welcome_message=False,
    )
    async with app.router.lifespan_context(app):
        yield app
