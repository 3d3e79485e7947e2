"""Known problems of OneBot v11 in practice do not occur in this adapter.

The first half tests behaviour of nonebot-adapter-onebot 2.4.6, uvicorn and websockets that was
measured before this adapter was written. If an upgrade brings a problem back, a test here fails.
"""

import base64
from pathlib import Path

import anyio
import httpx
import pytest

from adapters.onebot_v11 import create
from adapters.onebot_v11.access import KEPT_AS
from nekro_core.api.adapter import KeyedQueue
from nekro_core.api.chat import ChatKey, DeliveryState, Image, Media, Receipt
from nekro_core.api.secrets import secret_file
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.onebot_v11.running import (
    GROUP,
    TOKEN,
    Bot,
    bot_with_peer,
    new_driver,
    running,
)
from tests.peers.onebot_v11 import (
    Abort,
    Async,
    Failed,
    Late,
    OneBotPeer,
    Silence,
    image,
    reply,
    text,
)


def message_from(user: int, words: str) -> dict:
    return {
        "time": 1, "self_id": 20002, "post_type": "message", "message_type": "private",
        "sub_type": "friend", "message_id": 1, "user_id": user, "message": words,
        "raw_message": words, "font": 0, "sender": {},
    }  # fmt: skip


def count_connects(peer: OneBotPeer) -> int:
    return [entry.frame.get("sub_type") for entry in peer.log].count("connect")


# -- who may connect ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/onebot/v11/", "/onebot/v11/http", "/onebot/v11/http/"])
async def test_events_over_http_are_refused(bot: Bot, path: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(
            f"http://127.0.0.1:{bot.port}{path}",
            headers={"X-Self-ID": "20002"},
            json=message_from(10001, "forged"),
        )
    assert answer.status_code in (404, 405)
    async with bot.peer() as peer:  # The real account can still connect.
        await peer.wait_connected()
        await peer.say_in_private(10001, "true")
        assert (await bot.host.next_message()).text == "true"


async def test_the_adapter_refuses_to_start_beside_an_http_route_that_needs_no_token(
    tmp_path: Path,
) -> None:
    host = MemoryHost(tmp_path, {"onebot_access_token": TOKEN})
    driver = new_driver()
    adapter = create(host, driver)
    driver.server_app.add_api_route("/onebot/v11/http", lambda: None, methods=["POST"])
    with pytest.raises(RuntimeError, match="without a token"):
        await adapter.start()
    with pytest.raises(RuntimeError, match="without a token"):
        create(host, driver)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {TOKEN}"},
        {"X-Self-ID": ""},
        {"X-Self-ID": "2" * 65},
        {"X-Client-Role": "API"},
    ],
)
async def test_a_connection_with_wrong_headers_is_refused(
    bot: Bot, headers: dict[str, str]
) -> None:
    async with bot.peer(headers=headers, reconnect_s=None) as peer:
        await peer.until(lambda: bool(peer.refusals))
        assert "403" in peer.refusals[0]
        assert not peer.connected
    assert await bot.adapter.own_accounts(GROUP) == frozenset()


@pytest.mark.parametrize("headers", [{"Authorization": f"Token {TOKEN}"}, {"X-Client-Role": ""}])
async def test_other_spellings_of_the_right_headers_are_accepted(
    bot: Bot, headers: dict[str, str]
) -> None:
    async with bot.peer(headers=headers) as peer:
        await peer.wait_connected()


async def test_a_token_in_the_address_is_refused(bot: Bot) -> None:
    url = f"{bot.url}?access_token={TOKEN.replace(' ', '%20')}"
    async with bot.peer(url=url, headers={"Authorization": ""}, reconnect_s=None) as peer:
        await peer.until(lambda: bool(peer.refusals))


@pytest.mark.parametrize("settings", [{}, {"onebot_access_token": ""}])
async def test_a_token_is_made_at_the_first_start(tmp_path: Path, settings: dict) -> None:
    create(MemoryHost(tmp_path, settings), new_driver())
    path = secret_file(tmp_path, KEPT_AS)
    token = path.read_text()
    assert len(token) >= 40
    assert path.stat().st_mode & 0o777 == 0o600
    async with running(tmp_path, MemoryHost(tmp_path, settings)) as bot:
        async with bot.peer(token=token) as peer:
            await peer.wait_connected()
        async with bot.peer(token="", reconnect_s=None) as peer:
            await peer.until(lambda: bool(peer.refusals))
    assert path.read_text() == token


