"""Plays a person on QQ, with the tests' fake OneBot implementation. See `stage.py`."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.e2e.bot_process import BotProcess
from tests.e2e.stages.stage import Medium, Seen, Stage, WireLine
from tests.peers.onebot_v11 import Call, OneBotPeer, WireFrame, at, image, record, reply, text

GROUP = "30003"
TOKEN = "token-of-the-stage"
_KINDS = {"image": "picture", "record": "voice", "file": "file"}


@asynccontextmanager
async def onebot_v11(_folder: Path) -> AsyncIterator[Stage]:
    """Nothing has to run before the bot: an OneBot implementation connects to the bot."""
    yield OneBotStage()


class OneBotStage:
    name, title = "onebot_v11", "OneBot v11"
    settings: Mapping[str, str] = {"ONEBOT_ACCESS_TOKEN": TOKEN}
    chat_key, bot_id, person_id = f"onebot_v11-group_{GROUP}", "20002", "10001"
    cannot: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.wire: list[WireLine] = []
        self._peer: OneBotPeer

    @asynccontextmanager
    async def join(self, bot: BotProcess) -> AsyncIterator[None]:
        self._peer = OneBotPeer(self.bot_id, TOKEN, bot.onebot_url, on_frame=self._note)
        async with self._peer as peer:
            await peer.wait_connected()
            yield

    async def say(self, words: str, *, mention: bool = False, reply_to: str = "") -> str:
        front = [reply(reply_to)] if reply_to else []
        front += [at(self.bot_id)] if mention else []
        said = [*front, text(f" {words}" if mention else words)]
        return str(await self._peer.say_in_group(GROUP, self.person_id, said))

    async def hand_over(self, medium: Medium) -> str:
        data = f"base64://{base64.b64encode(medium.data).decode()}"
        match medium.kind:
            case "picture":
                said = image(medium.name, url=data)
            case "voice":
                said = record(medium.name, url=data)
            case _:
                said = {"type": "file", "data": {"file": medium.name, "url": data}}
        return str(await self._peer.say_in_group(GROUP, self.person_id, said))

    async def seen(self, count: int, within: float = 30.0) -> list[Seen]:
        await self._peer.until(lambda: len(self._peer.sends) >= count, within)
        return [_seen(call) for call in self._peer.sends]

    def _note(self, entry: WireFrame) -> None:
        frame = entry.frame
        kind = frame.get("action") or frame.get("post_type")
        if kind in {"message", "send_group_msg", "upload_group_file"}:
            self.wire.append(WireLine(entry.outbound, kind, frame))


def _seen(call: Call) -> Seen:
    if call.action == "upload_group_file":
        return Seen("", media=(Medium("file", call.params["name"], _bytes(call.params["file"])),))
    return Seen(
        str(call.data["message_id"]),
        call.text,
        tuple(s["data"]["qq"] for s in call.segments if s["type"] == "at"),
        next((s["data"]["id"] for s in call.segments if s["type"] == "reply"), ""),
        tuple(
            Medium(_KINDS[s["type"]], "", _bytes(s["data"]["file"]))
            for s in call.segments
            if s["type"] in _KINDS
        ),
    )


def _bytes(file: str) -> bytes:
    scheme, _, data = file.partition("base64://")
    assert scheme == "", file[:60]
    return base64.b64decode(data)
