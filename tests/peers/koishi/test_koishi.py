"""Koishi, a chat-bot framework by other authors, works with our fake OneBot v11 implementation.

This shows that the fake behaves like an OneBot implementation, and not only as our own adapter
expects. The test needs Node and the packages that ``make koishi`` installs here.
"""

import base64
import io
import json
import shutil
import subprocess
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from tests.peers.onebot_v11 import OneBotPeer, at, reply, text
from tests.peers.ports import free_port

KOISHI = Path(__file__).parent
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

pytestmark = [
    pytest.mark.koishi,
    pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine"),
    pytest.mark.skipif(
        not (KOISHI / "node_modules").is_dir(), reason="Koishi is not installed: make koishi"
    ),
]


def silence() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as voice:
        voice.setparams((1, 2, 16000, 160, "NONE", ""))
        voice.writeframes(bytes(320))
    return buffer.getvalue()


class Koishi:
    """A running Koishi process. It reports events as lines of JSON."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._lines = TextReceiveStream(process.stdout)
        self._rest = ""

    async def next(self, event: str) -> dict[str, Any]:
        with anyio.fail_after(30):
            while True:
                while "\n" not in self._rest:
                    self._rest += await self._lines.receive()
                line, self._rest = self._rest.split("\n", 1)
                if line.startswith("{") and (said := json.loads(line))["event"] == event:
                    return said


@asynccontextmanager
async def koishi(mode: str, **options: Any) -> AsyncIterator[Koishi]:
    settings = {
        "mode": mode,
        "selfId": "20002",
        "token": "s3cret",
        "picture": base64.b64encode(PNG).decode(),
        "voice": base64.b64encode(silence()).decode(),
        **options,
    }
    process = await anyio.open_process(
        ["node", "app.js", json.dumps(settings)], cwd=KOISHI, stderr=subprocess.STDOUT
    )
    try:
        yield Koishi(process)
    finally:
        process.kill()
        await process.aclose()


@asynccontextmanager
async def connected(mode: str) -> AsyncIterator[tuple[OneBotPeer, Koishi]]:
    port = free_port()
    if mode == "ws":
        async with (
            OneBotPeer(token="s3cret") as peer,
            koishi(mode, port=port, endpoint=peer.address) as application,
        ):
            yield peer, application
    else:
        peer = OneBotPeer(token="s3cret", url=f"ws://127.0.0.1:{port}/onebot")
        async with koishi(mode, port=port) as application, peer:
            yield peer, application


@pytest.mark.parametrize("mode", ["ws", "ws-reverse"])
async def test_koishi_and_the_peer_exchange_messages(mode: str) -> None:
    async with connected(mode) as (peer, application):
        await peer.wait_connected(30)
        await peer.next_call("get_login_info", timeout=30)
        while (await application.next("login"))["status"] != 1:
            pass

        first = await peer.say_in_group(30003, 10001, "hello there", at_me=True)
        heard = await application.next("message")
        assert (heard["guild"], heard["user"], heard["at"]) == ("30003", "10001", True)
        assert heard["id"] == str(first)

        picture = await peer.next_call("send_group_msg")
        assert picture.params["group_id"] == 30003
        assert picture.types == ["text", "image"]
        sent = picture.segments[1]["data"]["file"]
        assert base64.b64decode(sent.removeprefix("base64://")) == PNG
        voice = await peer.next_call("send_group_msg")
        assert voice.types == ["record"]
        await application.next("answered")

        await peer.say_in_group(30003, 10001, [reply(first), text("again "), at(10002)])
        quoting = await application.next("message")
        assert "hello there" in quoting["quote"]

        await peer.say_in_private(10001, "hello again")
        assert "guild" not in await application.next("message")
        answer = await peer.next_call("send_private_msg")
        assert answer.params["user_id"] == 10001
