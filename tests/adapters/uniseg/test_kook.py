"""The KOOK adapter without KOOK's gateway, with signals from KOOK's documentation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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
from tests.adapters.uniseg.peers.kook import ANN, CHANNEL, Kook


@pytest.fixture
async def kook(tmp_path: Path) -> AsyncIterator[Kook]:
    async with Kook.connected(tmp_path) as peer:
        yield peer


async def test_a_message_is_received_and_answered(kook: Kook) -> None:
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


async def test_a_private_message_is_received_and_answered(kook: Kook) -> None:
    heard = await kook.say("hello", channel_type="PERSON", target_id="999")
    assert str(heard.chat_key) == "kook-private_111"
    assert heard.to_bot
    assert (await kook.bench.send(heard.chat_key, "hi")).ok
    assert kook.posted["target_id"] == "111"


async def test_media_are_uploaded_before_the_message(kook: Kook, tmp_path: Path) -> None:
    await kook.say("hello")
    path = tmp_path / "x"
    path.write_bytes(b"bytes")
    # Type 10 is a card, which shows the file's name.
    for form, kind in ((Image, 2), (File, 10), (Voice, 10)):
        assert (await kook.bench.send(CHANNEL, form(Media(path=str(path), name="x")))).ok
        assert kook.posted["type"] == kind
        assert "https://img.kookapp.cn/asset" in kook.posted["content"]


async def test_a_received_file_is_fetched_from_its_address(kook: Kook) -> None:
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


async def test_markdown_escapes_are_removed_from_a_text(kook: Kook) -> None:
    heard = await kook.say("a\\*b", raw="a*b")
    assert heard.segments == (Text("a*b"),)


async def test_markdown_becomes_kmarkdown(kook: Kook) -> None:
    await kook.say("hello")
    source = "# Plan\n**Go** to [it](https://example.org) (met)all(met)\n```python\nx = 1\n```"
    assert (await kook.bench.send(CHANNEL, Text(source, markdown=True))).ok
    assert kook.posted["content"] == (
        "**Plan**\n**Go** to [it](https://example.org) \\(met\\)all\\(met\\)\n```python\nx = 1\n```"
    )
