"""Satori without a server: events as its adapter parses them, requests as it writes them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.api.chat import (
    ChatKey,
    DeliveryState,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
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


async def test_a_message_comes_in_and_an_answer_goes_out(satori: Satori) -> None:
    await satori.say('<at id="bot1"/> 1 &lt; 2')
    message = await satori.bench.host.next_message()
    assert str(message.chat_key) == GROUP
    assert message.segments == (Mention("mem:bot1"), Text(" 1 < 2"))
    assert message.to_bot
    assert message.sender.name == "Annie"
    assert message.time == 1_700_000_000

    receipt = await satori.bench.send(
        GROUP, Reply(message.message_id), Mention("ann"), "1 < 2 indeed"
    )
    assert receipt.state is DeliveryState.SENT
    assert receipt.message_id == "m1@g1"
    assert satori.bench.driver.requests[-1].json == {
        "channel_id": "g1",
        "content": '<quote id="p1"/><at id="ann"/>1 &lt; 2 indeed',
    }


async def test_a_private_chat(satori: Satori) -> None:
    await satori.say("hello", private=True)
    message = await satori.bench.host.next_message()
    assert str(message.chat_key) == "satori-private_ann"
    assert message.to_bot
    assert (await satori.bench.send(message.chat_key, "hi")).ok
    assert satori.bench.driver.requests[-1].json["channel_id"] == "private:ann"


async def test_media_go_out_with_their_type(satori: Satori, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    await satori.say("hello")
    await satori.bench.host.heard(1)
    for form, mime in ((Image, "image/png"), (Voice, "audio/wav")):
        media = Media(path=str(path), name="a", mime=mime, size=8)
        assert (await satori.bench.send(GROUP, form(media))).ok
        assert f"data:{mime};base64,iVBOR" in satori.bench.driver.requests[-1].json["content"]


async def test_a_path_in_a_message_is_never_read(satori: Satori) -> None:
    await satori.say('<img src="file:///etc/passwd"/>')
    (image,) = (await satori.bench.host.next_message()).segments
    assert isinstance(image, Image)
    assert not image.media.path
    assert image.media.problem


async def test_notices_and_recalls(satori: Satori) -> None:
    await satori.say("oops", message_id="p9")
    place = {"channel": {"id": "g1", "type": 0}, "guild": {"id": "g1"}}
    await satori.event("guild-member-added", user={"id": "bob"}, **place)
    await satori.event(
        "message-deleted", user={"id": "ann"}, member={}, message={"id": "p9"}, **place
    )
    _, joined = await satori.bench.host.heard(2)
    assert joined.notice == Notice("join", "bob", "bob")
    await satori.bench.host.until(lambda: bool(satori.bench.host.recalled))
    assert satori.bench.host.recalled == [(ChatKey.parse(GROUP), "p9@g1")]
