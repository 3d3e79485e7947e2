"""Serves the bot's tools over HTTP, for `nekro mcp`. See docs/http-api.md."""

import base64
import json
from typing import assert_never

import anyio
from fastapi import APIRouter, Request, Response

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.console.plain.views import Json
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.errors import ProcessAway, RefusedElsewhere
from nekro_core.operator.http_routes import WebApiError, read_json
from nekro_core.store import StoreUnavailable
from nekro_core.system.errors import NekroError
from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent
from nekro_core.tools.offer import ToolAnswer

_GONE = 499
"""The status that proxies log if the client has disconnected. No client receives it."""


def add_tools(router: APIRouter, operator: OperatorHost) -> None:
    """Add the routes to ``router``."""

    @router.get("/tools")
    async def list_tools(chat: str = "") -> Json:
        tools = await operator.tools.tools(_chat(chat))
        return {
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": dict(tool.schema),
                }
                for tool in tools
            ]
        }

    @router.post("/tools/{name}")
    async def call_tool(request: Request, name: str, chat: str = "") -> Response:
        key = _chat(chat)
        arguments = await read_json(request)
        answers: list[ToolAnswer] = []
        unavailable: list[NekroError] = []
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            try:
                answers.append(await operator.tools.call(key, name, arguments))
            except (StoreUnavailable, ProcessAway, RefusedElsewhere) as error:
                # Not raised here: the task group would put it into an ExceptionGroup, which `Route`
                # does not answer.
                unavailable.append(error)
            tasks.cancel_scope.cancel()
        if unavailable:
            raise unavailable[0]
        if not answers:
            return Response(status_code=_GONE)
        content = [_view(each) for each in answers[0].content]
        body = {"content": content, "isError": answers[0].is_error}
        # A result may contain lone surrogates, which cannot be encoded as UTF-8.
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace").decode()
        return Response(text, media_type="application/json")


def _chat(text: str) -> ChatKey | None:
    try:
        return ChatKey.parse(text) if text else None
    except ChatKeyError as error:
        raise WebApiError(400, "chat", str(error)) from None


def _view(content: Content) -> Json:
    """Convert content to MCP's format."""
    match content:
        case TextContent(text):
            return {"type": "text", "text": text}
        case ImageContent() if content.url:
            return {"type": "text", "text": content.url}
        case ImageContent():
            data = base64.b64encode(content.data).decode()
            return {"type": "image", "data": data, "mimeType": content.mime or "image/png"}
        case AudioContent():
            data = base64.b64encode(content.data).decode()
            kind = "audio/mpeg" if content.format == "mp3" else "audio/wav"
            return {"type": "audio", "data": data, "mimeType": kind}
        case _:
            assert_never(content)
