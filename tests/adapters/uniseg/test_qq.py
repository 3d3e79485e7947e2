"""QQ's official bots without a gateway: events as its wiki shows them, requests as sent."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nonebot.adapters.qq import Bot
from nonebot.adapters.qq.config import BotInfo
from nonebot.adapters.qq.models import Dispatch, User
from nonebot.drivers import Request, Response

from nekro_core.api.chat import (
    ChatKey,
    DeliveryState,
    Image,
    Media,
    Mention,
    Reply,
    Role,
    Text,
    Voice,
)
from tests.adapters.uniseg.stock import Bench, bench

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its adapter's models
GROUP, CHANNEL = "qq-group_G1", "qq-channel_333"
TIME = "2023-11-15T06:13:20+08:00"


class QQ:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.bot = Bot(bench.stock, "1020", BotInfo(id="1020", secret="s"))
        self.bot.self_info = User(id="999", username="nekro")
        self.status, self.result = 200, {"id": "m-1", "timestamp": TIME}
        bench.driver.answer = self.answer

    def answer(self, request: Request) -> Any:
        data: dict[str, Any] = self.result
        status = self.status
        if "getAppAccessToken" in str(request.url):
            data, status = {"access_token": "t", "expires_in": "7200"}, 200
        elif request.url.path.endswith("/files"):
            data = {"file_uuid": "u", "file_info": "info", "ttl": 60}
        elif "/channels/" in request.url.path:
            author = {"id": "999", "bot": True}
            data = {**data, "channel_id": "333", "guild_id": "222", "author": author}
        return Response(status, content=json.dumps(data))

    async def event(self, kind: str, data: dict[str, Any], **more: Any) -> None:
        payload = Dispatch.model_validate(
            {"op": 0, "d": data, "s": 1, "t": kind, "id": "e", **more}
        )
        await self.bench.hear(self.bot, self.bench.stock.payload_to_event(payload))

    async def say_in_group(self, content: str) -> Any:
        author = {"id": "A1", "member_openid": "A1", "bot": False, "member_role": "admin",
                  "username": "Ann"}  # fmt: skip
        data = {"id": "p-1", "content": content, "timestamp": TIME, "author": author,
                "group_id": "G1", "group_openid": "G1"}  # fmt: skip
        await self.event("GROUP_AT_MESSAGE_CREATE", data)
        return await self.bench.host.next_message()

    async def say_in_channel(self, content: str, **more: Any) -> Any:
        data = {"id": "p-2", "channel_id": "333", "guild_id": "222", "content": content,
                "timestamp": TIME, "author": {"id": "111", "username": "ann", "bot": False},
                "member": {"nick": "Annie", "roles": ["4"], "joined_at": TIME}, **more}  # fmt: skip
        await self.event("MESSAGE_CREATE", data)
        return await self.bench.host.next_message()

    @property
    def sent(self) -> Any:
        return self.bench.driver.requests[-1].json


@pytest.fixture
async def qq(tmp_path: Path) -> AsyncIterator[QQ]:
    async with bench(tmp_path, "qq", qq_bots=[]) as made:
        peer = QQ(made)
        made.connect(peer.bot)
        yield peer


async def test_a_group_is_answered_naming_its_message(qq: QQ) -> None:
    heard = await qq.say_in_group(" hello")
    assert str(heard.chat_key) == GROUP
    assert heard.to_bot
    assert (heard.sender.user_id, heard.sender.name, heard.sender.role) == ("A1", "Ann", Role.ADMIN)
    assert heard.time == 1_700_000_000
    receipt = await qq.bench.send(GROUP, "yes")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "m-1")
    assert (qq.sent["content"], qq.sent["msg_id"]) == ("yes", "p-1")
    first = qq.sent["msg_seq"]
    assert (await qq.bench.send(GROUP, "and more")).ok
    assert qq.sent["msg_seq"] == first + 1


async def test_a_message_too_old_to_be_answered_is_not_named(qq: QQ) -> None:
    await qq.say_in_group("hello")
    key = ChatKey.parse(GROUP)
    intake = qq.bench.adapter._intake
    target, at = intake._targets[key]
    intake._targets[key] = target, at - 300
    assert (await qq.bench.send(GROUP, "late")).ok
    assert "msg_id" not in qq.sent or not qq.sent["msg_id"]


async def test_a_channel_in_a_guild(qq: QQ) -> None:
    heard = await qq.say_in_channel("<@!999> 1 &lt; 2", mentions=[{"id": "999", "bot": True}])
    assert str(heard.chat_key) == CHANNEL
    assert heard.segments == (Mention("1020"), Text(" 1 < 2"))
    assert heard.to_bot
    assert (heard.sender.name, heard.sender.role) == ("Annie", Role.OWNER)
    assert (await qq.bench.send(CHANNEL, Reply("p-2"), Mention("111"), "1 < 2")).ok
    assert qq.sent["message_reference"]["message_id"] == "p-2"
    assert qq.sent["content"] == "<@111>1 &lt; 2"
    gone = {"id": "p-2", "channel_id": "333", "guild_id": "222", "author": {"id": "111"}}
    await qq.event("PUBLIC_MESSAGE_DELETE", {"message": gone, "op_user": {"id": "111"}})
    await qq.bench.host.until(lambda: bool(qq.bench.host.recalled))
    assert qq.bench.host.recalled == [(ChatKey.parse(CHANNEL), "p-2")]


async def test_text_rings_for_nobody(qq: QQ) -> None:
    await qq.say_in_group("hello")
    assert (await qq.bench.send(GROUP, "<@everyone> <qqbot-at-everyone />")).ok
    assert "<@" not in qq.sent["content"]
    assert "<qqbot" not in qq.sent["content"]


async def test_media_are_uploaded_first(qq: QQ, tmp_path: Path) -> None:
    await qq.say_in_group("hello")
    path = tmp_path / "x"
    path.write_bytes(b"bytes")
    for form, kind in ((Image, 1), (Voice, 3)):
        assert (await qq.bench.send(GROUP, form(Media(path=str(path))))).ok
        upload, message = qq.bench.driver.requests[-2:]
        assert upload.json["file_type"] == kind
        assert message.json["media"]["file_info"] == "info"


async def test_a_guild_takes_no_voice_and_a_group_no_reply(qq: QQ) -> None:
    channel = qq.bench.adapter.capabilities(ChatKey.parse(CHANNEL))
    group = qq.bench.adapter.capabilities(ChatKey.parse(GROUP))
    assert not channel.alone
    assert Reply not in group.inline
    assert Mention not in group.inline


async def test_a_private_chat(qq: QQ) -> None:
    author = {"id": "U1", "user_openid": "U1"}
    data = {"id": "p-3", "content": "hello", "timestamp": TIME, "author": author}
    await qq.event("C2C_MESSAGE_CREATE", data)
    heard = await qq.bench.host.next_message()
    assert str(heard.chat_key) == "qq-private_U1"
    assert heard.to_bot
    assert (await qq.bench.send(heard.chat_key, "hi")).ok
    assert "/v2/users/U1/messages" in qq.bench.driver.requests[-1].url.path


async def test_a_refusal(qq: QQ) -> None:
    await qq.say_in_group("hello")
    qq.status, qq.result = 400, {"code": 304003, "message": "no active push"}
    receipt = await qq.bench.send(GROUP, "hi")
    assert receipt.state is DeliveryState.REJECTED
    assert "no active push" in receipt.reason


async def test_a_webhook_that_verifies_nothing_is_an_open_door(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="QQ_VERIFY_WEBHOOK is off"):
        async with bench(tmp_path, "qq", qq_verify_webhook=False):
            pass
