"""Serves the chat page. It is a NiceGUI page with one component, which gets updates over NiceGUI's
socket."""

from importlib.resources import files

import anyio
from loguru import logger
from nicegui import Client, ui
from nicegui.element import Element
from starlette.requests import Request

from nekro_core.api.adapter import OperatorHost, Recorded, Working
from nekro_core.api.console import API
from nekro_core.api.i18n import preferred

from .http_api import INSTANCE
from .rooms import BOT_ID, room_name
from .texts import texts
from .views import record_view

RECONNECT_S = 20.0
"""Maximum seconds that a browser may be disconnected and still get the updates that it missed.
After a longer time it loads the page again."""
BUILD_S = 60.0
"""Maximum seconds for building the page. The limit is long, so that a busy machine does not cause
an error."""
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E"
    "%3Crect width='32' height='32' rx='10' fill='%234f5bd5'/%3E"
    "%3Cpath d='M10 23V9l12 14V9' fill='none' stroke='white' stroke-width='3.4' "
    "stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E"
)


class ChatPageElement(
    Element, component="static/nekro_chat.js", dependencies=["static/nekro_parts/*.js"]
):
    """The component of `static/nekro_chat.js`."""

    def __init__(self, *, language: str, bot_name: str) -> None:
        super().__init__()
        self._props["language"] = language
        self._props["texts"] = dict(texts(language))
        self._props["bot"] = {"id": BOT_ID, "name": bot_name}
        self._props["api"] = API


def add_chat_page(operator: OperatorHost, bot_name: str, closing: anyio.Event) -> None:
    """Add the page to NiceGUI's application, whose address is ``/ui``. This can be done only once
    in a process, because NiceGUI's pages are global."""

    @ui.page(
        "/",
        title=bot_name,
        favicon=_ICON,
        language=None,
        reconnect_timeout=RECONNECT_S,
        response_timeout=BUILD_S,
    )
    async def chat(client: Client, request: Request) -> None:
        style = (files(__package__) / "static" / "chat.css").read_text("utf-8")
        ui.add_head_html(f"<style>{style}</style>")
        view = ChatPageElement(
            language=preferred(request.headers.get("accept-language", "")), bot_name=bot_name
        )
        await client.connected()
        if client.is_deleted:  # the browser closed the page before it connected
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_follow, operator, view)
            tasks.start_soon(_until, closing, tasks.cancel_scope)
            await client.disconnected()
            tasks.cancel_scope.cancel()


async def _follow(operator: OperatorHost, view: ChatPageElement) -> None:
    """Send the activity of all rooms to the page. A page that is too slow reads the history
    again."""
    while True:
        async with operator.activity.watch() as activities:
            view.run_method("resync")
            async for activity in activities:
                match activity:
                    case Recorded(record) if record.chat_key.instance == INSTANCE:
                        view.run_method("receive", record_view(record))
                    case Working(key, busy) if key.instance == INSTANCE:
                        view.run_method("show_working", room_name(key), busy)
                    case _:
                        pass
        logger.debug("a page was too slow for the room's activity and reads the history again")
        await anyio.sleep(0.5)


async def _until(closing: anyio.Event, scope: anyio.CancelScope) -> None:
    await closing.wait()
    scope.cancel()
