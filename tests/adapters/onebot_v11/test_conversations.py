"""Conversations between a chat and the bot over a real WebSocket."""

import base64
import io
import wave
from pathlib import Path

import pytest

from nekro_core.api.chat import (
    ChatKey,
    DeliveryState,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Role,
    Text,
    Unknown,
    Voice,
)
from tests.adapters.onebot_v11.running import FRIEND, GROUP, Bot
from tests.peers.onebot_v11 import OneBotPeer, at, image, record, reply, text

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def inline(data: bytes) -> str:
    return f"base64://{base64.b64encode(data).decode()}"


def wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as voice:
        voice.setparams((1, 2, 16000, 160, "NONE", ""))
        voice.writeframes(bytes(320))
    return buffer.getvalue()


def medium(folder: Path, name: str, data: bytes) -> Media:
    path = folder / name
    path.write_bytes(data)
    return Media(path=str(path), name=name, size=len(data))


async def test_a_mention_in_a_group_is_received_and_answered(bot: Bot, peer: OneBotPeer) -> None:
    said = await peer.say_in_group(30003, 10001, "roll a die", at_me=True)
    heard = await bot.host.next_message()
    assert heard.chat_key == GROUP
    assert heard.message_id == str(said)
    assert heard.segments == (Mention("20002"), Text("roll a die"))
    assert heard.sender.user_id == "10001"
    assert heard.sender.name == "name of 10001"
    assert heard.account == "20002"
    assert heard.to_bot
    assert not heard.from_history

    receipt = await bot.send(GROUP, Reply(str(said)), Mention("10001"), " a five")
    sent = await peer.next_send()
    assert (sent.action, sent.params["group_id"]) == ("send_group_msg", 30003)
    assert sent.segments == [reply(said), at(10001), text(" a five")]
    assert receipt.ok
    assert receipt.message_id == str(sent.data["message_id"])


async def test_a_private_message_is_always_for_the_bot(bot: Bot, peer: OneBotPeer) -> None:
    await peer.say_in_private(10001, "hello")
    heard = await bot.host.next_message()
    assert heard.chat_key == FRIEND
    assert heard.to_bot
    assert (await bot.send(FRIEND, "hi")).ok
    sent = await peer.next_send()
    assert (sent.action, sent.params["user_id"]) == ("send_private_msg", 10001)


async def test_text_picture_voice_and_file_are_sent(
    bot: Bot, peer: OneBotPeer, tmp_path: Path
) -> None:
    picture, voice = medium(tmp_path, "dot.png", PNG), medium(tmp_path, "night.wav", wav())
    assert (await bot.send(GROUP, "look ", Image(picture))).ok
    assert (await peer.next_send()).segments == [text("look "), image(inline(PNG))]
    assert (await bot.send(GROUP, Voice(voice, "good night"))).ok
    assert (await peer.next_send()).segments == [record(inline(wav()))]
    assert (await bot.send(GROUP, File(medium(tmp_path, "notes.txt", b"abc")))).ok
    upload = await peer.next_send()
    assert upload.action == "upload_group_file"
    assert upload.params == {"group_id": 30003, "file": inline(b"abc"), "name": "notes.txt"}
    assert (await bot.send(FRIEND, File(medium(tmp_path, "notes.txt", b"abc")))).ok
    assert (await peer.next_send()).action == "upload_private_file"


async def test_received_media_are_stored(bot: Bot, peer: OneBotPeer) -> None:
    peer.account.files["voice.amr"] = {"file": "/on/its/disk.wav", "base64": "UklGRg=="}
    peer.account.files["f1"] = {"url": inline(b"a file")}
    await peer.say_in_group(
        30003,
        10001,
        [
            image("cat.png", url=inline(PNG)),
            record("voice.amr", url="/on/its/disk.amr"),
            {"type": "file", "data": {"file": "notes.txt", "file_id": "f1"}},
            image("gone.png"),
        ],
    )
    picture, voice, file, gone = (await bot.host.next_message()).segments
    assert isinstance(picture, Image)
    assert Path(picture.media.path).read_bytes() == PNG
    assert picture.media.name == "cat.png"
    assert isinstance(voice, Voice)
    assert Path(voice.media.path).read_bytes() == b"RIFF"
    assert isinstance(file, File)
    assert Path(file.media.path).read_bytes() == b"a file"
    assert isinstance(gone, Image)
    assert gone.media.path == ""
    assert "no address" in gone.media.problem


async def test_a_reply_to_the_bot_is_for_the_bot(bot: Bot, peer: OneBotPeer) -> None:
    receipt = await bot.send(GROUP, "the weather is fine")
    await peer.say_in_group(30003, 10001, [reply(receipt.message_id), text("really?")])
    heard = await bot.host.next_message()
    assert heard.segments[0] == Reply(receipt.message_id, "20002", "the weather is fine")
    assert heard.to_bot

    other = await peer.say_in_group(30003, 10001, "what do you say?")
    await peer.say_in_group(30003, 10002, [reply(other), text("nothing")])
    await bot.host.next_message()
    heard = await bot.host.next_message()
    assert heard.segments[0] == Reply(str(other), "10001", "what do you say?")
    assert not heard.to_bot


