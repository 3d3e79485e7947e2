"""Makes the console's pages only after the bot has started, because importing NiceGUI takes a
quarter of the time of a start.

The import begins when a person opens a page, or `QUIET_S` after the start. It does not begin at
once, because platforms deliver missed messages right after the start, and the import would delay
the answers to them.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
from loguru import logger
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from nekro_core.chat.catalogue import preferred
from nekro_core.console.texts import console_texts

QUIET_S = 2.0
"""Seconds after the start when the pages are made, unless a person opens one before."""

MakePage = Callable[[], Awaitable[AbstractAsyncContextManager[ASGIApp]]]


class DeferredPage:
    """An ASGI application whose requests wait until the pages are made.

    If the pages cannot be made, the error is logged, and each request gets an answer that says so.
    The platforms and the HTTP API still work.
    """

    def __init__(self, make: MakePage, closing: anyio.Event, *, quiet_s: float = QUIET_S) -> None:
        self._make = make
        self._closing = closing
        self._quiet_s = quiet_s
        self._page: ASGIApp | None = None
        self._wanted = anyio.Event()
        self._decided = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the pages, then pass the request to them."""
        self._wanted.set()
        await self._decided.wait()
        page = self._page or _no_page(scope)
        await page(scope, receive, send)

    async def keep(self) -> None:
        """Make the pages, and serve them until the site is closed."""
        try:
            await self._quiet_over()
            if self._closing.is_set():
                return
            async with await self._make() as self._page:
                self._decided.set()
                await self._closing.wait()
        except Exception:  # noqa: BLE001 - the bot runs without the page
            logger.exception("the pages cannot be made; the bot runs without them")
        finally:
            self._page = None
            self._decided.set()

    async def _quiet_over(self) -> None:
        """Wait until a person opens a page, the site closes, or `QUIET_S` is over."""
        with anyio.move_on_after(self._quiet_s):
            async with anyio.create_task_group() as tasks:

                async def end_with(event: anyio.Event) -> None:
                    await event.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(end_with, self._wanted)
                tasks.start_soon(end_with, self._closing)


def _no_page(scope: Scope) -> ASGIApp:
    language = preferred(Headers(scope=scope).get("accept-language", ""))
    return PlainTextResponse(console_texts().say("plain.no_page", language), 503)
