"""A file that is too large for a call is sent in pieces or as a link to the bot's web server."""

import os
from pathlib import Path

import httpx
import pytest
from nonebot.drivers import Request

from adapters.onebot_v11.gateway import _reached_at
from adapters.onebot_v11.outgoing import INLINE_BYTES
from nekro_core.api.chat import DeliveryState, File, Media, Text, Video, Voice
from nekro_core.delivery.media.links import MOUNTED
from nekro_core.delivery.media.store import MediaStore
from tests.adapters.onebot_v11.running import FRIEND, GROUP, Bot, bot_with_peer
from tests.peers.onebot_v11 import Abort, Failed, OneBotPeer


@pytest.fixture
async def large(tmp_path: Path) -> Media:
    """A file of 11 MiB from the media store, as the outbox passes it to the adapter."""
    path = tmp_path / "holiday.mp4"
    path.write_bytes(os.urandom(64) * ((INLINE_BYTES + 1024 * 1024) // 64) + b"end")
    async with MediaStore(tmp_path) as media:
        return await media.keep_file(GROUP, Media(path=str(path), name="holiday.mp4"))


async def test_a_large_file_is_sent_in_pieces(bot: Bot, peer: OneBotPeer, large: Media) -> None:
    receipt = await bot.send(GROUP, File(large))
    assert receipt.ok, receipt.reason
    upload = peer.calls[-1]
    assert (upload.action, upload.params["name"]) == ("upload_group_file", "holiday.mp4")
    assert peer.account.placed[upload.params["file"]] == Path(large.path).read_bytes()
    # A name that a person chose must not become part of a path on the implementation's machine.
    assert "holiday" not in upload.params["file"]


@pytest.mark.parametrize("kind", [Video, Voice])
async def test_large_videos_and_voices_are_sent_in_pieces(
    bot: Bot, peer: OneBotPeer, large: Media, kind: type[Video | Voice]
) -> None:
    receipt = await bot.send(GROUP, kind(large))
    assert receipt.ok, receipt.reason
    (segment,) = peer.calls[-1].segments
    assert segment["data"]["file"] in peer.account.placed


async def test_an_implementation_that_does_not_accept_pieces_gets_a_link(
    bot: Bot, peer: OneBotPeer, large: Media
) -> None:
    """The operator need not set an address for the link. The link uses the address at which the
    implementation has connected to the bot."""
    bot.driver.server_app.mount(MOUNTED, bot.host.links)
    peer.account.takes_pieces = False
    receipt = await bot.send(GROUP, File(large))
    assert receipt.ok, receipt.reason
    link = peer.calls[-1].params["file"]
    assert link.startswith(f"http://127.0.0.1:{bot.port}/media/")
    async with httpx.AsyncClient(timeout=60) as client:
        assert (await client.get(link)).content == Path(large.path).read_bytes()


async def test_if_neither_pieces_nor_a_link_work_the_reason_names_the_setting(
    tmp_path: Path, large: Media
) -> None:
    async with bot_with_peer(tmp_path, "forward") as (bot, peer):
        peer.account.takes_pieces = False
        receipt = await bot.send(GROUP, File(large))
    assert receipt.state is DeliveryState.REJECTED
    assert "NEKRO_DELIVERY__MEDIA__LINK_ADDRESS" in receipt.reason


async def test_if_the_connection_is_lost_between_two_pieces_the_send_stays_pending(
    bot: Bot, peer: OneBotPeer, large: Media
) -> None:
    """No message was sent yet, so the send may be tried again later."""
    peer.answer("upload_file_stream", Abort(done=False))
    receipt = await bot.send(GROUP, File(large))
    assert receipt.state is DeliveryState.PENDING
    await peer.wait_connected()
    await bot.hear_from()
    assert (await bot.send(GROUP, File(large))).ok


async def test_if_the_implementations_disk_is_full_a_link_is_sent(
    bot: Bot, peer: OneBotPeer, large: Media
) -> None:
    bot.driver.server_app.mount(MOUNTED, bot.host.links)
    peer.answer("upload_file_stream", Failed(1200, "ENOSPC"))
    receipt = await bot.send(GROUP, File(large))
    assert receipt.ok
    assert peer.calls[-1].params["file"].startswith("http://")


async def test_a_file_that_no_longer_exists_is_refused(
    bot: Bot, peer: OneBotPeer, large: Media
) -> None:
    Path(large.path).unlink()
    receipt = await bot.send(GROUP, File(large))
    assert receipt.state is DeliveryState.REJECTED
    assert "cannot be read" in receipt.reason


@pytest.mark.parametrize("host", ["evil.example/x", "a b", "user@host", "[::1", "host:80:80", ""])
def test_an_invalid_host_header_makes_no_link(host: str) -> None:
    request = Request("GET", "http://127.0.0.1/onebot/v11/ws", headers={"host": host})
    assert _reached_at(request) == ""


async def test_small_files_are_sent_inside_the_call(
    bot: Bot, peer: OneBotPeer, tmp_path: Path
) -> None:
    path = tmp_path / "note.txt"
    path.write_text("hello")
    assert (await bot.send(FRIEND, File(Media(path=str(path), name="note.txt", size=5)))).ok
    assert peer.calls[-1].params["file"] == "base64://aGVsbG8="
    assert (await bot.send(FRIEND, Text("after it"))).ok