async def test_the_messages_of_a_forwarded_bundle_are_read(bot: Bot, peer: OneBotPeer) -> None:
    peer.account.forwards["abc"] = {
        "messages": [
            {
                "sender": {"user_id": 1, "nickname": "Lin"},
                "time": 5,
                "message": [text("first"), image("a.png", url=inline(PNG))],
            },
            {"type": "node", "data": {"user_id": "2", "nickname": "Mo", "content": "second"}},
        ]
    }
    await peer.say_in_group(30003, 10001, {"type": "forward", "data": {"id": "abc"}})
    (bundle,) = (await bot.host.next_message()).segments
    assert isinstance(bundle, Forward)
    first, second = bundle.messages
    assert (first.sender_id, first.sender_name, first.time) == ("1", "Lin", 5.0)
    assert first.segments[0] == Text("first")
    assert isinstance(first.segments[1], Image)
    assert (second.sender_id, second.segments) == ("2", (Text("second"),))


async def test_nested_bundles_are_read_to_a_depth_of_three(bot: Bot, peer: OneBotPeer) -> None:
    peer.account.forwards["abc"] = {
        "messages": [{"sender": {}, "message": [{"type": "forward", "data": {"id": "abc"}}]}]
    }
    await peer.say_in_group(30003, 10001, {"type": "forward", "data": {"id": "abc"}})
    (bundle,) = (await bot.host.next_message()).segments
    depth = 0
    while isinstance(bundle, Forward):
        depth, bundle = depth + 1, bundle.messages[0].segments[0]
    assert depth == 3
    assert isinstance(bundle, Unknown)


async def test_pokes_joins_and_kicks_become_notices(bot: Bot, peer: OneBotPeer) -> None:
    people = {"group_id": 30003, "user_id": 10001}
    await peer.notice("notify", sub_type="poke", target_id=20002, **people)
    heard = await bot.host.next_message()
    assert heard.notice == Notice("poke", "10001", "20002")
    assert heard.to_bot
    assert heard.message_id == ""
    await peer.notice("group_increase", sub_type="approve", operator_id=0, **people)
    assert (await bot.host.next_message()).notice == Notice("join", "10001", "10001", "approve")
    await peer.notice("group_decrease", sub_type="kick", operator_id=10003, **people)
    assert (await bot.host.next_message()).notice == Notice("leave", "10003", "10001", "kick")
    await peer.notice("group_msg_emoji_like", likes=[{"emoji_id": "66"}], **people)
    notice = (await bot.host.next_message()).notice
    assert notice is not None
    assert notice.kind == "group_msg_emoji_like"
    await peer.notice("notify", sub_type="input_status", user_id=10001, group_id=0)
    peer.account.files["f1"] = {"url": inline(b"a file")}
    await peer.notice("group_upload", file={"id": "f1", "name": "a.txt", "size": 6}, **people)
    (file,) = (await bot.host.next_message()).segments
    assert isinstance(file, File)
    assert (file.media.name, file.media.size) == ("a.txt", 6)


async def test_a_file_that_is_reported_twice_is_received_once(bot: Bot, peer: OneBotPeer) -> None:
    peer.account.files["f1"] = {"url": inline(b"a file")}
    data = {"file": "a.txt", "file_id": "f1"}
    await peer.say_in_group(30003, 10001, {"type": "file", "data": data})
    people = {"group_id": 30003, "user_id": 10001}
    await peer.notice("group_upload", file={"id": "f1", "name": "a.txt", "size": 6}, **people)
    await peer.say_in_group(30003, 10001, "look at it")
    heard = await bot.host.received(2)
    assert [message.text for message in heard] == ["[file: a.txt]", "look at it"]


async def test_a_recall_reaches_the_host_after_the_message(bot: Bot, peer: OneBotPeer) -> None:
    said = await peer.say_in_group(30003, 10001, "forget this")
    await peer.notice("group_recall", group_id=30003, user_id=10001, message_id=said)
    await peer.notice("friend_recall", user_id=10001, message_id=7)
    await bot.host.until(lambda: len(bot.host.recalled) == 2)
    assert (GROUP, str(said)) in bot.host.recalled
    assert (FRIEND, "7") in bot.host.recalled
    assert bot.host.accepted[0].message_id == str(said)


@pytest.mark.parametrize("strings", [False, True])
async def test_cq_codes_in_a_text_stay_text(bot: Bot, strings: bool) -> None:
    async with bot.peer("20007", string_messages=strings) as peer:
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "[CQ:at,qq=all] & [x]", at_me=True)
        heard = await bot.host.next_message()
        assert heard.segments == (Mention("20007"), Text("[CQ:at,qq=all] & [x]"))
        assert (await bot.send(heard.chat_key, "[CQ:at,qq=all]")).ok
        assert (await peer.next_send()).segments == [text("[CQ:at,qq=all]")]


async def test_the_senders_role_and_group_name_are_read(bot: Bot, peer: OneBotPeer) -> None:
    event = peer.account.message(("group", "30003"), 10001, "hi", role="owner")
    event["sender"]["card"] = "  Cap\ud800tain"
    await peer.emit(event)
    sender = (await bot.host.next_message()).sender
    assert sender.role is Role.OWNER
    assert sender.name == "  Cap�tain"


async def test_an_account_without_a_connection_sends_nothing(bot: Bot, peer: OneBotPeer) -> None:
    other = ChatKey.parse("onebot_v11.777-group_30003")
    assert (await bot.send(other, "hi")).state is DeliveryState.REJECTED
    peer.reconnect_s = None
    peer.abort()
    await peer.wait_disconnected()
    receipt = await bot.send(GROUP, "hi")
    # The server has not noticed yet that the connection was reset.
    while receipt.state is DeliveryState.UNKNOWN:
        receipt = await bot.send(GROUP, "hi")
    assert receipt.state is DeliveryState.PENDING
    assert "not connected" in receipt.reason
