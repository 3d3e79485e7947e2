"""Plugins have pages and webhooks on a real server. Pages need a login."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import websockets
from loguru import logger

from nekro_core.plugins.authoring.web import PluginRouter, Webhook
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.web import webhooks
from nekro_core.plugins.web.pages import PluginPages
from tests.adapters.web.running import Web, web
from tests.plugins.world import World

HEAD = """
import anyio
from fastapi import APIRouter, Body, HTTPException, Request, WebSocket
from fastapi.responses import HTMLResponse, StreamingResponse
from nekro_core.api import message
from nekro_core.api.plugin import NekroPlugin, task
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("Site", "site", author="me")
"""
PAGES = """
@plugin.mount_router()
def router() -> APIRouter:
    routes = APIRouter()

    @routes.get("/", response_class=HTMLResponse)
    async def index(request: Request):
        return f"<a href='{request.url_for('item', number=7)}'>seven</a>"

    @routes.get("/item/{number}")
    async def item(number: int):
        if number > 9:
            raise HTTPException(404, "no such item")
        return {"number": number}

    @routes.post("/item")
    async def add(value: dict = Body()):
        await plugin.store.set(store_key="value", value=str(value))
        ctx = await AgentCtx.create_by_chat_key("onebot_v11-group_30003")
        await message.send_text(ctx.chat_key, "kept", ctx)
        return {"tasks": len(task.get_running_tasks())}

    @routes.get("/broken")
    async def broken():
        raise RuntimeError("the key is sk-1234")

    @routes.get("/stream")
    async def stream():
        async def endless():
            while True:
                yield b"tick\\n"
                await anyio.sleep(0.01)
        return StreamingResponse(endless())

    @routes.get("/hang")
    async def hang():
        await anyio.sleep_forever()

    @routes.websocket("/socket")
    async def socket(socket: WebSocket):
        await socket.accept()
        await socket.send_text(await socket.receive_text())
        await socket.receive_text()

    return routes
"""
HOOKS = """
@plugin.mount_webhook_method("github", "GitHub", "What happened to a repository.")
async def github(ctx: AgentCtx):
    request = ctx.webhook_request
    if request.body == "fail":
        raise RuntimeError("the key is sk-1234")
    if request.body == "home":
        await ctx.send_text("to whom?")
    await message.send_text("onebot_v11-group_30003", str(request.body), ctx)
    return {"event": request.headers.get("X-GitHub-Event"), "bytes": len(request.raw)}

@plugin.mount_webhook_method("slow", "Slow")
async def slow(ctx: AgentCtx):
    await anyio.sleep_forever()
"""


@dataclass
class Site:
    """A web server with one plugin that has pages and webhooks."""

    web: Web
    plugins: PluginRegistry
    world: World

    @property
    def client(self) -> httpx.AsyncClient:
        """The operator's client, with the token."""
        return self.web.client

    @property
    def hooks(self) -> list[str]:
        """The addresses of the webhooks, as the list of plugins shows them."""
        (info,) = self.plugins.plugins()
        return [address for address in info.addresses if address.startswith("/api/webhook/")]

    @property
    def open_requests(self) -> int:
        """How many requests the plugin is answering now."""
        return sum(len(visits) for _, visits in self.web.host.pages._pages.values())


@asynccontextmanager
async def site(
    folder: Path, code: str = PAGES + HOOKS, *, root_path: str = ""
) -> AsyncIterator[Site]:
    async with web(folder, root_path=root_path) as running:
        world = World(folder)
        world.write("site.py", HEAD + code)
        registrars = {PluginRouter: running.host.pages.put, Webhook: running.host.webhooks.put}
        async with PluginRegistry.open(
            world.services, builtin=folder / "no-builtin", registrars=registrars
        ) as plugins:
            yield Site(running, plugins, world)


# --- pages ----------------------------------------------------------------------------------------


async def test_a_page_is_served_to_a_logged_in_client(tmp_path: Path) -> None:
    async with site(tmp_path) as shown:
        page = await shown.client.get("/plugins/me.site/")
        assert page.status_code == 200
        assert page.text == f"<a href='{shown.web.url}/plugins/me.site/item/7'>seven</a>"
        assert page.headers["X-Frame-Options"] == "SAMEORIGIN"
        assert (await shown.client.get("/plugins/me.site")).text == page.text
        assert (await shown.client.get("/plugins/me.site/item/7")).json() == {"number": 7}
        assert (await shown.client.get("/plugins/me.site/item/x")).status_code == 422
        assert (await shown.client.get("/plugins/me.site/item/10")).json()[
            "detail"
        ] == "no such item"
        added = await shown.client.post("/plugins/me.site/item", json={"a": 1})
        assert added.json() == {"tasks": 0}
        assert shown.world.outgoing.texts == ["kept"]
        assert (await shown.client.get("/plugins/me.site/nowhere")).status_code == 404
        assert (await shown.client.get("/plugins/me.other/")).status_code == 404
        assert (await shown.client.get("/plugins/")).status_code == 404


