"""KOOK without a gateway: signals as its documentation shows them, requests as sent."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nonebot.drivers import Request

from nekro_core.api.chat import (
    ChatKey,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Reply,
    Text,
    Voice,
)
from tests.adapters.uniseg.stock import Bench, bench, quietly

Bot = quietly("nonebot.adapters.kaiheila").Bot
CHANNEL = "kook-channel_333"
ANN = {"id": "111", "username": "ann", "nickname": "Annie", "bot": False}


class Kook:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.bot = Bot(bench.stock, "999", "nekro", "t")
        bench.stock.api_root = "https://www.kookapp.cn/api/v3/"
        bench.driver.answer = self.answer

    def answer(self, request: Request) -> Any:
        data = {"msg_id": "m-1", "msg_timestamp": 1, "nonce": ""}
        if "asset" in request.url.path:
            data = {"url": "https://img.kookapp.cn/asset"}
        return {"code": 0, "message": "", "data": data}

    async def event(self, kind: int, content: str, extra: dict[str, Any], **more: Any) -> None:
        data = {
            "channel_type": "GROUP", "type": kind, "target_id": "333", "author_id": "111",
            "content": content, "msg_id": "p-1", "msg_timestamp": 1_700_000_000_000, "nonce": "",
            "extra": extra, **more,
        }  # fmt: skip
        event = self.bench.stock.json_to_event(
            {"s": 0, "sn": 1, "d": data}, "999", kaiheila_config=self.bench.stock.kaiheila_config
        )
        await self.bench.hear(self.bot, event)

    async def say(self, content: str, *, raw: str = "", mentions: Any = (), **more: Any) -> Any:
        markdown = {"raw_content": raw or content, "mention_part": list(mentions),
                    "mention_role_part": []}  # fmt: skip
        extra = {"type": 9, "guild_id": "222", "author": ANN, "kmarkdown": markdown}
        await self.event(9, content, extra, **more)
        return await self.bench.host.next_message()

    @property
    def posted(self) -> Any:
        return self.bench.driver.requests[-1].data


@pytest.fixture
async def kook(tmp_path: Path) -> AsyncIterator[Kook]:
    async with bench(tmp_path, "kook", kaiheila_bots=[]) as made:
        peer = Kook(made)
        made.connect(peer.bot)
        yield peer


async def test_a_message_comes_in_and_an_answer_goes_out(kook: Kook) -> None:
    bot = {"id": "999", "username": "nekro", "full_name": "nekro#1", "avatar": ""}
    heard = await kook.say("(met)999(met) 1 \\* 2", raw="@nekro 1 * 2", mentions=[bot])
    assert str(heard.chat_key) == CHANNEL
    assert heard.segments[0].user_id == "999"
    assert heard.text.endswith("1 * 2")
    assert heard.to_bot
    assert (heard.sender.user_id, heard.sender.name) == ("111", "Annie")
    receipt = await kook.bench.send(CHANNEL, Reply("p-1"), Mention("111"), "2 *is* (met)all(met)")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "m-1")
    assert kook.posted["quote"] == "p-1"
    assert kook.posted["content"] == "(met)111(met)2 \\*is\\* \\(met\\)all\\(met\\)"


async def test_a_private_chat(kook: Kook) -> None:
    heard = await kook.say("hello", channel_type="PERSON", target_id="999")
    assert str(heard.chat_key) == "kook-private_111"
    assert heard.to_bot
    assert (await kook.bench.send(heard.chat_key, "hi")).ok
    assert kook.posted["target_id"] == "111"


async def test_media_are_uploaded_first(kook: Kook, tmp_path: Path) -> None:
    await kook.say("hello")
    path = tmp_path / "x"
    path.write_bytes(b"bytes")
    for form, kind in ((Image, 2), (File, 10), (Voice, 10)):  # a card shows it with its name
        assert (await kook.bench.send(CHANNEL, form(Media(path=str(path), name="x")))).ok
        assert kook.posted["type"] == kind
        assert "https://img.kookapp.cn/asset" in kook.posted["content"]


async def test_a_file_comes_with_its_address(kook: Kook) -> None:
    attachment = {"type": "file", "name": "a.txt", "url": "https://img.kookapp.cn/a.txt"}
    extra = {"type": 4, "guild_id": "222", "author": ANN, "attachments": attachment}
    await kook.event(4, "https://img.kookapp.cn/a.txt", extra)
    (file,) = (await kook.bench.host.next_message()).segments
    assert isinstance(file, File)
    assert kook.bench.host.media.asked == ["https://img.kookapp.cn/a.txt"]


async def test_a_deleted_message_is_recalled(kook: Kook) -> None:
    await kook.say("oops")
    body = {"channel_id": "333", "msg_id": "p-1"}
    await kook.event(255, "[system]", {"type": "deleted_message", "body": body}, target_id="222")
    await kook.bench.host.until(lambda: bool(kook.bench.host.recalled))
    assert kook.bench.host.recalled == [(ChatKey.parse(CHANNEL), "p-1")]


async def test_text_keeps_its_signs(kook: Kook) -> None:
    heard = await kook.say("a\\*b", raw="a*b")
    assert heard.segments == (Text("a*b"),)
