"""The Feishu adapter without Feishu's servers, with events from Feishu's documentation."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

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
from tests.adapters.uniseg.peers.feishu import ANN, GROUP, MENTION, Feishu


@pytest.fixture
async def feishu(tmp_path: Path) -> AsyncIterator[Feishu]:
    async with Feishu.connected(tmp_path) as peer:
        yield peer


async def test_a_message_is_received_and_answered(feishu: Feishu) -> None:
    heard = await feishu.say({"text": "@_user_1 hello"}, mentions=[MENTION], parent_id="om_0")
    assert str(heard.chat_key) == GROUP
    assert heard.segments == (Reply("om_0"), Mention("cli_1"), Text(" hello"))
    assert heard.to_bot
    assert heard.sender.user_id == "ou_ann"
    assert heard.time == 1_700_000_000
    receipt = await feishu.bench.send(GROUP, "yes")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "om_9")
    assert feishu.sent == ("text", {"text": "yes"})
    assert (await feishu.bench.send(GROUP, Reply("om_1"), Mention("ou_ann"), "yes")).ok
    assert feishu.bench.driver.requests[-1].url.path.endswith("/messages/om_1/reply")
    kind, content = feishu.sent
    assert kind == "post"
    assert [part["tag"] for part in content["zh_cn"]["content"][0]] == ["at", "text"]


async def test_a_rich_text_becomes_segments(feishu: Feishu) -> None:
    post = {
        "title": "Look",
        "content": [
            [{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": " at this"}],
            [{"tag": "img", "image_key": "img_7"}],
            [{"tag": "a", "text": "there", "href": "https://example.com"}],
        ],
    }
    heard = await feishu.say(post, "post", mentions=[MENTION])
    assert [type(segment) for segment in heard.segments] == [Text, Mention, Text, Image, Text]
    assert heard.segments[1].user_id == "cli_1"
    assert heard.segments[4] == Text("\nthere (https://example.com)")
    assert heard.segments[3].media.size == 5


async def test_plain_text_mentions_nobody(feishu: Feishu) -> None:
    await feishu.say({"text": "hello"})
    assert (await feishu.bench.send(GROUP, 'x <at user_id="all">all</at> 1 < 2')).ok
    assert "<at" not in feishu.sent[1]["text"]
    assert feishu.sent[1]["text"].endswith("1 < 2")


async def test_a_mention_without_text_can_be_sent(feishu: Feishu) -> None:
    await feishu.say({"text": "hello"})
    assert (await feishu.bench.send(GROUP, Mention("ou_ann"))).ok
    assert feishu.sent[0] == "post"


async def test_a_private_message_is_received_and_answered(feishu: Feishu) -> None:
    heard = await feishu.say({"text": "hello"}, chat="p2p")
    assert str(heard.chat_key) == "feishu-private_ou_ann"
    assert heard.to_bot
    assert (await feishu.bench.send(heard.chat_key, "hi")).ok
    assert feishu.bench.driver.requests[-1].url.query["receive_id_type"] == "open_id"


@pytest.mark.parametrize(
    ("kind", "content", "form"),
    [
        ("image", {"image_key": "img_1"}, Image),
        ("audio", {"file_key": "file_1", "duration": 1000}, Voice),
        ("file", {"file_key": "file_1", "file_name": "a.txt"}, File),
    ],
)
async def test_received_media_are_fetched_by_their_keys(
    feishu: Feishu, kind: str, content: Any, form: type
) -> None:
    heard = await feishu.say(content, kind)
    assert isinstance(heard.segments[0], form)
    assert heard.segments[0].media.size == 5
    asked = feishu.bench.driver.requests[-1].url.path
    assert asked.endswith(f"/messages/om_1/resources/{content.get('image_key', 'file_1')}")


async def test_a_voice_is_sent_as_a_file(feishu: Feishu, tmp_path: Path) -> None:
    await feishu.say({"text": "hello"})
    path = tmp_path / "voice.wav"
    path.write_bytes(b"bytes")
    assert (await feishu.bench.send(GROUP, Voice(Media(path=str(path), name="voice.wav")))).ok
    assert feishu.sent[0] == "file"


async def test_a_refused_send_is_rejected_and_a_server_error_is_unknown(feishu: Feishu) -> None:
    await feishu.say({"text": "hello"})
    feishu.result = {"code": 230002, "msg": "bot is not in the chat"}
    receipt = await feishu.bench.send(GROUP, "hi")
    assert receipt.state is DeliveryState.REJECTED
    assert "bot is not in the chat" in receipt.reason
    feishu.status = 400
    assert (await feishu.bench.send(GROUP, "hi")).state is DeliveryState.REJECTED
    feishu.status = 502
    assert (await feishu.bench.send(GROUP, "hi")).state is DeliveryState.UNKNOWN


async def test_an_edit_replaces_the_text(feishu: Feishu) -> None:
    await feishu.say({"text": "hello"})
    receipt = await feishu.bench.edit(ChatKey.parse(GROUP), "om_9", "better, <at>")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "om_9")
    request = feishu.bench.driver.requests[-1]
    assert request.method == "PUT"
    assert request.url.path == "/open-apis/im/v1/messages/om_9"
    assert feishu.sent == ("text", {"text": "better, <\u200bat>"})
    feishu.result = {"code": 230072, "msg": "The message has reached its limit of edits"}
    refused = await feishu.bench.edit(ChatKey.parse(GROUP), "om_9", "once more")
    assert refused.state is DeliveryState.REJECTED
    assert "limit of edits" in refused.reason


async def test_notices_and_recalls_are_received(feishu: Feishu) -> None:
    await feishu.say({"text": "oops"})
    users = [{"name": "Bob", "tenant_key": "t", "user_id": {**ANN, "open_id": "ou_bob"}}]
    joined = {"chat_id": "oc_g", "operator_id": ANN, "external": False,
              "operator_tenant_key": "t", "users": users}  # fmt: skip
    await feishu.event("im.chat.member.user.added_v1", joined)
    recalled = {"message_id": "om_1", "chat_id": "oc_g", "recall_time": "1", "recall_type": "x"}
    await feishu.event("im.message.recalled_v1", recalled)
    _, notice = await feishu.bench.host.received(2)
    assert notice.notice == Notice("join", "ou_ann", "ou_bob", "Bob")
    await feishu.bench.host.until(lambda: bool(feishu.bench.host.recalled))
    assert feishu.bench.host.recalled == [(ChatKey.parse(GROUP), "om_1")]


async def test_markdown_becomes_a_post_with_styles(feishu: Feishu) -> None:
    await feishu.say({"text": "hello"})
    source = "# Plan\n**Go** to [it](https://example.org)\n```python\nx = 1\n```"
    assert (await feishu.bench.send(GROUP, Text(source, markdown=True))).ok
    kind, content = feishu.sent
    assert kind == "post"
    assert content["zh_cn"]["content"] == [
        [{"tag": "text", "text": "Plan", "style": ["bold"]}],
        [
            {"tag": "text", "text": "Go", "style": ["bold"]},
            {"tag": "text", "text": " to ", "style": []},
            {"tag": "a", "text": "it", "href": "https://example.org", "style": []},
        ],
        [{"tag": "code_block", "language": "PYTHON", "text": "x = 1"}],
    ]