def test_an_empty_token_file_stops_the_start(tmp_path: Path) -> None:
    path = secret_file(tmp_path, KEPT_AS)
    path.parent.mkdir()
    path.write_text("\n")
    with pytest.raises(RuntimeError, match="is empty: delete it"):
        create(MemoryHost(tmp_path), new_driver())


# -- order -------------------------------------------------------------------------------------


async def test_messages_of_a_chat_keep_their_order_while_one_waits_for_a_slow_lookup(
    bot: Bot, peer: OneBotPeer
) -> None:
    first = await peer.say_in_group(30003, 10001, "one")
    peer.answer("get_msg", Late(0.3))
    await peer.say_in_group(30003, 10001, [reply(first), text("two")])
    await peer.say_in_group(30003, 10001, "three")
    await peer.say_in_group(30004, 10001, "elsewhere")
    heard = await bot.host.received(4)
    assert [message.text for message in heard] == ["one", "elsewhere", "two", "three"]


async def test_a_burst_keeps_its_order_in_each_chat(bot: Bot, peer: OneBotPeer) -> None:
    for number in range(300):
        await peer.say_in_group(30000 + number % 7, 10001, str(number))
    heard = await bot.host.received(300)
    for chat in {message.chat_key for message in heard}:
        numbers = [int(message.text) for message in heard if message.chat_key == chat]
        assert numbers == sorted(numbers)


async def test_messages_that_cannot_be_stored_are_retried_in_order(
    bot: Bot, peer: OneBotPeer
) -> None:
    bot.host.failures = 2
    for words in ("one", "two", "three"):
        await peer.say_in_group(30003, 10001, words)
    assert [message.text for message in await bot.host.received(3)] == ["one", "two", "three"]


async def test_after_a_failure_of_the_store_the_account_connects_again(
    tmp_path: Path,
) -> None:
    host = DownAtFirst(tmp_path, {"onebot_access_token": TOKEN})
    async with running(tmp_path, host) as bot, bot.peer() as peer:
        await peer.until(lambda: count_connects(peer) == 2)
        await peer.wait_connected()
        await peer.say_in_group(30003, 10001, "heard")
        assert (await bot.host.next_message()).text == "heard"


class DownAtFirst(MemoryHost):
    """A host whose database fails at the first request."""

    asked = 0

    async def instance_of(self, adapter: str, account: str) -> str:
        self.asked += 1
        if self.asked == 1:
            raise OSError("the database is gone")
        return await super().instance_of(adapter, account)


async def test_in_a_keyed_queue_the_next_job_of_a_key_runs_although_the_one_before_failed() -> None:
    done: list[str] = []

    async def good() -> None:
        done.append("good")

    async def bad() -> None:
        raise OSError("disk full")

    async with anyio.create_task_group() as tasks:
        queue = KeyedQueue(tasks)
        for job in (bad, good, bad, good):
            await queue.submit("chat", job)
        await queue.idle()
    assert done == ["good", "good"]


async def test_submitting_a_job_waits_while_the_keyed_queue_is_full() -> None:
    gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        queue = KeyedQueue(tasks, capacity=2)
        for chat in range(2):
            await queue.submit(chat, gate.wait)
        with anyio.move_on_after(0.05) as waiting:
            await queue.submit(2, gate.wait)
        assert waiting.cancelled_caught
        gate.set()
        await queue.submit(2, gate.wait)
        await queue.idle()


# -- calls whose outcome is not "ok" -----------------------------------------------------------


async def test_a_reset_connection_ends_the_calls_that_wait(bot: Bot, peer: OneBotPeer) -> None:
    peer.answer("send", Abort())
    # The time-out of a send is 30 s, so the calls must have ended earlier.
    with anyio.fail_after(25):
        receipt = await bot.send(GROUP, "hi")
    assert receipt.state is DeliveryState.UNKNOWN
    assert "connection" in receipt.reason


