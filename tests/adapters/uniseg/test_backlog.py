"""When the store is too slow, the platform's socket is not read, and no message is lost."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from nonebot.adapters.satori.config import ClientInfo
from nonebot.drivers import Request

from adapters.uniseg.backpressure import BACKLOG, PacedSocket
from adapters.uniseg.platforms.satori_connection import ResumingAdapter
from nekro_core.api.chat import ChatMessage
from tests.adapters.uniseg.stock import bench

GROUPS = 8
IN_LANES = 4096
"""How many messages the adapter's `KeyedQueue` may hold, in addition to the `BACKLOG` messages that
wait before it."""


class Flood:
    """A socket that gives ``count`` messages at once, and after them no more."""

    closed = False

    def __init__(self, count: int) -> None:
        self.count = count
        self.read = 0

    async def receive(self) -> str:
        if self.read == self.count:
            await anyio.sleep_forever()
        self.read += 1
        data = {
            "message_scene": "group",
            "peer_id": 30_000 + self.read % GROUPS,
            "message_seq": self.read,
            "sender_id": 10_001,
            "time": 1_700_000_000,
            "segments": [{"type": "text", "data": {"text": "hello"}}],
        }
        told = {"event_type": "message_receive", "time": 1, "self_id": 20_002, "data": data}
        return json.dumps(told)


def milky(request: Request) -> Any:
    data = {"uin": 20_002, "nickname": "bot"} if "login_info" in request.url.path else {}
    return {"status": "ok", "retcode": 0, "data": data}


async def test_a_socket_is_not_read_while_the_backlog_is_full() -> None:
    flood, room = Flood(2), anyio.Event()
    socket = PacedSocket(flood, room.wait)  # type: ignore[arg-type]
    with anyio.move_on_after(0.01):
        await socket.receive()
    assert flood.read == 0
    room.set()
    assert json.loads(await socket.receive())["data"]["message_seq"] == 1
    assert not socket.closed, "other attributes come from the wrapped socket"


@pytest.mark.long
async def test_time_without_reading_does_not_count_as_the_servers_silence() -> None:
    class Pong(Flood):
        async def receive(self) -> str:
            return json.dumps({"op": 2})

    room = anyio.Event()

    async def make_room() -> None:
        await anyio.sleep(adapter.silent_s + 0.5)
        room.set()

    adapter = object.__new__(ResumingAdapter)
    adapter.silent_s = 2.0
    socket: Any = PacedSocket(Pong(1), room.wait)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make_room)
        heard = await adapter.receive_payload(ClientInfo(port=1), socket)
    assert type(heard).__name__ == "PongPayload"


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_slow_store_stops_reading_and_loses_no_message(tmp_path: Path) -> None:
    count = 20_000
    flood, writable = Flood(count), anyio.Event()
    clients = [{"host": "127.0.0.1", "port": 1}]
    async with bench(tmp_path, "milky", socket=flood, answer=milky, milky_clients=clients) as made:
        store = made.host.accept

        async def slowly(message: ChatMessage) -> None:
            await writable.wait()
            await store(message)

        made.host.accept = slowly  # type: ignore[method-assign]
        with anyio.fail_after(300):
            while made.adapter._intake._waiting < BACKLOG:
                await anyio.sleep(0.01)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert flood.read <= BACKLOG + IN_LANES + GROUPS
        assert len(anyio.get_running_tasks()) < 50
        writable.set()
        heard = await made.host.received(count, limit_s=300)
    taken: Counter[str] = Counter()
    for message in heard:
        chat = str(message.chat_key)
        number = int(message.message_id.partition("@")[0])
        assert number > taken[chat], "a message came out of order or twice"
        taken[chat] = number
    assert len({message.message_id for message in heard}) == count
