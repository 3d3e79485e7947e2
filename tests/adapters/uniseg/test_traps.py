"""Surprising behaviour of NoneBot and uniseg does not reach the bot. Some tests here fail when a
library repairs a fault that the adapter works around. Then the workaround can be removed."""

import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from nonebot.adapters import Event
from nonebot.adapters.satori import Bot
from nonebot.adapters.satori.config import ClientInfo
from nonebot.adapters.satori.models import Login
from nonebot.matcher import Matcher, matchers

from nekro_core.api.chat import DeliveryState, File, Image, Media, Reply, Text, Voice
from tests.adapters.uniseg.peers.satori import GROUP, Satori
from tests.adapters.uniseg.stock import bench


@pytest.fixture
async def satori(tmp_path: Path) -> AsyncIterator[Satori]:
    async with bench(tmp_path, "satori", satori_clients=[]) as made:
        peer = Satori(made)
        made.connect(peer.bot)
        await made.bound()
        yield peer


@pytest.fixture
def uniseg(satori: Satori) -> Any:
    """Import the library uniseg. It can be imported only after NoneBot has a driver."""
    return importlib.import_module("nonebot_plugin_alconna.uniseg")


def second_account(satori: Satori) -> Bot:
    login = Login.model_validate(
        {"platform": "mem", "status": 1, "user": {"id": "bot2"}, "sn": 2, "adapter": "mem"}
    )
    return Bot(satori.bench.stock, "bot2", login, ClientInfo(port=1), [])


async def test_an_offline_accounts_message_is_not_sent_by_another_account(satori: Satori) -> None:
    other = second_account(satori)
    satori.bench.connect(other)
    satori.bench.stock.bot_disconnect(satori.bot)
    receipt = await satori.bench.send(GROUP, "hello")
    assert receipt.state is DeliveryState.PENDING
    assert "mem:bot1 is not connected" in receipt.reason
    assert satori.bench.driver.requests == []


async def test_two_accounts_in_one_group_have_separate_chats(
    satori: Satori,
) -> None:
    other = second_account(satori)
    satori.bench.host._instances["satori", "mem:bot2"] = "satori.two"
    satori.bench.connect(other)
    await satori.say("hello", message_id="p1")
    satori.bot = other
    await satori.say("hello", message_id="p1")
    first, second = await satori.bench.host.received(2)
    assert (str(first.chat_key), first.account) == (GROUP, "mem:bot1")
    assert (str(second.chat_key), second.account) == ("satori.two-group_g1", "mem:bot2")
    await satori.event(
        "message-created", channel={"id": "g1", "type": 0}, guild={"id": "g1"}, member={},
        user={"id": "bot1"}, message={"id": "m7", "content": "I am the first"},
    )  # fmt: skip
    third = (await satori.bench.host.received(3))[2]
    assert third.sender.user_id == "mem:bot1", (
        "the inbox recognizes the sender as one of our accounts"
    )


async def test_a_text_with_a_file_or_voice_in_one_message_is_refused(
    satori: Satori, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("words")
    medium = Media(path=str(path), name="a.txt", size=5)
    for alone in (File(medium), Voice(medium)):
        receipt = await satori.bench.send(GROUP, "a text", alone)
        assert receipt.state is DeliveryState.REJECTED
        assert "a message of its own" in receipt.reason
    assert satori.bench.driver.requests == []


async def test_a_segment_that_cannot_be_written_is_refused(satori: Satori, uniseg: Any) -> None:
    bridge = satori.bench.adapter._intake.bridge
    with pytest.raises(ValueError, match="Satori cannot carry it"):
        await bridge.write([uniseg.Image(raw=b"no type is given")], satori.bot)


async def test_messages_stay_in_order_while_one_waits_for_its_media(satori: Satori) -> None:
    host = satori.bench.host
    slow = anyio.Event()
    keep = host.media.keep_url

    async def keep_slowly(*args: Any, **more: Any) -> Media:
        await slow.wait()
        return await keep(*args, **more)

    host.media.keep_url = keep_slowly  # type: ignore[method-assign]
    await satori.say('<img src="https://example.com/a.png"/>', message_id="p1")
    await satori.say("second", message_id="p2")
    await anyio.sleep(0.05)
    assert host.accepted == []
    slow.set()
    assert [each.message_id for each in await host.received(2)] == ["p1@g1", "p2@g1"]


async def test_a_message_is_stored_without_a_request_to_the_network(satori: Satori) -> None:
    await satori.say('<quote id="m0"/>what?')
    heard = await satori.bench.host.next_message()
    assert heard.segments[0] == Reply("m0@g1")
    assert satori.bench.driver.requests == [], "NoneBot itself would send message.get"


async def test_a_matcher_and_the_bot_both_receive_a_message(satori: Satori) -> None:
    assert not any(matchers.values())
    heard: list[str] = []

    async def answer(event: Event) -> None:
        heard.append(event.get_plaintext())

    matcher = Matcher.new("message", handlers=[answer])
    try:
        await satori.say('<at id="bot1"/> hello')
    finally:
        matcher.destroy()
    assert heard == ["hello"]
    message = await satori.bench.host.next_message()
    assert message.text == "@mem:bot1  hello", "the record has the mention that NoneBot cut off"


async def test_an_unreadable_event_is_skipped(satori: Satori) -> None:
    class Strange:
        def __getattr__(self, name: str) -> Any:
            raise OSError(name)

    await satori.bench.hear(satori.bot, Strange())  # type: ignore[arg-type]
    await satori.say("hello")
    assert (await satori.bench.host.next_message()).text == "hello"


async def test_uniseg_still_uses_a_discord_channel_id_as_a_user_id(
    uniseg: Any,
) -> None:
    """When uniseg has repaired this, `Discord.place` can be removed."""
    source = Path(uniseg.__file__).parent / "adapters" / "discord" / "exporter.py"
    text = source.read_text()
    direct = text[text.index("DirectMessageCreateEvent):") :]
    assert "str(event.channel_id)" in direct[: direct.index(")\n", 40)]
    assert "create_DM(recipient_id=int(target.id))" in text


async def test_a_picture_that_cannot_be_fetched_is_received_with_the_reason_in_place_of_its_bytes(
    satori: Satori,
) -> None:
    await satori.say('<img src="internal:somewhere"/>')
    satori.bench.driver.answer = lambda _: OSError("gone")
    (image,) = (await satori.bench.host.next_message()).segments
    assert isinstance(image, Image)
    assert image.media.problem or image.media.path


async def test_messages_received_before_the_adapter_closes_are_stored(satori: Satori) -> None:
    for number in range(20):
        await satori.say(f"line {number}", message_id=f"p{number}")
    await satori.bench.adapter.aclose()
    assert len(satori.bench.host.accepted) == 20


async def test_an_account_is_bound_although_the_store_failed_at_first(tmp_path: Path) -> None:
    async with bench(tmp_path, "satori", satori_clients=[]) as made:
        bind, failures = made.host.instance_of, [OSError("disk full")]

        async def instance_of(adapter: str, account: str) -> str:
            if failures:
                raise failures.pop()
            return await bind(adapter, account)

        made.host.instance_of = instance_of  # type: ignore[method-assign]
        made.adapter._intake._bind_s = 0.01
        peer = Satori(made)
        made.connect(peer.bot)
        await peer.say("hello")
        assert (await made.host.next_message()).text == "hello"


async def test_adjacent_texts_become_one_segment(satori: Satori) -> None:
    await satori.say("a<br/>b")
    assert (await satori.bench.host.next_message()).segments == (Text("a\nb"),)
