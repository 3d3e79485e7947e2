"""A program calls the bot's tools over HTTP."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import httpx
from fastapi import APIRouter, FastAPI

from nekro_core.api.console import Route
from nekro_core.chat import ChatKey
from nekro_core.console.plain.tools_api import add_tools
from nekro_core.store import StoreUnavailable
from nekro_core.tools.content import TextContent
from nekro_core.tools.offer import ToolAnswer


class Tools:
    """The tools of a bot whose database fails while ``full`` is True."""

    def __init__(self) -> None:
        self.full = False

    async def call(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        if self.full:
            raise StoreUnavailable("the disk is full")
        return ToolAnswer(content=(TextContent(f"{name} {arguments['word']} in {chat_key}"),))


async def test_a_call_is_answered_with_503_while_the_store_is_unavailable() -> None:
    tools = Tools()
    operator: Any = SimpleNamespace(tools=tools)
    app, router = FastAPI(), APIRouter(prefix="/api/v1", route_class=Route)
    add_tools(router, operator)
    app.include_router(router)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as web:
        address = "/api/v1/tools/say?chat=web-private_lin"
        said = await web.post(address, json={"word": "hello"})
        assert (said.status_code, said.json()["isError"]) == (200, False)
        assert said.json()["content"] == [{"type": "text", "text": "say hello in web-private_lin"}]
        tools.full = True
        failed = await web.post(address, json={"word": "hello"})
        assert (failed.status_code, failed.json()) == (
            503,
            {"error": {"code": "store", "message": "the disk is full"}},
        )
        tools.full = False
        assert (await web.post(address, json={"word": "again"})).status_code == 200
