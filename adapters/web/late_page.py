"""The page, made once the bot answers: what it stands on takes a fourth of the whole start."""

from importlib import import_module

import anyio
import anyio.to_thread
from loguru import logger
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from nekro_core.api.adapter import Host


class LatePage:
    """An application whose visitors wait until the page behind it is there.

    A page that cannot be made is an error in the log and an answer that says so: platforms and the
    HTTP API go on.
    """

    def __init__(self, host: Host, bot_name: str, closing: anyio.Event) -> None:
        self._host = host
        self._bot_name = bot_name
        self._closing = closing
        self._page: ASGIApp | None = None
        self._decided = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the visitor on."""
        await self._decided.wait()
        page = self._page or PlainTextResponse("There is no page; the bot's log says why.", 503)
        await page(scope, receive, send)

    async def keep(self) -> None:
        """Make the page, and keep it until the adapter closes."""
        try:
            module = await anyio.to_thread.run_sync(import_module, ".page", __package__)
            opened = module.open_page(self._host, self._bot_name, self._closing)
            async with opened as self._page:
                self._decided.set()
                await self._closing.wait()
        except Exception:  # noqa: BLE001 - of NiceGUI or what it imports: told, and the bot goes on
            logger.exception("there is no chat page")
        finally:
            self._page = None
            self._decided.set()
