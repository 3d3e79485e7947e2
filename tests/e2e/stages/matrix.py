"""Plays a person on Matrix, in a room on a real Synapse. A proxy between Synapse and the bot
records what passes. See `stage.py`."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.bot_process import BotProcess
from tests.e2e.stages.stage import Medium, Seen, Stage, WireLine
from tests.peers.recording_proxy import Exchange, RecordingProxy
from tests.peers.synapse import Person, installed, synapse

_KINDS = {"m.image": "picture", "m.audio": "voice", "m.file": "file"}
_MSGTYPES = {kind: msgtype for msgtype, kind in _KINDS.items()}
_SHOWN = ("type", "event_id", "sender", "origin_server_ts", "content")


@asynccontextmanager
async def matrix(folder: Path) -> AsyncIterator[Stage]:
    """A server, a proxy, and two accounts."""
    if not installed():
        pytest.skip("no Synapse here: make .venv-synapse/.installed")
    home = folder / "synapse"
    home.mkdir()
    async with synapse(home) as server, RecordingProxy(server.port) as proxy:
        yield MatrixStage(proxy, await server.person("lin"), await server.person("bot"))


class MatrixStage:
    name, title = "matrix", "Matrix"
    cannot: Mapping[str, str] = {}
    chat_key = ""

    def __init__(self, proxy: RecordingProxy, person: Person, account: Person) -> None:
        entry = {"homeserver": proxy.address, "access_token": account.token}
        self.settings: Mapping[str, str] = {
            "NEKRO_PLATFORMS": '["matrix"]',
            "MATRIX_BOTS": json.dumps([entry | {"auto_accept_invites": True}]),
        }
        self.bot_id, self.person_id = account.user_id, person.user_id
        self.proxy = proxy
        self._person = person
        self._account = account
        self._room = ""

    @asynccontextmanager
    async def join(self, bot: BotProcess) -> AsyncIterator[None]:
        """The person invites the account to a room. This method waits until the bot has joined the
        room."""
        self._room = await self._person.make_room(self._account)
        self.chat_key = f"matrix-group_{self._room}"
        with anyio.fail_after(30):
            while not await self._is_there():
                await anyio.sleep(0.05)
        yield

    async def _is_there(self) -> bool:
        joined = await self._person.call("GET", f"/rooms/{self._room}/joined_members")
        return self.bot_id in joined["joined"]

    async def say(self, text: str, *, mention: bool = False, reply_to: str = "") -> str:
        """Send a text as Element does."""
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        if mention:
            link = f'<a href="https://matrix.to/#/{self.bot_id}">Bot</a>'
            content |= {
                "body": f"Bot: {text}",
                "format": "org.matrix.custom.html",
                "formatted_body": f"{link}: {text}",
                "m.mentions": {"user_ids": [self.bot_id]},
            }
        if reply_to:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": reply_to}}
        return await self._person.send(self._room, content)

    async def hand_over(self, medium: Medium) -> str:
        mime = {"picture": "image/jpeg", "voice": "audio/wav", "file": "text/plain"}[medium.kind]
        content: dict[str, Any] = {
            "msgtype": _MSGTYPES[medium.kind],
            "body": medium.name,
            "filename": medium.name,
            "info": {"mimetype": mime, "size": len(medium.data)},
            "url": await self._person.upload(medium.data, mime, medium.name),
            "m.mentions": {},
        }
        if medium.kind == "voice":
            content |= {"org.matrix.msc3245.voice": {}, "org.matrix.msc1767.audio": {}}
        return await self._person.send(self._room, content)

    async def seen(self, count: int, within: float = 30.0) -> list[Seen]:
        said = await self._person.until_said(self._room, count, of=self.bot_id, within=within)
        return [await self._seen(event) for event in said]

    async def _seen(self, event: dict[str, Any]) -> Seen:
        content = event["content"]
        mentions = tuple(content.get("m.mentions", {}).get("user_ids", ()))
        text = content["body"]
        media: tuple[Medium, ...] = ()
        if content["msgtype"] in _KINDS:
            kind = _KINDS[content["msgtype"]]
            assert (kind == "voice") == ("org.matrix.msc3245.voice" in content)
            data = await self._person.fetch(content["url"])
            media, text = (Medium(kind, content["filename"], data),), ""
        if mentions:
            assert f'<a href="https://matrix.to/#/{mentions[0]}">' in content["formatted_body"]
            text = text.removeprefix(self.person_id.partition(":")[0][1:].capitalize())
        relation = content.get("m.relates_to", {})
        answered = relation.get("m.in_reply_to", {}).get("event_id", "")
        return Seen(event["event_id"], text, mentions, answered, media)

    @property
    def wire(self) -> list[WireLine]:
        """What passed the proxy, without polls that returned nothing."""
        return [line for each in self.proxy.exchanges for line in self._lines(each)]

    def _lines(self, exchange: Exchange) -> Iterator[WireLine]:
        path = exchange.path.partition("?")[0]
        if path.endswith("/sync") and exchange.answer:
            rooms = exchange.answer.get("rooms", {})
            for room in rooms.get("join", {}).values():
                for event in room["timeline"]["events"]:
                    if event["sender"] == self.person_id and event["type"] == "m.room.message":
                        shown = {name: event[name] for name in _SHOWN}
                        yield WireLine(True, "GET /sync: rooms.join.{}.timeline", shown)
        elif "/send/m.room.message/" in path:
            yield WireLine(False, "PUT /rooms/{}/send/m.room.message/{}", exchange.body)
        elif "/download/" in path:
            yield WireLine(True, "GET /_matrix/client/v1/media/download/{}/{}", {})
        elif path.endswith("/upload"):
            yield WireLine(False, "POST /_matrix/media/v3/upload", exchange.answer)
        elif "/join/" in path:
            yield WireLine(False, "POST /join/{}", exchange.body)
