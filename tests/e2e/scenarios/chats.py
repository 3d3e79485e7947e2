"""Lets people write in a chat, and reads what they see there. The chat is a group of QQ on a fake
OneBot implementation, or a room of the bot's own chat page."""

import base64
from collections.abc import Sequence
from typing import Any, Protocol

import httpx

from tests.e2e.stages import Medium, Seen
from tests.peers.onebot_v11 import Call, OneBotPeer, at, image, record, reply, text
from tests.peers.onebot_v11.account import Account
from tests.peers.onebot_v11.account import Chat as AccountChat
from tests.peers.onebot_v11.messages import Json

PEOPLE = {"Lin": 10001, "Bob": 10003, "Anna": 10004, "Mei": 10005, "小明": 10006, "田中": 10007}
"""The people in the QQ groups, and their QQ numbers."""
ADMINISTRATORS = frozenset({"Mei"})
_KINDS = {"image": "picture", "record": "voice", "file": "file", "voice": "voice"}


class Chat(Protocol):
    """One chat with people and the bot."""

    key: str
    """The chat key of this chat."""

    async def say(
        self, who: str, words: str, *, to_bot: bool, reply_to: str, media: Sequence[Medium]
    ) -> str:
        """Write a message as the person ``who``. Returns the message's id."""

    async def seen(self) -> list[Seen]:
        """Return all messages of the bot, as people see them."""


class NamedAccount(Account):
    """An account of the bot whose group messages also say the names and roles of people."""

    def message(self, chat: AccountChat, user: int | str, what: Any, **more: Any) -> Json:
        event = super().message(chat, user, what, **more)
        event["sender"] |= self._told(int(user))
        return event

    def do_get_group_member_info(self, params: Json) -> Json:
        return super().do_get_group_member_info(params) | self._told(int(params["user_id"]))

    def do_get_group_info(self, params: Json) -> Json:
        return super().do_get_group_info(params) | {"group_name": "Tea and code"}

    def _told(self, user: int) -> Json:
        name = next((name for name, number in PEOPLE.items() if number == user), "")
        role = "admin" if name in ADMINISTRATORS else "member"
        return {"nickname": name, "role": role} if name else {}


class QQGroup:
    """A group of QQ."""

    def __init__(self, peer: OneBotPeer, group: int) -> None:
        self.peer, self.group = peer, group
        self.key = f"onebot_v11-group_{group}"

    async def say(
        self, who: str, words: str, *, to_bot: bool, reply_to: str, media: Sequence[Medium]
    ) -> str:
        said: list[Json] = [reply(reply_to)] if reply_to else []
        said += [at(self.peer.self_id)] if to_bot else []
        said += [text(f" {words}" if to_bot else words)] if words else []
        said += map(_segment, media)
        return await self.post(who, said)

    async def post(self, who: str, said: list[Json]) -> str:
        """Send any segments as the person ``who``."""
        return str(await self.peer.say_in_group(self.group, PEOPLE[who], said))

    async def seen(self) -> list[Seen]:
        here = [call for call in self.peer.sends if call.params.get("group_id") == self.group]
        return [_seen(call) for call in here]


class WebRoom:
    """A room of the bot's own chat page."""

    def __init__(self, client: httpx.AsyncClient, room: str) -> None:
        self._client, self.room = client, room
        self.key = f"web-{room}"

    async def say(
        self, who: str, words: str, *, to_bot: bool, reply_to: str, media: Sequence[Medium]
    ) -> str:
        body: dict[str, Any] = {"speaker": who, "text": words, "to_bot": to_bot}
        if self.room.startswith("private_"):
            body["to_bot"] = False
        if reply_to:
            body["reply_to"] = reply_to
        body["attachments"] = [
            {"name": each.name, "data": base64.b64encode(each.data).decode()} for each in media
        ]
        answer = await self._client.post(f"/rooms/{self.room}/messages", json=body)
        assert answer.is_success, answer.text
        return str(answer.json()["message_id"])

    async def seen(self) -> list[Seen]:
        answer = await self._client.get(f"/rooms/{self.room}/messages?limit=1000")
        if answer.status_code == 404:
            return []
        assert answer.is_success, answer.text
        own = [each for each in answer.json()["messages"] if each["author"] != "person"]
        return [await self._seen(each) for each in own if each["state"] in ("sent", "")]

    async def _seen(self, message: dict[str, Any]) -> Seen:
        parts = message["segments"]
        return Seen(
            message["message_id"],
            "".join(part["text"] for part in parts if part["type"] == "text"),
            tuple(part["id"] for part in parts if part["type"] == "mention"),
            next((part["message_id"] for part in parts if part["type"] == "reply"), ""),
            tuple([await self._medium(part) for part in parts if part["type"] in _KINDS]),
        )

    async def _medium(self, part: dict[str, Any]) -> Medium:
        answer = await self._client.get(part["url"].removeprefix("/api/v1"))
        assert answer.is_success, answer.text
        return Medium(_KINDS[part["type"]], part["name"], answer.content)


def _segment(medium: Medium) -> Json:
    data = f"base64://{base64.b64encode(medium.data).decode()}"
    match medium.kind:
        case "picture":
            return image(medium.name, url=data)
        case "voice":
            return record(medium.name, url=data)
        case _:
            return {"type": "file", "data": {"file": medium.name, "url": data}}


def _seen(call: Call) -> Seen:
    if call.action == "upload_group_file":
        return Seen("", media=(Medium("file", call.params["name"], _bytes(call.params["file"])),))
    return Seen(
        str(call.data["message_id"]) if call.data else "",
        call.text,
        tuple(each["data"]["qq"] for each in call.segments if each["type"] == "at"),
        next((each["data"]["id"] for each in call.segments if each["type"] == "reply"), ""),
        tuple(
            Medium(_KINDS[each["type"]], "", _bytes(each["data"]["file"]))
            for each in call.segments
            if each["type"] in _KINDS
        ),
    )


def _bytes(file: str) -> bytes:
    return base64.b64decode(file.removeprefix("base64://"))
