"""Webhooks are called through ASGI. The tests check who may call one, the limits of a call, and the
answer."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.plugins.authoring.web import Webhook
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.web import webhooks
from nekro_core.plugins.web.webhooks import Webhooks
from tests.plugins.world import World, plugin_source

HOOKS = """
import anyio

@plugin.mount_webhook_method("echo", "Echo")
async def echo(ctx: AgentCtx):
    asked = ctx.webhook_request
    return {"endpoint": asked.endpoint, "body": asked.body, "owner": ctx.owner, "by": "%s"}

@plugin.mount_webhook_method("list", "List")
async def listed(ctx: AgentCtx):
    return [1, 2]

@plugin.mount_webhook_method("words", "Words")
async def words(ctx: AgentCtx):
    return "words are no answer"

@plugin.mount_webhook_method("slow", "Slow")
async def slow(ctx: AgentCtx):
    await anyio.sleep_forever()
"""


@dataclass
class Answer:
    status: int = 0
    body: bytes = b""
    sent: list[dict[str, Any]] = field(default_factory=list)

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        told = self.value["error"]
        return self.status, told["code"], told["message"]


@dataclass
class Hooks:
    webhooks: Webhooks
    plugins: PluginRegistry

    def address(self, endpoint: str, plugin: str = "ann.site") -> str:
        """The part after ``/api/webhook`` of an address in the list of plugins."""
        (info,) = (each for each in self.plugins.plugins() if each.key == plugin)
        begin = f"/api/webhook/{endpoint}/"
        (found,) = (each for each in info.addresses if each.startswith(begin))
        return found.removeprefix("/api/webhook")

    async def call(
        self,
        path: str,
        body: bytes | None = b"hi",
        *,
        length: int | None = None,
        kind: str = "http",
        method: str = "POST",
    ) -> Answer:
        """Make one ASGI call. Without ``body`` the body never arrives."""
        headers = [] if length is None else [(b"content-length", str(length).encode())]
        scope: dict[str, Any] = {
            "type": kind,
            "method": method,
            "path": path,
            "root_path": "",
            "headers": headers,
            "query_string": b"",
        }
        answer = Answer()

        async def receive() -> dict[str, Any]:
            if body is None:
                await anyio.sleep_forever()
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            answer.sent.append(message)
            answer.status = message.get("status", answer.status)
            answer.body += message.get("body", b"")

        await self.webhooks(scope, receive, send)
        return answer


@asynccontextmanager
async def hooks(
    folder: Path, *more: str, key: Callable[[], str] = lambda: "secret"
) -> AsyncIterator[Hooks]:
    """A bot with a plugin that has webhooks, and a copy of the plugin by each author in
    ``more``."""
    world, served = World(folder), Webhooks(key)
    for author in ("ann", *more):
        source = plugin_source("site", author=author, more=HOOKS % author)
        world.write(f"{author}.py", source)
    async with world.bot(registrars={Webhook: served.put}) as plugins:
        yield Hooks(served, plugins)


# ---- who may call a webhook


async def test_the_address_of_a_webhook_stays_the_same_in_every_version_of_the_bot(
    tmp_path: Path,
) -> None:
    """Servers of other people have the address in their settings, so it must not change."""
    async with hooks(tmp_path, "bob") as served:
        addresses = [
            served.address("echo"),
            served.address("list"),
            served.address("echo", "bob.site"),
        ]
    assert addresses == [
        "/echo/o-sAS9JmUX6ac2UPOAh7gBMK2VmQo6cMivPN4_Bvdx4",
        "/list/MyDRxzikiWvNu2oTNnNNgS1rqaoQx9-tnp5cDsjJTh4",
        "/echo/EzcUGKDcOQB9zATHOhMKSyvkxmJMDbTDbCTxnYmf0mI",
    ]
    async with hooks(tmp_path, key=lambda: "another") as served:
        assert served.address("echo") not in addresses


async def test_two_plugins_can_have_an_endpoint_of_the_same_name(tmp_path: Path) -> None:
    async with hooks(tmp_path, "bob") as served:
        ann, bob = served.address("echo"), served.address("echo", "bob.site")
        assert len(served.webhooks) == 8
        assert (await served.call(ann)).value["by"] == "ann"
        assert (await served.call(bob)).value["by"] == "bob"
        await served.plugins.disable("ann.site")
        assert len(served.webhooks) == 4
        assert (await served.call(ann)).status == 404
        assert (await served.call(bob)).value["by"] == "bob"
        await served.plugins.disable("bob.site")
        assert len(served.webhooks) == 0
        assert served.webhooks._hooks == {}, "a removed endpoint must leave no entry"


@pytest.mark.parametrize(
    "path",
    [
        "/echo",
        "/echo/",
        "/echo/\udcff",
        "/echo/☕",
        "/nothing/x",
        "/",
        "",
        "//",
    ],
)
async def test_every_address_without_the_secret_gets_the_same_answer(
    tmp_path: Path, path: str
) -> None:
    async with hooks(tmp_path) as served:
        answer = await served.call(path)
        assert answer.error == (404, "not_found", "there is no such webhook")


async def test_only_post_requests_call_a_webhook(tmp_path: Path) -> None:
    async with hooks(tmp_path) as served:
        echo = served.address("echo")
        for method in ("GET", "PUT", "HEAD"):
            answer = await served.call(echo, method=method)
            assert answer.error == (405, "method", "a webhook is called with POST")
        socket = await served.call(echo, kind="websocket")
        assert socket.sent == [{"type": "websocket.close", "code": 1008}]


# ---- the arguments and the answer


async def test_a_handlers_arguments_and_results_are_passed_on(tmp_path: Path) -> None:
    async with hooks(tmp_path) as served:
        answer = await served.call(served.address("echo"), b"hello")
        assert (answer.status, answer.value) == (
            200,
            {"endpoint": "echo", "body": "hello", "owner": "ann.site", "by": "ann"},
        )
        assert (await served.call(served.address("list"))).value == [1, 2]
        assert (await served.call(served.address("words"))).value == {"ok": True}


# ---- the limits of a call


@pytest.mark.parametrize(("length", "status"), [(25 * 2**20, 200), (25 * 2**20 + 1, 413)])
async def test_a_body_of_25_megabytes_is_the_largest_that_is_accepted(
    tmp_path: Path, length: int, status: int
) -> None:
    async with hooks(tmp_path) as served:
        assert (await served.call(served.address("echo"), length=length)).status == status


async def test_a_body_that_does_not_arrive_ends_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "BODY_S", 0.02)
    async with hooks(tmp_path) as served:
        with anyio.fail_after(20):
            answer = await served.call(served.address("echo"), None)
        assert answer.error == (408, "body", "the body did not come in time")


async def test_a_handler_that_does_not_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "HANDLER_S", 0.02)
    async with hooks(tmp_path) as served:
        with anyio.fail_after(20):
            answer = await served.call(served.address("slow"))
        assert answer.error == (504, "plugin", "the plugin took too long")


async def test_a_webhook_accepts_sixteen_calls_at_a_time(tmp_path: Path) -> None:
    async with hooks(tmp_path) as served:
        slow, answers = served.address("slow"), []

        async def call() -> None:
            answers.append((await served.call(slow)).status)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for _ in range(17):
                    tasks.start_soon(call)
                while not answers:
                    await anyio.sleep(0.005)
                assert answers == [503]
                assert (await served.call(served.address("echo"))).status == 200, (
                    "other webhooks must still be served"
                )
                await served.plugins.disable("ann.site")
        assert answers == [503] * 17, "an interrupted call must get status 503"


# ---- the names of webhooks


@pytest.mark.parametrize(
    ("endpoint", "taken"),
    [
        ("a", True),
        ("Git_Hub.2-x", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("a\n", False),
        ("a b", False),
        ("é", False),
    ],
)
async def test_an_invalid_name_of_a_webhook_is_refused(
    tmp_path: Path, endpoint: str, taken: bool
) -> None:
    more = f"@plugin.mount_webhook_method({endpoint!r}, 'One')\nasync def one(ctx: AgentCtx): ...\n"
    world, served = World(tmp_path), Webhooks(lambda: "secret")
    world.write("site.py", plugin_source("site", more=more))
    async with world.bot(registrars={Webhook: served.put}) as plugins:
        (info,) = plugins.plugins()
        assert len(served) == len(info.addresses) == taken
        assert [(each.message, each.remedy) for each in info.problems] == [
            (
                f"a webhook cannot be called {endpoint!r}",
                "use letters, digits, '.', '-' and '_', 64 at most",
            )
        ] * (not taken)
        assert all("site.py" in each.where for each in info.problems)


async def test_a_plugin_cannot_have_the_same_endpoint_twice(tmp_path: Path) -> None:
    one = "@plugin.mount_webhook_method('one', 'One')\nasync def {}(ctx: AgentCtx): return ['{}']\n"
    world, served = World(tmp_path), Webhooks(lambda: "secret")
    world.write("site.py", plugin_source("site", more=one.format("a", "a") + one.format("b", "b")))
    async with world.bot(registrars={Webhook: served.put}) as plugins:
        (info,) = plugins.plugins()
        (problem,) = info.problems
        assert (problem.message, problem.remedy) == ("the webhook one is there twice", "rename one")
        assert "site.py" in problem.where
        assert len(served) == 1
        found = Hooks(served, plugins)
        assert (await found.call(found.address("one"))).value == ["a"]
