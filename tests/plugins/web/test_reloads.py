"""Reloads of a plugin with commands, pages, a webhook and tasks leave no objects."""

from pathlib import Path

import httpx
import pytest

from nekro_core.plugins.authoring.web import PAGES, PluginRouter, Webhook
from nekro_core.plugins.web.pages import PluginPages
from nekro_core.plugins.web.webhooks import Webhooks
from tests.plugins.commands.talk import talk
from tests.plugins.host.reloading import LONG, grown_by_reloads

CODE = """
from typing import Generic, TypeVar
from fastapi import APIRouter, Depends
from pydantic import BaseModel
from nekro_core.api.schemas import AgentCtx

Value = TypeVar("Value")

class Item(BaseModel, Generic[Value]):
    name: str
    value: Value

def tenfold(value: int = 1) -> int:
    return 10 * value

@plugin.mount_router()
def router() -> APIRouter:
    routes = APIRouter()
    @routes.post("/", response_model=Item[int])
    async def add(item: Item[int], many: int = Depends(tenfold)):
        return Item[int](name=item.name, value=item.value * many)
    return routes

@plugin.mount_webhook_method("hook")
async def hook(ctx: AgentCtx):
    task.start("work", "x", "onebot_v11-group_30003", plugin)
    return {"got": ctx.webhook_request.body}

@plugin.mount_async_task("work")
async def work(handle):
    yield TaskCtl.report_progress("on it")
    await handle.wait("never")

things = plugin.mount_command_group("thing", "Things.")

@things.command("ask")
async def ask(context, size: Literal["s", "m"] = "m", count: int | None = None):
    yield CmdCtl.message(f"{size} {count}")
    yield CmdCtl.wait("Sure?", "sure", timeout=60)

@plugin.mount_command("sure", internal=True)
async def sure(context, answer: str):
    return answer
"""


@pytest.mark.parametrize(
    ("first", "last"), [pytest.param(*LONG, marks=[pytest.mark.long, pytest.mark.slow])]
)
async def test_reloads_of_a_plugin_in_use_leave_no_objects(
    tmp_path: Path, first: int, last: int
) -> None:
    pages, hooks = PluginPages(), Webhooks(lambda: "secret")
    async with talk(
        tmp_path, registrars={PluginRouter: pages.put, Webhook: hooks.put}, busy=CODE
    ) as chat:
        sending = httpx.ASGITransport(pages)
        calling = httpx.ASGITransport(hooks)
        async with (
            httpx.AsyncClient(transport=sending, base_url="http://bot") as browser,
            httpx.AsyncClient(transport=calling, base_url="http://bot") as stranger,
        ):

            async def use() -> None:
                (info,) = chat.plugins.plugins()
                page, hook = info.addresses
                added = await browser.post(
                    f"{page.removeprefix(PAGES)}?value=2", json={"name": "a", "value": 3}
                )
                assert added.json() == {"name": "a", "value": 60}
                address = hook.removeprefix("/api/webhook")
                assert (await stranger.post(address, json=[1])).json() == {"got": [1]}
                assert await chat.say("/thing ask s 3", replies=2) == ["s 3", "Sure?"]
                assert await chat.say("yes") == ["yes"]
                assert await chat.say("/thing ask", replies=2) == ["m None", "Sure?"]
                chat.world.outgoing.sent.clear()

            grown = await grown_by_reloads(
                chat.plugins, "local/busy", first=first, last=last, use=use
            )
            assert grown == {}
            assert chat.router.at_work == 1
            await chat.plugins.disable("local/busy")
            assert chat.router.at_work == 0
        assert (len(pages), len(hooks), len(chat.book)) == (0, 0, 1)
