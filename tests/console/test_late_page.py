"""The console's page is not made at the start of the bot. It is made when a person opens it or sees
the login page."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import httpx
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from nekro_core.console.deferred_page import DeferredPage


class Making:
    """Builds a page that answers "hello", and counts how often it was built."""

    def __init__(self) -> None:
        self.made = 0

    async def __call__(self) -> AbstractAsyncContextManager[ASGIApp]:
        self.made += 1
        return self._page()

    @asynccontextmanager
    async def _page(self) -> AsyncIterator[ASGIApp]:
        yield PlainTextResponse("hello")


async def _visit(page: DeferredPage) -> str:
    transport = httpx.ASGITransport(page)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        return (await client.get("/")).text


async def test_the_page_is_made_for_the_first_visitor() -> None:
    making, closing = Making(), anyio.Event()
    page = DeferredPage(making, closing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(page.keep)
        await anyio.wait_all_tasks_blocked()
        assert making.made == 0
        assert await _visit(page) == "hello"
        assert await _visit(page) == "hello"
        assert making.made == 1
        closing.set()


async def test_the_page_can_be_prepared_before_the_first_visit() -> None:
    making, closing = Making(), anyio.Event()
    page = DeferredPage(making, closing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(page.keep)
        await anyio.wait_all_tasks_blocked()
        assert making.made == 0
        page.prepare()
        await anyio.wait_all_tasks_blocked()
        assert making.made == 1
        closing.set()


async def test_a_bot_that_ends_at_once_makes_no_page() -> None:
    making, closing = Making(), anyio.Event()
    page = DeferredPage(making, closing)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(page.keep)
        await anyio.wait_all_tasks_blocked()
        closing.set()
    assert making.made == 0
    assert "no page" in await _visit(page)
