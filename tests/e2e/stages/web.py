"""Plays a person on the bot's own chat page, over the HTTP API of the page. See `stage.py`."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.e2e.bot_process import BotProcess
from tests.e2e.stages.stage import Medium, Seen, Stage, WireLine

ROOM = "group_lobby"
_KINDS = {"image": "picture", "voice": "voice", "file": "file"}


@asynccontextmanager
async def web(_folder: Path) -> AsyncIterator[Stage]:
    """Nothing has to be started: the bot itself serves the page."""
    yield WebStage()


class WebStage:
    name, title = "web", "Web page"
    settings: Mapping[str, str] = {}
    chat_key, bot_id, person_id = f"web-{ROOM}", "bot", "lin"
    cannot: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.wire: list[WireLine] = []
        self._client: httpx.AsyncClient
        self._shown: set[str] = set()

    @asynccontextmanager
    async def join(self, bot: BotProcess) -> AsyncIterator[None]:
        headers = {"Authorization": f"Bearer {bot.token}"}
        async with httpx.AsyncClient(
            base_url=bot.address, headers=headers, trust_env=False, timeout=30
        ) as self._client:
            yield

    async def say(self, text: str, *, mention: bool = False, reply_to: str = "") -> str:
        body: dict[str, Any] = {"text": f"@Nekro {text}" if mention else text}
        return await self._post(body | ({"reply_to": reply_to} if reply_to else {}))

    async def hand_over(self, medium: Medium) -> str:
        data = base64.b64encode(medium.data).decode()
        return await self._post({"text": "", "attachments": [{"name": medium.name, "data": data}]})

    async def seen(self, count: int, within: float = 30.0) -> list[Seen]:
        with anyio.fail_after(within):
            while len(own := await self._own()) < count:
                await anyio.sleep(0.05)
        for record in own:
            if record["message_id"] not in self._shown:
                self._shown.add(record["message_id"])
                self.wire.append(WireLine(False, "GET /api/v1/rooms/{}/events: message", record))
        return [await self._seen(record) for record in own]

    async def _post(self, body: dict[str, Any]) -> str:
        body = {"speaker": self.person_id, **body}
        self.wire.append(WireLine(True, "POST /api/v1/rooms/{}/messages", body))
        answer = await self._client.post(f"/api/v1/rooms/{ROOM}/messages", json=body)
        assert answer.is_success, answer.text
        return str(answer.json()["message_id"])

    async def _own(self) -> list[dict[str, Any]]:
        answer = await self._client.get(f"/api/v1/rooms/{ROOM}/messages")
        return [
            record
            for record in answer.json()["messages"]
            if record["author"] == "bot" and record["state"] == "sent"
        ]

    async def _seen(self, record: dict[str, Any]) -> Seen:
        parts = record["segments"]
        return Seen(
            record["message_id"],
            "".join(part["text"] for part in parts if part["type"] == "text"),
            tuple(part["id"] for part in parts if part["type"] == "mention"),
            next((part["message_id"] for part in parts if part["type"] == "reply"), ""),
            tuple([await self._medium(part) for part in parts if part["type"] in _KINDS]),
        )

    async def _medium(self, part: dict[str, Any]) -> Medium:
        answer = await self._client.get(part["url"])
        assert answer.is_success, answer.text
        return Medium(_KINDS[part["type"]], part["name"], answer.content)