async def test_requests_without_a_login_are_refused(tmp_path: Path) -> None:
    wrong = ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "nekro_session_=x"})
    paths = ("/", "", "/item/7", "/../me.site/item/7", "/%2e%2e/x")
    async with site(tmp_path) as shown, shown.web.stranger() as stranger:
        for path, headers in itertools.product(paths, wrong):
            answer = await stranger.get(f"/plugins/me.site{path}", headers=headers)
            assert answer.status_code in (401, 404, 429)
            assert "seven" not in answer.text
            assert "number" not in answer.text
        shown.web.clock.now += 100
        token = {"Authorization": f"Bearer {shown.web.site.access_token}"}
        foreign = await stranger.get(
            "/plugins/me.site/", headers=token | {"Origin": "http://evil.example"}
        )
        assert foreign.status_code == 403
        rebound = await stranger.get("/plugins/me.site/", headers=token | {"Host": "evil.example"})
        assert rebound.status_code == 421


async def test_addresses_below_the_path_of_a_proxy_need_the_same_login(tmp_path: Path) -> None:
    """With FASTAPI_EXTRA={"root_path": "/bot"} every address also works with the path before it."""
    async with site(tmp_path, root_path="/bot") as shown, shown.web.stranger() as stranger:
        for place in ("/plugins/me.site/item/7", "/api/v1/rooms", "/plugins/me.site/"):
            assert (await stranger.get(place)).status_code == 401
            assert (await stranger.get(f"/bot{place}")).status_code == 401
            assert (await shown.client.get(f"/bot{place}")).status_code == 200
        (hook,) = (each for each in shown.hooks if "github" in each)
        called = await stranger.post(f"/bot{hook}", json={"action": "opened"})
        assert called.status_code == 200


async def test_the_answer_of_a_failed_page_has_no_details(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as shown:
        answer = await shown.client.get("/plugins/me.site/broken")
        assert answer.status_code == 500
        assert "sk-1234" not in answer.text
        assert (await shown.client.get("/plugins/me.site/item/1")).status_code == 200


async def test_the_size_of_a_request_and_the_number_of_requests_at_a_time_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nekro_core.plugins.web.pages.MAX_BODY_BYTES", 1000)
    monkeypatch.setattr("nekro_core.plugins.web.pages.MAX_AT_ONCE", 2)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b'{"a": "' + b"x" * 500

    async with site(tmp_path) as shown:
        post = shown.client.post
        assert (await post("/plugins/me.site/item", content=b"x" * 1001)).status_code == 413
        assert (await post("/plugins/me.site/item", content=pieces())).status_code == 413
        assert (await post("/plugins/me.site/item", json={})).status_code == 200
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(shown.client.get, "/plugins/me.site/hang")
            with anyio.fail_after(30):
                while shown.open_requests < 2:
                    await anyio.sleep(0.01)
            assert (await shown.client.get("/plugins/me.site/")).status_code == 503
            tasks.cancel_scope.cancel()


async def test_unloading_a_plugin_removes_its_routes(tmp_path: Path) -> None:
    async with site(tmp_path) as shown:
        pages, hooks = shown.web.host.pages, shown.web.host.webhooks
        for _ in range(3):
            assert (len(pages), len(hooks)) == (1, 2)
            (hook, _) = shown.hooks
            cut: list[Any] = []
            came = anyio.Event()

            async def read(cut: list[Any] = cut, came: anyio.Event = came) -> None:
                try:
                    async with shown.client.stream("GET", "/plugins/me.site/stream") as answer:
                        async for _ in answer.aiter_bytes(4):
                            came.set()
                except httpx.RemoteProtocolError:
                    cut.append("cut off")

            async def hang(cut: list[Any] = cut) -> None:
                cut.append((await shown.client.get("/plugins/me.site/hang")).status_code)

            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read)
                    tasks.start_soon(hang)
                    while shown.open_requests < 2 or not came.is_set():
                        await anyio.sleep(0.01)
                    await shown.plugins.disable("me.site")
            assert set(cut) == {503, "cut off"}
            assert (len(pages), len(hooks)) == (0, 0)
            assert (await shown.client.get("/plugins/me.site/")).status_code == 404
            assert (await shown.client.post(hook)).status_code == 404
            await shown.plugins.enable("me.site")


