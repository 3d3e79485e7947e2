"""A server in a box is shown in a browser, under its own host name on the bot's port."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest
import websockets
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from nekro_core.sandbox.preview import PreviewRefused, PreviewSettings, PreviewTargetState
from tests.sandbox.preview.world import LoopbackBox, Recorder, World, says, status, world

OK = "HTTP/1.1 200 OK\nContent-Length: 5"


@pytest.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def test_a_server_in_a_box_and_the_bot_have_different_host_names(
    here: World,
) -> None:
    async with here.box.serving(8000, says(OK, b"hello")):
        assert (await here.get(here.name())).endswith(b"\r\n\r\nhello")
    assert not here.bot.seen
    assert (await here.get(f"127.0.0.1:{here.port}", "/ui")).endswith(b"the bot")
    assert here.bot.seen == [(f"127.0.0.1:{here.port}", "/ui")]


async def test_a_preview_shows_the_state_of_its_box(here: World) -> None:
    address = here.preview.open(here.box, 8000)
    name = here.name()
    assert address == f"http://{name}/"
    assert name.endswith(f".preview.localhost:{here.port}")
    assert len(name.split(".")[0]) == 32

    answer = await here.get(name)
    assert status(answer) == 502
    assert b"Nothing listens" in answer

    async with here.box.serving(8000, says(OK, b"hello")):
        assert status(await here.get(name)) == 200
        here.box.preview_state = PreviewTargetState.SLEEPING
        answer = await here.get(name)
        assert status(answer) == 503
        assert b"asleep" in answer
        assert b"cache-control: no-store" in answer
        here.box.preview_state = PreviewTargetState.RUNNING
        assert here.preview.open(here.box, 8000) == address, (
            "the address must be the same after the box has slept"
        )
        assert status(await here.get(name)) == 200
        here.box.preview_state = PreviewTargetState.GONE
        dead = await here.get(name)
    assert status(dead) == 404
    never = await here.get(f"{'a' * 32}.preview.localhost")
    assert _without_date(never) == _without_date(dead), (
        "a stranger must not learn whether a box existed"
    )
    with pytest.raises(PreviewRefused, match="gone"):
        here.preview.open(here.box, 8000)


def _without_date(answer: bytes) -> list[bytes]:
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"date")]


async def test_the_page_for_a_sleeping_box_is_in_the_visitors_language(here: World) -> None:
    name = here.name()
    here.box.preview_state = PreviewTargetState.SLEEPING
    assert "休眠".encode() in await here.get(name, "/", "Accept-Language: zh,en;q=0.5")
    assert "休止中".encode() in await here.get(name, "/", "Accept-Language: ja-JP")
    assert here.box.connections == 0, "a visit must not wake the box"


async def test_the_preview_of_each_box_and_port_has_its_own_host_name(here: World) -> None:
    other = LoopbackBox()
    names = {here.name(8000), here.name(8001), here.preview.open(other, 8000)}
    assert len(names) == 3
    async with here.box.serving(8000, says(OK, b"eight")):
        assert (await here.get(here.name(8000))).endswith(b"eight")
        assert status(await here.get(here.name(8001))) == 502
        here.preview.close(other)
        assert status(await here.get(here.name(8000))) == 200


async def test_the_body_of_a_request_and_its_answer_are_carried_at_the_same_time(
    here: World,
) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while size := int(await reader.readline(), 16):
            data = await reader.readexactly(size)
            await reader.readline()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data.upper()))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with here.box.serving(8000, echo):
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(
            f"POST / HTTP/1.1\r\nHost: {here.name()}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        with anyio.fail_after(30):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"200 OK" in head
            for word in (b"one", b"three"):
                writer.write(b"%x\r\n%s\r\n" % (len(word), word))
                assert await reader.readline() == b"%x\r\n" % len(word)
                assert await reader.readexactly(len(word) + 2) == word.upper() + b"\r\n"
            writer.write(b"0\r\n\r\n")
            assert await reader.readexactly(5) == b"0\r\n\r\n"
        writer.close()


async def test_one_connection_carries_several_requests(here: World) -> None:
    recorder = Recorder()
    async with here.box.serving(8000, recorder):
        one = f"GET /1 HTTP/1.1\r\nHost: {here.name()}\r\n\r\n"
        bot = f"GET /bot HTTP/1.1\r\nHost: 127.0.0.1:{here.port}\r\n\r\n"
        last = f"HEAD /2 HTTP/1.1\r\nHost: {here.name()}\r\nConnection: close\r\n\r\n"
        answer = await here.ask(one + bot + last)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.index(b"ok") < answer.index(b"the bot")
    assert answer.endswith(b"\r\n\r\n"), "HEAD has no body"
    assert [head.split(b" ")[:2] for head in recorder.heads] == [[b"GET", b"/1"], [b"HEAD", b"/2"]]
    assert [path for _, path in here.bot.seen] == ["/bot"]


async def test_the_body_of_a_request_waits_until_the_server_says_continue(here: World) -> None:
    async def picky(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"expect: 100-continue" in head.lower()
        if b"/refused" in head:
            writer.write(b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(5)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body)

    async with here.box.serving(8000, picky):
        for path in ("/taken", "/refused"):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            lines = (f"PUT {path} HTTP/1.1", f"Host: {here.name()}", "Content-Length: 5")
            writer.write("\r\n".join((*lines, "Expect: 100-continue", "", "")).encode())
            with anyio.fail_after(30):
                first = await reader.readuntil(b"\r\n\r\n")
                if path == "/refused":
                    assert status(first) == 417
                    assert await reader.read() == b"", (
                        "the rest of the body must not be read as a request"
                    )
                else:
                    assert status(first) == 100
                    writer.write(b"12345")
                    assert status(await reader.readuntil(b"\r\n\r\n")) == 200
                    assert await reader.readexactly(5) == b"12345"
            writer.close()


async def test_a_request_ends_when_the_visitor_disconnects(here: World) -> None:
    left = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await reader.read()
        left.set()

    async with here.box.serving(8000, endless):
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: {here.name()}\r\n\r\n".encode())
        with anyio.fail_after(30):
            await reader.readuntil(b"data: 1")
            writer.close()
            await left.wait()


async def test_a_websocket_passes_on_text_bytes_and_the_servers_close_code(here: World) -> None:
    asked = []

    async def echo(socket: websockets.asyncio.server.ServerConnection) -> None:
        asked.append(socket.request.headers)
        async for message in socket:
            if message == "bye":
                await socket.close(4001, "as you wish")
                return
            await socket.send(message)

    async with serve(echo, "127.0.0.1", 0, subprotocols=["chat", "other"]) as server:
        here.box.ports[8000] = server.sockets[0].getsockname()[1]
        async with connect(
            f"ws://{here.name()}/live?a=1",
            host="127.0.0.1",
            port=here.port,
            subprotocols=["other"],
            origin=f"http://{here.name()}",
            additional_headers={"Cookie": "nekro_session_1=secret; mine=1"},
        ) as socket:
            assert socket.subprotocol == "other"
            for message in ("héllo", b"\x00\xff", "x" * 300_000, ""):
                await socket.send(message)
                assert await socket.recv() == message
            await socket.send("bye")
            with pytest.raises(websockets.ConnectionClosed):
                await socket.recv()
            assert (socket.close_code, socket.close_reason) == (4001, "as you wish")
        (headers,) = asked
        assert headers["Host"] == here.name()
        assert headers["Origin"] == f"http://{here.name()}"
        assert headers["Cookie"] == "mine=1"


async def test_a_websocket_that_the_visitor_closes_is_closed_in_the_box(here: World) -> None:
    closed = asyncio.Queue()

    async def listen(socket: websockets.asyncio.server.ServerConnection) -> None:
        await socket.wait_closed()
        closed.put_nowait(socket.close_code)

    async with serve(listen, "127.0.0.1", 0) as server:
        here.box.ports[8000] = server.sockets[0].getsockname()[1]
        socket = await connect(f"ws://{here.name()}/", host="127.0.0.1", port=here.port)
        await socket.close(4002)
        with anyio.fail_after(30):
            assert await closed.get() == 4002


async def test_a_visitor_who_drops_a_websocket_causes_no_error(here: World) -> None:
    gone = asyncio.Event()

    async def flood(socket: websockets.asyncio.server.ServerConnection) -> None:
        try:
            while True:
                await socket.send("x" * 10_000)
        except websockets.ConnectionClosed:
            gone.set()

    async with serve(flood, "127.0.0.1", 0) as server:
        here.box.ports[8000] = server.sockets[0].getsockname()[1]
        socket = await connect(f"ws://{here.name()}/", host="127.0.0.1", port=here.port)
        await socket.recv()
        socket.transport.abort()
        with anyio.fail_after(30):
            await gone.wait()


async def test_a_websocket_that_the_server_refuses_is_refused_with_its_status(here: World) -> None:
    async with here.box.serving(8000, says("HTTP/1.1 403 Forbidden\nContent-Length: 5", b"login")):
        for name, expected in ((here.name(), 403), (here.name(8001), 502)):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await connect(f"ws://{name}/", host="127.0.0.1", port=here.port)
            assert refused.value.response.status_code == expected
    assert not here.bot.seen


async def test_connections_to_previews_are_limited_for_each_preview_and_each_box() -> None:
    settings = PreviewSettings(connections_per_name=2, connections_per_box=3)
    async with world(settings) as here:
        release = asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await release.wait()
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

        other = LoopbackBox()
        async with here.box.serving(1, slow), here.box.serving(2, slow), other.serving(1, slow):
            async with anyio.create_task_group() as tasks:
                for port, count in ((1, 2), (2, 1)):
                    for _ in range(count):
                        tasks.start_soon(here.get, here.name(port))
                while here.box.connections < 3:
                    await anyio.sleep(0.01)
                assert status(await here.get(here.name(1))) == 503
                assert status(await here.get(here.name(2))) == 503
                elsewhere = here.preview.open(other, 1).split("/")[2]
                tasks.start_soon(here.get, elsewhere)
                while not other.connections:
                    await anyio.sleep(0.01)
                release.set()
            assert status(await here.get(here.name(1))) == 204, (
                "an ended connection must free its slot"
            )
            assert len(here.bot.seen) == 0
