"""The page and the API work together in one process, as in a real bot."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.adapters.web.running import NO_TLS, EventReader, WholePage, whole_page

SOCKET = "/ui/_nicegui_ws/socket.io/?EIO=4&transport=websocket&client_id=x&tab_id=y&document_id=z"


@pytest.fixture
async def page(tmp_path: Path, anyio_backend: str) -> AsyncIterator[WholePage]:
    async with whole_page(tmp_path) as running:
        yield running


async def test_the_page_needs_a_login_loads_nothing_from_elsewhere_and_ends_at_once(
    page: WholePage,
) -> None:
    """All these checks use one process, because NiceGUI takes seconds to import."""
    await _the_page_and_its_socket_want_a_login(page)
    await _a_logout_closes_the_open_socket(page)
    await _what_is_loaded_comes_from_here_alone(page)
    await _the_end_does_not_wait_for_open_streams(page)


async def _the_page_and_its_socket_want_a_login(page: WholePage) -> None:
    socket = page.url.replace("http", "ws", 1) + SOCKET
    with pytest.raises(InvalidStatus) as refused:
        async with connect(socket):
            pass
    assert refused.value.response.status_code == 403
    async with httpx.AsyncClient(base_url=page.url, verify=NO_TLS, timeout=60) as browser:
        assert (await browser.get("/")).headers["location"] == "/ui/"
        for path in ("/ui/", "/ui/_nicegui/client.js", "/ui/_nicegui_ws/socket.io/?EIO=4"):
            assert (await browser.get(path)).status_code == 401, path
        assert (await browser.get(page.link)).status_code == 200
        shown = await browser.get("/ui/", headers={"Accept-Language": "ja"})
        assert shown.status_code == 200
        assert "こんにちは" in shown.text
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    own, foreign = page.url, "http://evil.example"
    async with connect(socket, additional_headers={"Cookie": cookie}, origin=own) as opened:
        assert str(await opened.recv()).startswith("0{")
    for headers, origin in (
        ({"Cookie": cookie}, foreign),
        ({"Cookie": cookie, "Host": "evil.example"}, own),
    ):
        with pytest.raises(InvalidStatus):
            async with connect(socket, additional_headers=headers, origin=origin):
                pass


async def _a_logout_closes_the_open_socket(page: WholePage) -> None:
    socket = page.url.replace("http", "ws", 1) + SOCKET
    async with httpx.AsyncClient(base_url=page.url, verify=NO_TLS, timeout=60) as browser:
        await browser.post("/login", data={"token": page.token})
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        async with connect(
            socket, additional_headers={"Cookie": cookie}, origin=page.url
        ) as opened:
            assert str(await opened.recv()).startswith("0{")
            await browser.post("/logout")
            with anyio.fail_after(20):
                await opened.wait_closed()
        assert (await browser.get("/ui/")).status_code == 401
    assert "Traceback" not in page.log.read_text()


async def _what_is_loaded_comes_from_here_alone(page: WholePage) -> None:
    async with httpx.AsyncClient(base_url=page.url, verify=NO_TLS, timeout=60) as browser:
        await browser.post("/login", data={"token": page.token})
        shown = await browser.get("/ui/")
    policy = shown.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert 'src="http' not in shown.text
    assert 'href="http' not in shown.text


async def _the_end_does_not_wait_for_open_streams(page: WholePage) -> None:
    headers = {"Authorization": f"Bearer {page.token}"}
    async with (
        httpx.AsyncClient(base_url=page.url, headers=headers, verify=NO_TLS, timeout=60) as script,
        script.stream("GET", "/api/v1/rooms/lobby/events") as first,
        script.stream("GET", "/api/v1/rooms/cellar/events") as second,
    ):
        for answer in (first, second):
            await EventReader(answer).next()
        assert await page.end(signal.SIGTERM) in {0, -signal.SIGTERM}