async def test_a_websocket_needs_the_login_and_ends_when_its_plugin_is_unloaded(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as shown:
        address = shown.web.url.replace("http", "ws") + "/plugins/me.site/socket"
        with pytest.raises(websockets.InvalidStatus):
            async with websockets.connect(address):
                pass
        token = {"Authorization": f"Bearer {shown.web.site.access_token}"}
        async with websockets.connect(address, additional_headers=token) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
            await shown.plugins.disable("me.site")
            with pytest.raises(websockets.ConnectionClosed):
                await socket.recv()


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("@plugin.mount_router()\ndef router(): return 7", "its router is a int"),
        ("@plugin.mount_router()\nasync def router(): return APIRouter()", "is a coroutine"),
        ("@plugin.mount_router()\ndef router(): raise KeyError('x')", "KeyError"),
        (PAGES + PAGES, "two routers"),
        ("@plugin.mount_webhook_method('a/b')\nasync def f(ctx): ...", "cannot be called 'a/b'"),
        ("@plugin.mount_webhook_method('')\nasync def f(ctx): ...", "cannot be called ''"),
        (HOOKS + HOOKS, "there twice"),
    ],
)
async def test_a_faulty_page_or_webhook_is_reported_as_a_problem_of_the_plugin(
    tmp_path: Path, code: str, problem: str
) -> None:
    world = World(tmp_path)
    world.write("site.py", HEAD + code)
    registrars = {PluginRouter: PluginPages().put, Webhook: webhooks.Webhooks(lambda: "x").put}
    async with world.bot(registrars=registrars) as plugins:
        (info,) = plugins.plugins()
        assert any(problem in str(each) for each in info.problems), info.problems
        assert info.state.value == "loaded"


# --- webhooks -------------------------------------------------------------------------------------


async def test_a_webhook_needs_its_secret_address_and_no_login(tmp_path: Path) -> None:
    async with site(tmp_path) as shown, shown.web.stranger() as stranger:
        hook = shown.hooks[0]
        assert hook.startswith("/api/webhook/github/")
        assert len(hook.rpartition("/")[2]) == 43
        answer = await stranger.post(
            hook, json={"action": "opened"}, headers={"X-GitHub-Event": "issues"}
        )
        assert answer.json() == {"event": "issues", "bytes": 19}
        await stranger.post(f"{hook}?a=b", data={"payload": "{}"})
        await stranger.post(hook, content="plain ☕")
        assert shown.world.outgoing.texts == [
            "{'action': 'opened'}",
            "{'payload': '{}'}",
            "plain ☕",
        ]
        other = {key for key, _, _ in shown.world.outgoing.sent}
        assert {str(key) for key in other} == {"onebot_v11-group_30003"}


async def test_a_webhooks_address_is_the_same_after_a_reload_and_differs_between_bots(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as shown:
        first = shown.hooks
        assert len({hook.rpartition("/")[2] for hook in first}) == 2
        await shown.plugins.enable("me.site")
        assert shown.hooks == first
        keys = webhooks.Webhooks(lambda: "another bot's")
        assert keys._secret("me.site", "github") not in first[0]


async def test_wrong_webhook_addresses_are_refused(tmp_path: Path) -> None:
    async with site(tmp_path) as shown, shown.web.stranger() as stranger:
        github, slow = shown.hooks
        secret = github.rpartition("/")[2]
        bare = {"Authorization": f"Bearer {shown.web.site.access_token}"}
        for path in [
            "/api/webhook/github",
            "/api/webhook/github/",
            "/api/webhook/github/x",
            "/api/webhook/github/" + "A" * 43,
            "/api/webhook/github/☕",
            f"{github}/more",
            f"{github}A",
            github[:-1],
            f"/api/webhook/slow/{secret}",
            f"/api/webhook/nothing/{secret}",
            f"/api/webhook//{secret}",
        ]:
            answer = await stranger.post(path, json={}, headers=bare)
            assert answer.status_code == 404, path
        assert (await stranger.get(github)).status_code == 405
        rebound = await stranger.post(github, headers={"Host": "evil.example"})
        assert rebound.status_code == 421
        assert shown.world.outgoing.sent == []
        assert slow != github


async def test_invalid_calls_of_a_webhook_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MAX_BODY_BYTES", 100_000)
    monkeypatch.setattr(webhooks, "HANDLER_S", 0.05)
    json_type = {"Content-Type": "application/json"}

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 50_000

    async with site(tmp_path) as shown, shown.web.stranger() as stranger:
        github, slow = shown.hooks
        for content, status in [
            (b"{", 400),
            (b"[" * 50_000, 400),
            (b"\xff", 400),
            (b"x" * 100_001, 413),
            (pieces(), 413),
        ]:
            answer = await stranger.post(github, content=content, headers=json_type)
            assert answer.status_code == status
        failed = await stranger.post(github, content="fail")
        assert failed.status_code == 500
        assert "sk-1234" not in failed.text
        assert (await stranger.post(github, content="home")).status_code == 500
        assert shown.world.outgoing.sent == [], "a webhook has no chat to send to"
        assert (await stranger.post(slow)).status_code == 504
        assert (await stranger.post(github, content="well")).status_code == 200


async def test_a_webhooks_secret_is_not_in_the_log(tmp_path: Path) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="TRACE", diagnose=False)
    async with site(tmp_path) as shown, shown.web.stranger() as stranger:
        github, _ = shown.hooks
        await stranger.post(github, content="fail")
        await stranger.post(f"{github}x")
    logger.remove(sink)
    told = "".join(lines)
    assert "its webhook github failed" in told
    assert github.rpartition("/")[2] not in told