async def test_a_send_without_an_answer_has_an_unknown_outcome(tmp_path: Path) -> None:
    async with running(tmp_path, api_timeout=1.0) as bot, bot.peer() as peer:
        await peer.wait_connected()
        await bot.hear_from()
        peer.answer("send", Silence(), Late(1.3))
        receipt = await bot.send(GROUP, "hi")
        assert receipt.state is DeliveryState.UNKNOWN
        assert "no answer to send_group_msg within 1 s" in receipt.reason
        assert (await bot.send(GROUP, "late")).state is DeliveryState.UNKNOWN
        # The late answer belongs to no waiting call, so it is ignored.
        await anyio.sleep(0.4)
        assert (await bot.send(GROUP, "hi again")).ok
        assert len(peer.sends) == 3  # The adapter has repeated no send.


async def test_an_answer_with_the_status_async_is_an_unknown_outcome(
    bot: Bot, peer: OneBotPeer
) -> None:
    peer.answer("send", Async())
    receipt = await bot.send(GROUP, "hi")
    assert receipt.state is DeliveryState.UNKNOWN
    assert "async" in receipt.reason


async def test_a_failed_send_is_rejected_with_its_reason(bot: Bot, peer: OneBotPeer) -> None:
    peer.answer("send", Failed(1200, "语音转换失败"))
    receipt = await bot.send(GROUP, "hi")
    assert receipt.state is DeliveryState.REJECTED
    assert receipt.reason == "语音转换失败 (code 1200)"


async def test_a_timeout_of_qq_itself_is_an_unknown_outcome(bot: Bot, peer: OneBotPeer) -> None:
    peer.answer("send", Failed(1200, "Timeout: NTEvent serviceAndMethod:NodeIKernelMsgService/x"))
    receipt = await bot.send(GROUP, "hi")
    assert receipt.state is DeliveryState.UNKNOWN
    assert receipt.reason.startswith("Timeout: NTEvent")


# -- frames ------------------------------------------------------------------------------------

BAD_FRAMES = [
    "this is no JSON",
    "",
    "null",
    "[1, 2]",
    "17",
    b"\xff\xfe\x00",
    "[" * 100_000,
    '{"retcode": 1403, "status": "failed", "wording": "token"}',
    '{"status": "ok", "retcode": 0, "data": {}, "echo": "999"}',
    '{"status": "ok", "retcode": 0, "data": {}, "echo": {"a": [1]}}',
    '{"post_type": []}',
    '{"post_type": "message"}',
    '{"post_type": "message", "message_type": "group", "group_id": null}',
    '{"post_type": "message", "message_type": "guild", "guild_id": "1", "channel_id": "2"}',
    '{"post_type": "notice", "notice_type": {"a": 1}, "user_id": {"b": 2}}',
    '{"post_type": "meta_event", "meta_event_type": "heartbeat", "interval": "soon"}',
    '{"post_type": "request", "request_type": "friend", "user_id": 1}',
    '{"post_type": "message", "message_type": "group", "group_id": "' + "9" * 300 + '"}',
]


@pytest.mark.parametrize("frame", BAD_FRAMES, ids=lambda frame: repr(frame[:40]))
async def test_a_bad_frame_is_ignored(bot: Bot, peer: OneBotPeer, frame: str | bytes) -> None:
    await peer.send_raw(frame)
    await peer.say_in_group(30003, 10001, "still here")
    await bot.host.until(lambda: any(m.text == "still here" for m in bot.host.accepted))
    assert count_connects(peer) == 1


@pytest.mark.parametrize("direction", ["reverse", "forward"])
async def test_a_frame_over_16_mib_is_received(tmp_path: Path, direction: str) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(15 * 1024 * 1024)
    async with bot_with_peer(tmp_path, direction) as (bot, peer):
        file = f"base64://{base64.b64encode(picture).decode()}"
        await peer.say_in_group(30003, 10001, image(file))
        (seen,) = (await bot.host.next_message(30)).segments
        assert isinstance(seen, Image)
        assert seen.media.size == len(picture)
        assert peer.connected
        assert count_connects(peer) == 1


async def test_a_picture_that_makes_the_frame_too_large_is_refused(
    bot: Bot, peer: OneBotPeer, tmp_path: Path
) -> None:
    path = tmp_path / "big.bin"
    path.write_bytes(b"x")
    with path.open("r+b") as file:
        file.truncate(11 * 1024 * 1024)
    big = Media(path=str(path), name="big.bin", size=path.stat().st_size)
    receipt = await bot.send(GROUP, Image(big))
    assert receipt.state is DeliveryState.REJECTED
    assert "big.bin has 11534336 bytes: at most 10485760" in receipt.reason
    assert not peer.sends
    assert (await bot.send(GROUP, "hi")).ok


