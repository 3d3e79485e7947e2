"""The OneBot v12 adapter without an implementation, with events and actions of the standard."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nonebot.drivers import Request

from nekro_core.api.chat import (
    ChatKey,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Text,
    Voice,
)
from tests.adapters.uniseg.peers.onebot_v12 import GROUP, OneBotV12


@pytest.fixture
async def onebot(tmp_path: Path) -> AsyncIterator[OneBotV12]:
    async with OneBotV12.connected(tmp_path) as peer:
        yield peer


async def test_a_message_is_received_and_answered(onebot: OneBotV12) -> None:
    reply = {"type": "reply", "data": {"message_id": "m-0", "user_id": "20002"}}
    heard = await onebot.say(reply, {"type": "mention", "data": {"user_id": "5"}}, " hi")
    assert str(heard.chat_key) == GROUP
    assert heard.sender.user_id == "qq:10001"
    assert heard.segments == (Reply("m-0", "20002"), Mention("qq:5"), Text(" hi"))
    assert heard.to_bot
    receipt = await onebot.bench.send(GROUP, Reply("p-1"), Mention("qq:10001"), "yes")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "m-1")
    action, params = onebot.call
    assert (action, params["group_id"]) == ("send_message", "30003")
    assert [part["type"] for part in params["message"]] == ["reply", "mention", "text"]
    assert params["message"][1]["data"]["user_id"] == "10001"


async def test_the_chat_key_of_a_channel_contains_its_guild(onebot: OneBotV12) -> None:
    heard = await onebot.say("hi", detail_type="channel", guild_id="7", channel_id="8")
    assert str(heard.chat_key) == "onebot_v12-channel_7/8"
    onebot.bench.adapter._intake._targets.clear()  # After a restart this would be empty too.
    assert (await onebot.bench.send(heard.chat_key, "yes")).ok
    assert (onebot.call[1]["guild_id"], onebot.call[1]["channel_id"]) == ("7", "8")


async def test_media_are_received_and_sent_by_file_id(onebot: OneBotV12, tmp_path: Path) -> None:
    heard = await onebot.say({"type": "image", "data": {"file_id": "f-9"}})
    assert heard.segments[0].media.size == 5
    path = tmp_path / "x"
    path.write_bytes(b"bytes")
    for form, kind in ((Image, "image"), (Voice, "voice"), (File, "file")):
        assert (await onebot.bench.send(GROUP, form(Media(path=str(path), name="x")))).ok
        assert onebot.call[1]["message"] == [{"type": kind, "data": {"file_id": "f-1"}}]


async def test_a_refused_send_is_rejected_with_its_reason(onebot: OneBotV12) -> None:
    await onebot.say("hello")
    onebot.refused = {"status": "failed", "retcode": 35004, "data": None, "message": "muted"}
    receipt = await onebot.bench.send(GROUP, "hi")
    assert receipt.state is DeliveryState.REJECTED
    assert "muted" in receipt.reason


async def test_notices_and_recalls_are_received(onebot: OneBotV12) -> None:
    await onebot.say("oops")
    group = {"type": "notice", "group_id": "30003", "operator_id": "10001"}
    await onebot.event(detail_type="group_member_increase", **{**group, "user_id": "10002"})
    await onebot.event(detail_type="group_message_delete", message_id="p-1", **group)
    _, joined = await onebot.bench.host.received(2)
    assert joined.notice == Notice("join", "qq:10001", "qq:10002")
    await onebot.bench.host.until(lambda: bool(onebot.bench.host.recalled))
    assert onebot.bench.host.recalled == [(ChatKey.parse(GROUP), "p-1")]


async def test_requests_without_the_token_are_refused(onebot: OneBotV12) -> None:
    token = onebot.bench.stock.onebot_config.onebot_access_token
    assert token
    request = Request("POST", "http://x/", headers={"X-Impl": "x"}, content=b"{}")
    assert (await onebot.bench.stock._handle_http(request)).status_code in (401, 403)
