"""Bundles of messages are sent in the form that each OneBot implementation accepts."""

import time
from pathlib import Path

import pytest

from nekro_core.api.adapter import SupportsConfirmation, UncertainDelivery
from nekro_core.api.chat import (
    ChatKey,
    Delivery,
    DeliveryState,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Text,
    Voice,
)
from tests.adapters.onebot_v11.running import FRIEND, GROUP, Bot, running
from tests.peers.onebot_v11 import Async, OneBotPeer

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
DIALECTS = ["napcat", "go-cqhttp", "lagrange"]


@pytest.fixture
def bundle(tmp_path: Path) -> Forward:
    path = tmp_path / "dot.png"
    path.write_bytes(PNG)
    picture = Image(Media(path=str(path), name="dot.png", mime="image/png", size=len(PNG)))
    return Forward(
        (
            ForwardedMessage("10001", "Mei", (Text("look: "), picture)),
            ForwardedMessage("a member", "", (Text("[CQ:at,qq=all]"),)),
        )
    )


@pytest.mark.parametrize("chat", [GROUP, FRIEND], ids=["group", "private"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_bundle_is_sent_in_the_form_of_each_implementation(
    tmp_path: Path, bundle: Forward, chat: ChatKey, dialect: str
) -> None:
    async with running(tmp_path) as bot, bot.peer() as peer:
        peer.account.bundles = dialect
        await peer.wait_connected()
        await bot.hear_from()
        receipt = await bot.send(chat, bundle)
        said = peer.account.history[("group", "30003") if chat is GROUP else ("private", "10001")]
        assert receipt.ok
        assert receipt.message_id == str(said[-1]["message_id"])
        first, second = peer.account.forwards["res-1"]["messages"]
        assert first["sender"] == {"user_id": 10001, "nickname": "Mei"}
        assert [part["type"] for part in first["message"]] == ["text", "image"]
        assert first["message"][1]["data"]["file"].startswith("base64://")
        # A sender without a QQ number is sent under the bot's own number, with the sender's name.
        assert second["sender"] == {"user_id": 20002, "nickname": "a member"}
        assert second["message"] == [{"type": "text", "data": {"text": "[CQ:at,qq=all]"}}]


async def test_after_an_implementation_refused_a_bundle_no_more_bundles_are_offered(
    tmp_path: Path, bundle: Forward
) -> None:
    async with running(tmp_path) as bot, bot.peer() as peer:
        peer.account.bundles = ""
        await peer.wait_connected()
        await bot.hear_from()
        assert Forward in bot.adapter.capabilities(GROUP).alone
        receipt = await bot.send(GROUP, bundle)
        assert receipt.state is DeliveryState.REJECTED
        assert "no send_group_forward_msg" in receipt.reason
        assert Forward not in bot.adapter.capabilities(FRIEND).alone


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (Forward(()), "the bundle is empty"),
        (Forward((ForwardedMessage("1", "Mei", ()),)), "a message of the bundle is empty"),
        (Forward((ForwardedMessage("1", "Mei", (Voice(Media()),)),)), "voice can be in a bundle"),
    ],
)
async def test_an_invalid_bundle_is_refused(tmp_path: Path, wrong: Forward, reason: str) -> None:
    async with running(tmp_path) as bot, bot.peer() as peer:
        await peer.wait_connected()
        await bot.hear_from()
        receipt = await bot.send(GROUP, wrong)
        assert receipt.state is DeliveryState.REJECTED
        assert reason in receipt.reason
        assert not [call for call in peer.calls if call.action.startswith("send_")]


async def doubtful(
    bot: Bot, peer: OneBotPeer, bundle: Forward, *, arrives: bool
) -> UncertainDelivery:
    """Make a chat with one message of a person and one of the bot, and then send a bundle whose
    outcome is unknown."""
    asked = peer.account.message(("group", "30003"), 10001, "hello")
    earlier = await bot.send(GROUP, "earlier")
    if arrives:
        peer.answer("send_group_forward_msg", Async())
        assert (await bot.send(GROUP, bundle)).state is DeliveryState.UNKNOWN
    ids = frozenset({str(asked["message_id"]), earlier.message_id})
    delivery = Delivery(delivery_id="d", chat_key=GROUP, segments=(bundle,))
    return UncertainDelivery(delivery=delivery, since=time.time(), before=ids, taken=ids)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("arrives", [True, False])
async def test_a_bundle_whose_outcome_is_unknown_is_looked_up_in_the_history(
    tmp_path: Path, bundle: Forward, dialect: str, arrives: bool
) -> None:
    async with running(tmp_path, api_timeout=0.2) as bot, bot.peer() as peer:
        assert isinstance(bot.adapter, SupportsConfirmation)
        peer.account.bundles = dialect
        await peer.wait_connected()
        await bot.hear_from()
        receipt = await bot.adapter.confirm(await doubtful(bot, peer, bundle, arrives=arrives))
        said = peer.account.history[("group", "30003")][-1]
        assert receipt.state is (DeliveryState.SENT if arrives else DeliveryState.REJECTED)
        assert receipt.message_id == (str(said["message_id"]) if arrives else "")
