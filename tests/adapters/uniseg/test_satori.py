"""The Satori adapter without a server: events and requests in the form of NoneBot's adapter."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nonebot.exception import NetworkError

from nekro_core.api.adapter import SupportsConfirmation, UncertainDelivery
from nekro_core.api.chat import (
    ChatKey,
    Delivery,
    DeliveryState,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Notice,
    Receipt,
    Reply,
    Segment,
    Text,
    Voice,
)
from tests.adapters.uniseg.peers.satori import GROUP, Satori
from tests.adapters.uniseg.stock import bench


@pytest.fixture
async def satori(tmp_path: Path) -> AsyncIterator[Satori]:
    async with bench(tmp_path, "satori", satori_clients=[]) as made:
        peer = Satori(made)
        made.connect(peer.bot)
        yield peer


async def test_a_message_is_received_and_answered(satori: Satori) -> None:
    await satori.say('<at id="bot1"/> 1 &lt; 2')
    message = await satori.bench.host.next_message()
    assert str(message.chat_key) == GROUP
    assert message.segments == (Mention("mem:bot1"), Text(" 1 < 2"))
    assert message.to_bot
    assert (message.sender.user_id, message.sender.name) == ("mem:ann", "Annie")
    assert message.time == 1_700_000_000

    receipt = await satori.bench.send(
        GROUP, Reply(message.message_id), Mention("mem:ann"), Mention("bob"), "1 < 2 indeed"
    )
    assert receipt.state is DeliveryState.SENT
    assert receipt.message_id == "m1@g1"
    assert satori.bench.driver.requests[-1].json == {
        "channel_id": "g1",
        "content": '<quote id="p1"/><at id="ann"/><at id="bob"/>1 &lt; 2 indeed',
    }


async def test_a_private_message_is_received_and_answered(satori: Satori) -> None:
    await satori.say("hello", private=True)
    message = await satori.bench.host.next_message()
    assert str(message.chat_key) == "satori-private_ann"
    assert message.to_bot
    assert (await satori.bench.send(message.chat_key, "hi")).ok
    assert satori.bench.driver.requests[-1].json["channel_id"] == "private:ann"


async def test_media_are_sent_with_their_type(satori: Satori, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    await satori.say("hello")
    await satori.bench.host.received(1)
    for form, mime in ((Image, "image/png"), (Voice, "audio/wav")):
        media = Media(path=str(path), name="a", mime=mime, size=8)
        assert (await satori.bench.send(GROUP, form(media))).ok
        assert f"data:{mime};base64,iVBOR" in satori.bench.driver.requests[-1].json["content"]


async def test_a_file_path_in_a_message_is_never_read(satori: Satori) -> None:
    await satori.say('<img src="file:///etc/passwd"/>')
    (image,) = (await satori.bench.host.next_message()).segments
    assert isinstance(image, Image)
    assert not image.media.path
    assert image.media.problem


async def test_notices_and_recalls_are_received(satori: Satori) -> None:
    await satori.say("oops", message_id="p9")
    place = {"channel": {"id": "g1", "type": 0}, "guild": {"id": "g1"}}
    await satori.event("guild-member-added", user={"id": "bob"}, **place)
    await satori.event(
        "message-deleted", user={"id": "ann"}, member={}, message={"id": "p9"}, **place
    )
    _, joined = await satori.bench.host.received(2)
    assert joined.notice == Notice("join", "mem:bob", "mem:bob")
    await satori.bench.host.until(lambda: bool(satori.bench.host.recalled))
    assert satori.bench.host.recalled == [(ChatKey.parse(GROUP), "p9@g1")]


@pytest.mark.parametrize(
    ("event", "kind", "call"),
    [
        ("friend-request", "friend", "friend.approve"),
        ("guild-request", "group_invite", "guild.approve"),
        ("guild-member-request", "group_join", "guild.member.approve"),
    ],
)
async def test_requests_are_handed_over_and_answered(
    satori: Satori, event: str, kind: str, call: str
) -> None:
    place = {} if kind == "friend" else {"guild": {"id": "g1"}, "member": {}}
    await satori.event(
        event, user={"id": "bob", "name": "Bob"}, message={"id": "r1", "content": "hi"}, **place
    )
    await satori.bench.host.until(lambda: bool(satori.bench.host.requests))
    (asked,) = satori.bench.host.requests
    assert (asked.kind, asked.user_id, asked.user_name) == (kind, "mem:bob", "Bob")
    assert (asked.text, asked.group_id) == ("hi", "g1" if place else "")
    await satori.bench.adapter.answer_request(asked, approve=False, reason="members only")
    asked_for = satori.bench.driver.requests[-1]
    assert asked_for.url.path.endswith(call)
    assert asked_for.json == {"message_id": "r1", "approve": False, "comment": "members only"}


async def test_a_bundle_is_sent_as_nested_messages(satori: Satori) -> None:
    await satori.say("hello")
    await satori.bench.host.received(1)
    bundle = Forward(
        (
            ForwardedMessage("mem:ann", "Annie", (Text("1 < 2"),)),
            ForwardedMessage("", "somebody", (Text("yes"),)),
        )
    )
    receipt = await satori.bench.send(GROUP, bundle)
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "m1@g1")
    assert satori.bench.driver.requests[-1].json["content"] == (
        "<message forward>"
        '<message><author id="ann" name="Annie"/>1 &lt; 2</message>'
        '<message><author id="bot1" name="somebody"/>yes</message>'
        "</message>"
    )


async def doubtful(
    satori: Satori, chat: str, *segments: Segment, arrives: bool
) -> UncertainDelivery:
    """Make a chat with one message of a person and one of the bot, and then send a message whose
    outcome is unknown."""
    private = "private" in chat
    await satori.say("hello", private=private)
    asked = await satori.bench.host.next_message()
    earlier = await satori.bench.send(chat, "earlier")
    if arrives:
        await satori.bench.send(chat, *segments)
    ids = frozenset({asked.message_id, earlier.message_id})
    delivery = Delivery(delivery_id="d", chat_key=ChatKey.parse(chat), segments=segments)
    return UncertainDelivery(delivery=delivery, since=time.time(), before=ids, taken=ids)


async def ask(satori: Satori, doubt: UncertainDelivery) -> Receipt:
    assert isinstance(satori.bench.adapter, SupportsConfirmation)
    return await satori.bench.adapter.confirm(doubt)


@pytest.mark.parametrize("chat", [GROUP, "satori-private_ann"])
@pytest.mark.parametrize("arrives", [True, False])
async def test_a_message_whose_outcome_is_unknown_is_looked_up_in_the_history(
    satori: Satori, tmp_path: Path, chat: str, arrives: bool
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    picture = Image(Media(path=str(path), name="a", mime="image/png", size=8))
    sent = (Reply("p1"), Mention("mem:ann"), Mention("mem:bot1"), Text("1 < 2 "), picture)
    receipt = await ask(satori, await doubtful(satori, chat, *sent, arrives=arrives))
    place = "private:ann" if "private" in chat else "g1"
    mine = "ann" if "private" in chat else "g1"
    if arrives:
        last = satori.history[place][-1]
        wanted = (DeliveryState.SENT, f"{last['id']}@{mine}")
    else:
        wanted = (DeliveryState.REJECTED, "")
    assert (receipt.state, receipt.message_id) == wanted, receipt.reason


async def test_if_the_platform_changed_the_text_the_outcome_stays_unknown(satori: Satori) -> None:
    doubt = await doubtful(satori, GROUP, Text("**hi**"), arrives=True)
    satori.history["g1"][-1]["content"] = "<b>hi</b>!"
    receipt = await ask(satori, doubt)
    assert receipt.state is DeliveryState.UNKNOWN
    assert "may be this one" in receipt.reason


async def test_a_history_with_the_newest_message_first_is_read(satori: Satori) -> None:
    doubt = await doubtful(satori, GROUP, Text("hi"), arrives=True)
    satori.history["g1"].reverse()
    assert (await ask(satori, doubt)).state is DeliveryState.SENT


async def test_without_a_history_the_outcome_stays_unknown(satori: Satori) -> None:
    doubt = await doubtful(satori, GROUP, Text("hi"), arrives=False)
    satori.bot._self_info.features.remove("message.list")
    receipt = await ask(satori, doubt)
    assert receipt.state is DeliveryState.UNKNOWN
    assert "does not offer message.list" in receipt.reason


async def test_without_a_connection_the_lookup_is_repeated_later(satori: Satori) -> None:
    doubt = await doubtful(satori, GROUP, Text("hi"), arrives=True)
    satori.refuse()
    assert (await ask(satori, doubt)).state is DeliveryState.UNKNOWN
    satori.bench.driver.answer = lambda _: NetworkError("gone")
    assert (await ask(satori, doubt)).state is DeliveryState.PENDING
    satori.bench.stock.bot_disconnect(satori.bot)
    assert (await ask(satori, doubt)).state is DeliveryState.PENDING
