"""An open page can do nothing more after its person was logged out or got another role."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from nekro_core.console.open_pages import MAX_PAGES
from nekro_core.console.view import View
from nekro_core.operator.audit import Done
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.console.fill_people import PASSWORD
from tests.console.process import running_console

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VIEWER = Actor(name="otto", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)


@pytest.mark.parametrize(("now", "acts"), [(OTTO, True), (VIEWER, False), (None, False)])
async def test_an_open_page_stops_acting_after_a_logout_or_a_change_of_role(
    now: Actor | None, acts: bool
) -> None:
    done = []

    async def look_again() -> Actor | None:
        return now

    async def act() -> Done[str]:
        done.append("acted")
        return Done(result="acted", entry_id=1, undoable=False)

    no_operator: Any = None
    view = View(operator=no_operator, actor=OTTO, language="en", look_again=look_again)
    assert await view.perform(act(), "done") == ("acted" if acts else None)
    assert bool(done) is acts


class ModifiedBrowser:
    """A program with a browser's cookie. It ignores the command to load the page again."""

    def __init__(self, web: httpx.AsyncClient, page: str) -> None:
        self.web = web
        (client_id,) = re.findall(r"'client_id': '([^']+)'", page)
        self._query = {"client_id": client_id, "tab_id": "t", "document_id": "d"}

    def socket(self) -> connect:
        cookie = "; ".join(f"{each.name}={each.value}" for each in self.web.cookies.jar)
        address = str(self.web.base_url).replace("http", "ws", 1).rstrip("/")
        path = "/ui/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        return connect(f"{address}{path}", additional_headers={"Cookie": cookie}, proxy=None)

    async def has_page(self, socket: ClientConnection) -> bool:
        """Return True if the socket gets the page that was loaded before."""
        await socket.recv()
        await socket.send("40")
        await socket.recv()
        await socket.send("420" + json.dumps(["handshake", self._query]))
        while not (text := str(await socket.recv())).startswith("430"):
            pass
        return bool(json.loads(text.removeprefix("430"))[0])


@pytest.mark.jail
async def test_a_browser_that_does_not_load_again_loses_the_page_of_its_former_role(
    tmp_path: Path,
) -> None:
    """Otherwise a viewer could continue to use the forms of an owner's page that is still open."""
    async with (
        running_console(tmp_path, "tests.console.serve_site") as address,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as owner,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as second,
    ):
        for web, name in ((owner, "owner"), (second, "operator")):
            await web.post("/login", data={"name": name, "password": PASSWORD})

        async def have_role(role: str) -> None:
            changed = {"name": "operator", "role": role}
            done = await owner.post("/api/v1/operator/people/change_role", json=changed)
            assert done.status_code == 200, done.text

        await have_role("owner")
        browser = ModifiedBrowser(second, (await second.get("/ui/console/people")).text)
        with anyio.fail_after(60):
            async with browser.socket() as socket:
                assert await browser.has_page(socket)
                await have_role("viewer")
                with suppress(ConnectionClosed):
                    async for _ in socket:
                        pass
            async with browser.socket() as held:
                await browser.has_page(held)
                while True:  # the server keeps the page while this socket is connected to it
                    await anyio.sleep(0.5)
                    async with browser.socket() as socket:
                        if not await browser.has_page(socket):
                            break


@pytest.mark.jail
async def test_the_number_of_open_pages_of_a_person_is_limited(tmp_path: Path) -> None:
    """Each open page uses memory of the bot."""
    async with (
        running_console(tmp_path, "tests.console.serve_site") as address,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as viewer,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as owner,
    ):
        for web, name in ((viewer, "viewer"), (owner, "owner")):
            await web.post("/login", data={"name": name, "password": PASSWORD})
        for _ in range(MAX_PAGES):
            assert (await viewer.get("/ui/console/about")).status_code == 200
        refused = await viewer.get("/ui/console/about", headers={"Accept-Language": "en"})
        assert refused.status_code == 429
        assert "Close some of them" in refused.text
        assert (await owner.get("/ui/console/about")).status_code == 200