# -- connections -------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["message_sent", "message"])
async def test_the_bots_own_messages_are_not_received(
    bot: Bot, peer: OneBotPeer, spelling: str
) -> None:
    peer.echo_own = spelling
    assert (await bot.send(GROUP, "I say")).ok
    await peer.say_in_group(30003, 10001, "you say")
    assert (await bot.host.next_message()).text == "you say"
    assert len(bot.host.accepted) == 1


async def test_a_new_connection_replaces_a_half_open_one(bot: Bot) -> None:
    receipts: list[Receipt] = []

    async def send_into_the_void() -> None:
        receipts.append(await bot.send(GROUP, "is anybody there?"))

    async with bot.peer(reconnect_s=None) as old, anyio.create_task_group() as tasks:
        await old.wait_connected()
        await bot.hear_from()
        old.stop_reading()
        tasks.start_soon(send_into_the_void)
        await anyio.wait_all_tasks_blocked()
        async with bot.peer() as new:
            await new.wait_connected()
            assert new.refusals == []
            assert (await bot.send(GROUP, "hello")).ok
            assert (await new.next_send()).text == "hello"
            await new.say_in_group(30003, 10001, "hello too")
            assert (await bot.host.next_message()).text == "hello too"
    assert receipts[0].state is DeliveryState.UNKNOWN
    assert "replaced" in receipts[0].reason


async def test_a_connection_with_a_wrong_token_replaces_no_other_connection(
    bot: Bot, peer: OneBotPeer
) -> None:
    async with bot.peer(token="guess", reconnect_s=None) as stranger:
        await stranger.until(lambda: bool(stranger.refusals))
    assert (await bot.send(GROUP, "hello")).ok
    assert (await peer.next_send()).text == "hello"


async def test_a_connection_without_further_heartbeats_is_closed(
    bot: Bot, peer: OneBotPeer
) -> None:
    beat = {"time": 1, "self_id": 20002, "post_type": "meta_event"}
    await peer.emit({**beat, "meta_event_type": "heartbeat", "interval": 5, "status": {}})
    await peer.until(lambda: count_connects(peer) == 2, 15)
    assert (await bot.send(GROUP, "hello")).ok


async def test_two_accounts_in_one_group_have_separate_chats(bot: Bot, peer: OneBotPeer) -> None:
    async with bot.peer("20009") as second:
        await second.wait_connected()
        await bot.hear_from("20009")
        await peer.say_in_group(30003, 10001, "to both")
        await second.say_in_group(30003, 10001, "to both")
        heard = await bot.host.received(2)
        assert {str(message.chat_key): message.account for message in heard} == {
            "onebot_v11-group_30003": "20002",
            "onebot_v11.20009-group_30003": "20009",
        }
        other = ChatKey.parse("onebot_v11.20009-group_30003")
        assert (await bot.send(other, "from the second")).ok
        assert (await second.next_send()).text == "from the second"
        assert await bot.adapter.own_accounts(GROUP) == {"20002", "20009"}
        # The second account receives a message whose sender is the first account.
        await second.say_in_group(30003, 20002, "said by the first")
        assert (await bot.host.received(3))[-1].sender.user_id == "20002"
    while (await bot.send(other, "x")).state is not DeliveryState.PENDING:
        await anyio.sleep(0.01)
    assert peer.sends == []


@pytest.mark.parametrize(
    "field", [{"message_id": "abc-1"}, {"user_id": "u_1"}, {"group_id": "g#1 x"}]
)
async def test_ids_that_are_not_numbers_are_read_and_sent(
    bot: Bot, peer: OneBotPeer, field: dict
) -> None:
    event = peer.account.message(("group", "30003"), 10001, "hi")
    await peer.emit({**event, **field})
    heard = await bot.host.next_message()
    assert heard.message_id == field.get("message_id", str(event["message_id"]))
    assert heard.sender.user_id == field.get("user_id", "10001")
    assert heard.chat_key.native_id == field.get("group_id", "30003")
    assert (await bot.send(heard.chat_key, "hi")).ok
    assert (await peer.next_send()).params["group_id"] == field.get("group_id", 30003)
