"""The adapter of QQ's official bots without QQ's gateway, with events from QQ's wiki."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nekro_core.api.chat import (
    Author,
    ChatKey,
    DeliveryState,
    Image,
    Media,
    Mention,
    Record,
    Reply,
    Role,
    Text,
    Voice,
)
from tests.adapters.uniseg.peers.qq import CHANNEL, GROUP, QQ, TIME
from tests.adapters.uniseg.stock import bench

# Models of NoneBot's adapter cause these warnings.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
async def qq(tmp_path: Path) -> AsyncIterator[QQ]:
    async with bench(tmp_path, "qq", qq_bots=[]) as made:
        peer = QQ(made)
        made.connect(peer.bot)
        yield peer


async def test_an_answer_in_a_group_names_the_message_it_answers(qq: QQ) -> None:
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


async def test_an_answer_does_not_name_a_message_that_is_too_old(qq: QQ) -> None:
    await qq.say_in_group("hello")
    key = ChatKey.parse(GROUP)
    intake = qq.bench.adapter._intake
    target, at = intake._targets[key]
    intake._targets[key] = target, at - 300
    assert (await qq.bench.send(GROUP, "late")).ok
    assert "msg_id" not in qq.sent or not qq.sent["msg_id"]


@pytest.mark.parametrize(("minutes", "named"), [(1, True), (6, False)])
async def test_after_a_restart_an_answer_names_the_last_message(
    tmp_path: Path, minutes: float, named: bool
) -> None:
    said = datetime.now(UTC) - timedelta(minutes=minutes)
    async with bench(tmp_path, "qq", qq_bots=[]) as made:
        qq = QQ(made)
        made.connect(qq.bot)
        qq.time = said.isoformat()
        heard = await qq.say_in_group("hello")
        numbers = []
        for _ in range(10):
            assert (await made.send(GROUP, "yes")).ok
            numbers.append(qq.sent["msg_seq"])
    asked = Record(
        seq=1, chat_key=heard.chat_key, author=Author.PERSON, segments=heard.segments,
        time=heard.time, message_id=heard.message_id,
    )  # fmt: skip
    ours = Record(
        seq=2, chat_key=heard.chat_key, author=Author.BOT, segments=heard.segments,
        time=heard.time, message_id="m-1",
    )  # fmt: skip
    for _ in range(2):
        async with bench(tmp_path, "qq", lines=[asked, ours], qq_bots=[]) as made:
            qq = QQ(made)
            made.connect(qq.bot)
            await made.bound()
            assert (await made.send(GROUP, "and more")).ok
            assert bool(qq.sent.get("msg_id")) is named
            if named:
                assert qq.sent["msg_id"] == "p-1"
                # If an answer has a number that QQ has seen, QQ thinks that it is a repetition and
                # drops it.
                assert qq.sent["msg_seq"] > max(numbers)
                assert (await made.send(GROUP, "and more")).ok
                assert qq.sent["msg_seq"] > max(numbers) + 1
            qq.time = datetime.now(UTC).isoformat()
            await qq.say_in_group("later")
            await qq.tell_in_group("and later", "p-9")
            await made.host.received(2)
            assert (await made.send(GROUP, "yes")).ok
            assert qq.sent["msg_id"] == "p-9"


async def test_a_message_to_an_unknown_chat_is_sent(qq: QQ) -> None:
    await qq.bench.bound()
    assert (await qq.bench.send(GROUP, "good morning")).ok
    assert not qq.sent.get("msg_id")


async def test_messages_of_a_guild_channel_are_received_answered_and_recalled(qq: QQ) -> None:
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


async def test_plain_text_mentions_nobody(qq: QQ) -> None:
    await qq.say_in_group("hello")
    assert (await qq.bench.send(GROUP, "<@everyone> <qqbot-at-everyone />")).ok
    assert "<@" not in qq.sent["content"]
    assert "<qqbot" not in qq.sent["content"]


async def test_media_are_uploaded_before_the_message(qq: QQ, tmp_path: Path) -> None:
    await qq.say_in_group("hello")
    path = tmp_path / "x"
    path.write_bytes(b"bytes")
    for form, kind in ((Image, 1), (Voice, 3)):
        assert (await qq.bench.send(GROUP, form(Media(path=str(path))))).ok
        upload, message = qq.bench.driver.requests[-2:]
        assert upload.json["file_type"] == kind
        assert message.json["media"]["file_info"] == "info"


async def test_channels_take_no_voice_and_groups_take_no_reply(qq: QQ) -> None:
    channel = qq.bench.adapter.capabilities(ChatKey.parse(CHANNEL))
    group = qq.bench.adapter.capabilities(ChatKey.parse(GROUP))
    assert not channel.alone
    assert Reply not in group.inline
    assert Mention not in group.inline


async def test_a_private_message_is_received_and_answered(qq: QQ) -> None:
    author = {"id": "U1", "user_openid": "U1"}
    data = {"id": "p-3", "content": "hello", "timestamp": TIME, "author": author}
    await qq.event("C2C_MESSAGE_CREATE", data)
    heard = await qq.bench.host.next_message()
    assert str(heard.chat_key) == "qq-private_U1"
    assert heard.to_bot
    assert (await qq.bench.send(heard.chat_key, "hi")).ok
    assert "/v2/users/U1/messages" in qq.bench.driver.requests[-1].url.path


async def test_a_refused_send_is_rejected_with_its_reason(qq: QQ) -> None:
    await qq.say_in_group("hello")
    qq.status, qq.result = 400, {"code": 304003, "message": "no active push"}
    receipt = await qq.bench.send(GROUP, "hi")
    assert receipt.state is DeliveryState.REJECTED
    assert "no active push" in receipt.reason


async def test_a_request_to_join_a_group_is_handed_over_and_answered(qq: QQ) -> None:
    asked = {
        "group_openid": "G1", "join_request_id": "j1", "member_openid": "M1", "username": "Mo",
        "apply_at": TIME, "apply_source": "self_apply",
        "verify_info": {
            "method": "qa", "verify_message": "please",
            "review_qa_list": [{"question": "who?", "answer": "me"}],
        },
    }  # fmt: skip
    await qq.event("GROUP_JOIN_REQUEST", {**asked, "auto_approved": {"strategy_id": "1"}})
    await qq.event("GROUP_JOIN_REQUEST", asked)
    await qq.bench.host.until(lambda: bool(qq.bench.host.requests))
    (request,) = qq.bench.host.requests
    assert (request.kind, request.user_id, request.group_id) == ("group_join", "M1", "G1")
    assert request.text == "please\nwho? me"
    await qq.bench.adapter.answer_request(request, approve=False, reason="full")
    call = qq.bench.driver.requests[-1]
    assert call.url.path.endswith("/v2/groups/G1/approval_join_request/M1")
    assert call.json == {"op": "decline", "join_request_id": "j1", "reject_reason": "full"}


async def test_the_adapter_does_not_start_with_a_webhook_without_verification(
    tmp_path: Path,
) -> None:
    with pytest.raises(RuntimeError, match="QQ_VERIFY_WEBHOOK is off"):
        async with bench(tmp_path, "qq", qq_verify_webhook=False):
            pass
