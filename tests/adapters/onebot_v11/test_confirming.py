"""If it is unknown whether a message was sent, the adapter looks it up in the implementation's
history. Some implementations have no history."""

import time
from pathlib import Path

import pytest

from nekro_core.api.adapter import SupportsConfirmation, UncertainDelivery
from nekro_core.api.chat import (
    ChatKey,
    Delivery,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Text,
)
from tests.adapters.onebot_v11.running import FRIEND, GROUP, Bot, running
from tests.peers.onebot_v11 import Async, OneBotPeer

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


async def doubtful(
    bot: Bot, peer: OneBotPeer, chat: ChatKey, *segments: Segment, arrives: bool = True
) -> UncertainDelivery:
    """Make a chat with one message of a person and one of the bot, and then send a message whose
    outcome is unknown."""
    kind, native = ("group", "30003") if chat is GROUP else ("private", "10001")
    asked = peer.account.message((kind, native), 10001, "hello")
    earlier = await bot.send(chat, "earlier")
    if arrives:
        peer.answer("send", Async())
        await bot.send(chat, *segments)
    ids = frozenset({str(asked["message_id"]), earlier.message_id})
    delivery = Delivery(delivery_id="d", chat_key=chat, segments=segments)
    return UncertainDelivery(delivery=delivery, since=time.time(), before=ids, taken=ids)


@pytest.fixture
def media(tmp_path: Path) -> Media:
    path = tmp_path / "dot.png"
    path.write_bytes(PNG)
    return Media(path=str(path), name="dot.png", mime="image/png", size=len(PNG), sha256="1")


@pytest.mark.parametrize("chat", [GROUP, FRIEND], ids=["group", "private"])
@pytest.mark.parametrize("arrives", [True, False])
async def test_text_picture_and_file_are_found_in_the_history(
    tmp_path: Path, media: Media, chat: ChatKey, arrives: bool
) -> None:
    messages: list[tuple[Segment, ...]] = [
        (Reply("1001"), Mention("10001"), Text(" look:\n"), Image(media)),
        (File(media),),
        (Text("[CQ:face,id=1] & <b>"),),
    ]
    async with running(tmp_path, api_timeout=0.4) as bot, bot.peer() as peer:
        assert isinstance(bot.adapter, SupportsConfirmation)
        await peer.wait_connected()
        await bot.hear_from()
        for segments in messages:
            doubt = await doubtful(bot, peer, chat, *segments, arrives=arrives)
            receipt = await bot.adapter.confirm(doubt)
            if arrives:
                said = peer.account.history[
                    ("group", "30003") if chat is GROUP else ("private", "10001")
                ]
                assert receipt.message_id == str(said[-1]["message_id"])
            wanted = DeliveryState.SENT if arrives else DeliveryState.REJECTED
            assert receipt.state is wanted, receipt


async def test_without_a_history_the_outcome_stays_unknown(tmp_path: Path) -> None:
    async with running(tmp_path, api_timeout=0.4) as bot, bot.peer(has_history=False) as peer:
        await peer.wait_connected()
        await bot.hear_from()
        receipt = await bot.adapter.confirm(await doubtful(bot, peer, GROUP, Text("hi")))
        assert receipt.state is DeliveryState.UNKNOWN


async def test_a_message_is_found_although_many_newer_ones_follow_it(tmp_path: Path) -> None:
    async with running(tmp_path, api_timeout=0.4) as bot, bot.peer() as peer:
        await peer.wait_connected()
        await bot.hear_from()
        doubt = await doubtful(bot, peer, GROUP, Text("hi"))
        for number in range(230):
            peer.account.message(("group", "30003"), 10001, f"and on {number}")
        receipt = await bot.adapter.confirm(doubt)
        assert receipt.state is DeliveryState.SENT
