"""Plays a person on Satori, with satori-python-server. See `stage.py`."""

import base64
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path

import pytest

from tests.e2e.bot_process import BotProcess
from tests.e2e.stages.stage import Medium, Seen, Stage, WireLine
from tests.peers.satori import PLATFORM, SELF, Call, SatoriPeer, missing

GROUP = "g1"
_KINDS = {"img": "picture", "audio": "voice", "file": "file"}
_TAGS = {kind: tag for tag, kind in _KINDS.items()}
_TYPES = {"picture": "image/jpeg", "voice": "audio/wav", "file": "text/plain"}


@asynccontextmanager
async def satori(_folder: Path) -> AsyncIterator[Stage]:
    """The server that the bot connects to."""
    if why := missing():
        pytest.skip(why)
    async with SatoriPeer() as peer:
        yield SatoriStage(peer)


class SatoriStage:
    name, title = "satori", "Satori"
    chat_key, bot_id, person_id = f"satori-group_{GROUP}", f"{PLATFORM}:{SELF}", "ann"
    cannot: Mapping[str, str] = {}

    def __init__(self, peer: SatoriPeer) -> None:
        self.wire: list[WireLine] = []
        self.settings = {
            "NEKRO_PLATFORMS": '["satori"]',
            "SATORI_CLIENTS": json.dumps([peer.client]),
        }
        self._peer = peer
        peer.on_call = self._note

    @asynccontextmanager
    async def join(self, bot: BotProcess) -> AsyncIterator[None]:
        await self._peer.wait_connected(within=30)
        yield

    async def say(self, text: str, *, mention: bool = False, reply_to: str = "") -> str:
        front = f'<quote id="{_wire(reply_to)}"/>' if reply_to else ""
        front += f'<at id="{SELF}"/> ' if mention else ""
        return await self._say(front + escape(text))

    async def hand_over(self, medium: Medium) -> str:
        kind = medium.kind
        address = await self._peer.keep(f"files/{medium.name}", medium.data, _TYPES[kind])
        return await self._say(f'<{_TAGS[kind]} src="{address}" title="{medium.name}"/>')

    async def seen(self, count: int, within: float = 30.0) -> list[Seen]:
        return [_seen(call) for call in await self._peer.sent(count, within)]

    async def _say(self, content: str) -> str:
        message_id = await self._peer.raw(GROUP, self.person_id, content)
        event = {"type": "message-created", "message": {"id": message_id, "content": content}}
        self.wire.append(WireLine(True, f"event: {_tags(content)}", {"op": 0, "body": event}))
        return f"{message_id}@{GROUP}"

    def _note(self, call: Call) -> None:
        self.wire.append(WireLine(False, f"{call.action}: {_tags(call.content)}", call.params))


def _tags(content: str) -> str:
    """The names of the elements in a content."""
    return ", ".join(re.findall(r"<(\w+)", content)) or "text"


def _wire(message_id: str) -> str:
    return message_id.partition("@")[0]


def _seen(call: Call) -> Seen:
    # The adapter's own parser. It is imported here because the extra may not be installed.
    from nonebot.adapters.satori.element import Element, parse  # noqa: PLC0415

    text, mentions, reply = "", [], ""
    media: list[Medium] = []
    for each in parse(call.content):
        assert isinstance(each, Element)
        if each.type == "text":
            text += each.attrs["text"]
        elif each.type == "at":
            mentions.append(each.attrs["id"])
        elif each.type == "quote":
            reply = f"{each.attrs['id']}@{GROUP}"
        elif each.type in _KINDS:
            kind = _KINDS[each.type]
            data = base64.b64decode(each.attrs["src"].partition(";base64,")[2])
            media.append(Medium(kind, each.attrs.get("title", "") if kind == "file" else "", data))
    message_id = f"{call.result[0]['id']}@{GROUP}"
    return Seen(message_id, text, tuple(mentions), reply, tuple(media))
