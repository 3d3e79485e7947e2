"""The Milky adapter without an implementation, with events and calls of Milky's protocol page."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nekro_core.api.adapter import CannotDo
from nekro_core.api.chat import (
    ChatKey,
    DeliveryState,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Role,
    Text,
    Voice,
)
from tests.adapters.uniseg.peers.milky import GROUP, Milky
from tests.adapters.uniseg.stock import bench


@pytest.fixture
async def milky(tmp_path: Path) -> AsyncIterator[Milky]:
    async with bench(tmp_path, "milky", milky_clients=[]) as made:
        peer = Milky(made)
        made.connect(peer.bot)
        yield peer


async def test_a_message_is_received_and_answered(milky: Milky) -> None:
    heard = await milky.say({"type": "mention", "data": {"user_id": 20002, "name": "x"}}, " hi")
    assert str(heard.chat_key) == GROUP
    assert heard.segments == (Mention("20002"), Text(" hi"))
    assert heard.to_bot
    assert (heard.sender.name, heard.sender.role) == ("Annie", Role.ADMIN)
    receipt = await milky.bench.send(GROUP, Reply(heard.message_id), Mention("10001"), "yes")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "78@30003")
    action, params = milky.call
    assert action == "send_group_message"
    assert [(each["type"], each["data"]) for each in params["message"]] == [
        ("reply", {"message_seq": 77}),
        ("mention", {"user_id": 10001}),
        ("text", {"text": "yes"}),
    ]


async def test_messages_of_two_chats_may_have_the_same_number(milky: Milky) -> None:
    first = await milky.say("one", seq=5)
    other = await milky.say("two", seq=5, scene="friend")
    assert first.message_id != other.message_id


async def test_a_strangers_private_message_is_private(milky: Milky) -> None:
    heard = await milky.say("hello", scene="temp")
    assert str(heard.chat_key) == "milky-private_10001"
    assert (await milky.bench.send(heard.chat_key, "hi")).ok
    assert milky.call[0] == "send_private_message"


async def test_files_are_received_and_sent(milky: Milky, tmp_path: Path) -> None:
    await milky.event(
        "group_file_upload", group_id=30003, user_id=10001, file_id="/f9", file_name="a.txt",
        file_size=3,
    )  # fmt: skip
    heard = await milky.bench.host.next_message()
    assert isinstance(heard.segments[0], File)
    assert milky.bench.host.media.asked == ["https://example.com/file"]
    path = tmp_path / "b.txt"
    path.write_text("words")
    assert (await milky.bench.send(GROUP, File(Media(path=str(path), name="b.txt")))).ok
    action, params = milky.call
    assert (action, params["file_name"]) == ("upload_group_file", "b.txt")
    assert params["file_uri"] == "base64://" + base64.b64encode(b"words").decode()


async def test_pictures_and_voices_are_sent_inside_the_call(milky: Milky, tmp_path: Path) -> None:
    await milky.say("hello")
    path = tmp_path / "x"
    path.write_bytes(b"bytes")
    for form, kind in ((Image, "image"), (Voice, "record")):
        assert (await milky.bench.send(GROUP, form(Media(path=str(path))))).ok
        assert milky.call[1]["message"][0]["type"] == kind


async def test_a_bundle_is_sent_as_one_forward_segment(milky: Milky, tmp_path: Path) -> None:
    await milky.say("hello")
    path = tmp_path / "x"
    path.write_bytes(b"bytes")
    picture = Image(Media(path=str(path)))
    bundle = Forward(
        (
            ForwardedMessage("10001", "Mei", (Text("look: "), picture)),
            ForwardedMessage("a member", "", (Text("yes"),)),
        )
    )
    receipt = await milky.bench.send(GROUP, bundle)
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "78@30003")
    action, params = milky.call
    (sent,) = params["message"]
    assert (action, sent["type"]) == ("send_group_message", "forward")
    first, second = sent["data"]["messages"]
    assert (first["user_id"], first["sender_name"]) == (10001, "Mei")
    assert [part["type"] for part in first["segments"]] == ["text", "image"]
    # A sender without a number is sent under the bot's own number, with the sender's name.
    assert (second["user_id"], second["sender_name"]) == (20002, "a member")


async def test_notices_and_recalls_are_received(milky: Milky) -> None:
    await milky.say("oops", seq=9)
    await milky.event("group_member_increase", group_id=30003, user_id=10002, operator_id=10001)
    nudge = {
        "group_id": 30003,
        "display_action": "",
        "display_suffix": "",
        "display_action_img_url": "",
    }
    await milky.event("group_nudge", sender_id=10001, receiver_id=20002, **nudge)
    await milky.event(
        "message_recall", message_scene="group", peer_id=30003, message_seq=9, sender_id=10001,
        operator_id=10001, display_suffix="",
    )  # fmt: skip
    _, joined, poked = await milky.bench.host.received(3)
    assert joined.notice == Notice("join", "10001", "10002")
    assert poked.notice == Notice("poke", "10001", "20002")
    assert poked.to_bot
    await milky.bench.host.until(lambda: bool(milky.bench.host.recalled))
    assert milky.bench.host.recalled == [(ChatKey.parse(GROUP), "9@30003")]


@pytest.mark.parametrize(
    ("event", "data", "kind", "approval", "refusal"),
    [
        (
            "friend_request",
            {"initiator_uid": "u_1", "comment": "it is me", "via": "search"},
            "friend",
            ("accept_friend_request", {"initiator_uid": "u_1"}),
            ("reject_friend_request", {"initiator_uid": "u_1", "reason": "no"}),
        ),
        (
            "group_join_request",
            {"group_id": 30003, "notification_seq": 7, "is_filtered": True, "comment": "hi"},
            "group_join",
            (
                "accept_group_request",
                {"notification_seq": 7, "notification_type": "join_request", "group_id": 30003,
                 "is_filtered": True},
            ),
            (
                "reject_group_request",
                {"notification_seq": 7, "notification_type": "join_request", "group_id": 30003,
                 "is_filtered": True, "reason": "no"},
            ),
        ),
        (
            "group_invited_join_request",
            {"group_id": 30003, "notification_seq": 8, "target_user_id": 10009},
            "group_join",
            (
                "accept_group_request",
                {"notification_seq": 8, "notification_type": "invited_join_request",
                 "group_id": 30003, "is_filtered": False},
            ),
            (
                "reject_group_request",
                {"notification_seq": 8, "notification_type": "invited_join_request",
                 "group_id": 30003, "is_filtered": False, "reason": "no"},
            ),
        ),
        (
            "group_invitation",
            {"group_id": 30003, "invitation_seq": 9},
            "group_invite",
            ("accept_group_invitation", {"group_id": 30003, "invitation_seq": 9}),
            ("reject_group_invitation", {"group_id": 30003, "invitation_seq": 9}),
        ),
    ],
)  # fmt: skip
async def test_requests_are_handed_over_and_answered(
    milky: Milky, event: str, data: dict[str, Any], kind: str, approval: Any, refusal: Any
) -> None:
    await milky.event(event, initiator_id=10001, **data)
    await milky.bench.host.until(lambda: bool(milky.bench.host.requests))
    (asked,) = milky.bench.host.requests
    assert (asked.kind, asked.user_id, asked.account) == (kind, "10001", "20002")
    assert asked.group_id == ("" if kind == "friend" else "30003")
    for approve, expected in ((True, approval), (False, refusal)):
        await milky.bench.adapter.answer_request(asked, approve=approve, reason="no")
        action, params = milky.call
        assert action == expected[0]
        assert params.items() >= expected[1].items()


async def test_if_the_platform_refuses_the_answer_to_an_invitation_the_error_has_its_reason(
    milky: Milky,
) -> None:
    await milky.event("group_invitation", initiator_id=1, group_id=30003, invitation_seq=9)
    await milky.bench.host.until(lambda: bool(milky.bench.host.requests))
    milky.bench.driver.answer = milky.refusal
    with pytest.raises(CannotDo, match="muted"):
        await milky.bench.adapter.answer_request(
            milky.bench.host.requests[0], approve=True, reason=""
        )


async def test_the_adapter_does_not_start_with_a_webhook_that_needs_no_token(
    tmp_path: Path,
) -> None:
    with pytest.raises(RuntimeError, match="MILKY_WEBHOOK has no access_token"):
        async with bench(tmp_path, "milky", milky_webhook={"host": "127.0.0.1", "port": 1}):
            pass
