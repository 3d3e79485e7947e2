"""Deliveries that OneBot v11 cannot send are refused before the call, with the reason."""

from pathlib import Path

import pytest

from adapters.onebot_v11.outgoing import CALL_BYTES, UnsendableMessage, call_for
from nekro_core.api.chat import (
    EVERYONE,
    ChatKey,
    Delivery,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Segment,
    Text,
    Unknown,
    Video,
    Voice,
)

GROUP = "onebot_v11-group_30003"
GONE = Media(path="/nowhere/a.png", name="a.png")


def delivery(*segments: Segment, key: str = GROUP) -> Delivery:
    return Delivery(delivery_id="d1", chat_key=ChatKey.parse(key), segments=segments)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (delivery(), "the message is empty"),
        (delivery(Text("")), "the message is empty"),
        (delivery(Reply("5")), "the message is empty"),
        (delivery(Forward(())), "the bundle is empty"),
        (delivery(Text("hi"), Forward(())), "type forward must be a message of its own"),
        (delivery(Notice("poke")), "cannot send a segment of type notice"),
        (delivery(Unknown("face")), "cannot send a segment of type unknown"),
        (delivery(Text("hi"), Voice(GONE)), "type voice must be a message of its own"),
        (delivery(File(GONE), File(GONE)), "type file must be a message of its own"),
        (delivery(Video(GONE), Image(GONE)), "type video must be a message of its own"),
        (delivery(Image(GONE)), "a.png cannot be read: No such file or directory"),
        (delivery(File(Media(name="x"))), "x cannot be read"),
        (delivery(Text("x"), key="onebot_v11-channel_5"), "no channels or threads"),
        (delivery(Text("x"), key="onebot_v11-group_5#7"), "no channels or threads"),
        (
            delivery(*[Image(Media(name="a", size=CALL_BYTES // 3))] * 4),
            "bytes of media in one message: at most",
        ),
    ],
)
async def test_a_message_that_cannot_be_sent_is_refused(refused: Delivery, reason: str) -> None:
    with pytest.raises(UnsendableMessage, match=reason):
        await call_for(refused)


async def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.touch()
    with pytest.raises(UnsendableMessage, match="is empty"):
        await call_for(delivery(File(Media(path=str(path), name="empty.txt"))))


async def test_the_reply_is_the_first_segment_of_a_message() -> None:
    call = await call_for(delivery(Mention(EVERYONE), Text("hi"), Reply("5"), Reply("6")))
    assert call.params == {
        "group_id": 30003,
        "message": [
            {"type": "reply", "data": {"id": "5"}},
            {"type": "at", "data": {"qq": "all"}},
            {"type": "text", "data": {"text": "hi"}},
        ],
    }


async def test_a_target_that_is_not_a_number_is_sent_as_text() -> None:
    call = await call_for(delivery(Text("hi"), key="onebot_v11-private_u%23x"))
    assert call.action == "send_private_msg"
    assert call.params["user_id"] == "u#x"
