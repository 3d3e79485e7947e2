"""Makes the pages when a person comes, because NiceGUI takes 0.4 s to import and 20 MiB of memory.

Most bots are configured once and then run for weeks. The import begins when the login is shown, or
with the first request for a page. It runs in a thread.
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

MakePage = Callable[[], Awaitable[AbstractAsyncContextManager[ASGIApp]]]


class DeferredPage:
    """An ASGI application whose requests wait until the pages are made.

    If the pages cannot be made, the error is logged, and each request gets an answer that says so.
    The platforms and the HTTP API still work.
    """

    def __init__(self, make: MakePage, closing: anyio.Event) -> None:
        self._make = make
        self._closing = closing
        self._page: ASGIApp | None = None
        self._wanted = anyio.Event()
        self._decided = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the page, then pass the request to it."""
        self.prepare()
        await self._decided.wait()
        page = self._page or _no_page(scope)
        await page(scope, receive, send)

    def prepare(self) -> None:
        """Let `keep` make the page now. Call it when a person is about to open the page."""
        self._wanted.set()

    async def keep(self) -> None:
        """Make the page when a person comes, and serve it until the site is closed."""
        try:
            await self._person_comes()
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

    async def _person_comes(self) -> None:
        """Wait until a person comes, or the site closes."""
        async with anyio.create_task_group() as tasks:

            async def end_with(event: anyio.Event) -> None:
                await event.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_with, self._wanted)
            tasks.start_soon(end_with, self._closing)


def _no_page(scope: Scope) -> ASGIApp:
    language = preferred(Headers(scope=scope).get("accept-language", ""))
    return PlainTextResponse(console_texts().say("plain.no_page", language), 503)
