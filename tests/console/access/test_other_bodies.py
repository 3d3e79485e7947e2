"""The limits on request bodies protect routes that read a body before they check a token.

NoneBot's driver adds such routes.
"""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.abc import SocketStream
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from nekro_core.console.access.body_limit import MOST_BYTES, MOST_IN_ALL
from nekro_core.console.access.login_attempts import MAX_FAILURES
from tests.adapters.web.running import NO_TLS, until
from tests.console.access.guarded import guarded

PATH = "/qq/webhook"


@asynccontextmanager
async def bot(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()

    @app.post(PATH)
    async def reads_all(request: Request) -> int:
        return len(await request.body())

    @app.post("/slow")
    async def reads_all_and_takes_its_time(request: Request) -> int:
        await request.body()
        await anyio.sleep(0.6)
        return 1

    @app.get("/slow")
    async def streams() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(6):
                yield b"p"
                await anyio.sleep(0.1)

        return StreamingResponse(pieces())

    async with (
        guarded(app, folder) as (url, _),
        httpx.AsyncClient(base_url=url, verify=NO_TLS, timeout=60) as client,
    ):
        yield client


async def connected(client: httpx.AsyncClient) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", client.base_url.port or 0)


async def begun(client: httpx.AsyncClient, size: int, *, said: int = 0) -> SocketStream:
    """A connection that has sent ``size`` bytes of a longer body.

    Its header announces ``said`` bytes; with 0, one byte more than ``size``.
    """
    stream = await connected(client)
    length = said or size + 1
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    await stream.send(head.encode() + b"b" * size)
    return stream


async def ended(stream: SocketStream) -> None:
    """Wait until the server has closed the connection without a reset."""
    async for _ in stream:
        pass


async def test_the_body_of_an_event_is_read(tmp_path: Path) -> None:
    async with bot(tmp_path) as client:
        for size in (0, 1, MOST_BYTES):
            assert (await client.post(PATH, content=b"b" * size)).json() == size


@pytest.mark.parametrize("says_so", [True, False])
async def test_a_body_that_is_too_long_is_refused(tmp_path: Path, says_so: bool) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(MOST_BYTES // 65_536 + 4):
            yield b"b" * 65_536

    async with bot(tmp_path) as client:
        body = b"b" * (MOST_BYTES + 1) if says_so else endless()
        answer = await client.post(PATH, content=body)
        assert answer.status_code == 413, answer.text
        assert (await client.post(PATH, content=b"b")).json() == 1


async def test_a_client_that_sends_the_whole_body_first_receives_the_refusal(
    tmp_path: Path,
) -> None:
    """If a server closes with unread data, the connection is reset and the answer is lost."""
    size = 2 * MOST_BYTES
    async with bot(tmp_path) as client:
        with anyio.fail_after(60):
            async with await begun(client, size - 1) as stream:
                await stream.send(b"b")
                assert b" 413 " in await stream.receive()
                await ended(stream)


async def test_a_client_with_too_many_wrong_tokens_receives_the_refusal(tmp_path: Path) -> None:
    size = MOST_BYTES // 2
    lines = ("POST /api/v1/x HTTP/1.1", "Host: localhost", "Authorization: Bearer wrong")
    head = "\r\n".join((*lines, f"Content-Length: {size}", "", "")).encode()
    async with bot(tmp_path) as client:
        for _ in range(MAX_FAILURES):
            await client.post("/api/v1/x", headers={"Authorization": "Bearer wrong"})
        with anyio.fail_after(60):
            async with await connected(client) as stream:
                await stream.send(head)
                await anyio.sleep(0.3)  # in this time the server refuses, before the body is sent
                await stream.send(b"b" * size)
                assert b" 429 " in await stream.receive()
                await ended(stream)


@pytest.mark.parametrize("more", [0, MOST_BYTES * 4])
async def test_the_server_stops_reading_a_refused_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """The server stops reading a body that no longer arrives, and also a body that does not end."""
    monkeypatch.setattr("nekro_core.console.access.body_limit.LINGER_S", 60 if more else 0.3)
    async with (
        bot(tmp_path) as client,
        await begun(client, MOST_BYTES + 1, said=MOST_BYTES * 9) as stream,
    ):
        with anyio.fail_after(30):
            if more:
                with pytest.raises(anyio.BrokenResourceError):
                    await stream.send(b"b" * more)
            else:
                assert b" 413 " in await stream.receive()
                await ended(stream)
        assert (await client.post(PATH, content=b"b")).json() == 1


async def test_all_bodies_share_a_limit_that_leaves_room_for_small_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is no time limit here: only the limit for all bodies together may refuse a body.
    monkeypatch.setattr("nekro_core.console.access.body_limit.BODY_S", math.inf)
    refused: list[SocketStream] = []

    async def wait_for_refusal(stream: SocketStream) -> None:
        assert b" 413 " in await stream.receive()
        refused.append(stream)

    async with bot(tmp_path) as client:
        streams = [
            await begun(client, MOST_BYTES - 1) for _ in range(MOST_IN_ALL // MOST_BYTES + 4)
        ]
        async with anyio.create_task_group() as waiting:
            for stream in streams:
                waiting.start_soon(wait_for_refusal, stream)
            await until(lambda: len(refused) >= 4)
            with anyio.fail_after(60):
                assert (await client.post(PATH, content=b"b")).json() == 1
            assert len(refused) == 4
            waiting.cancel_scope.cancel()
        for stream in streams:
            await stream.aclose()


async def test_a_body_that_does_not_arrive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nekro_core.console.access.body_limit.BODY_S", 0.3)
    async with bot(tmp_path) as client, await begun(client, 5) as stream:
        with anyio.fail_after(10):
            assert b" 413 " in await stream.receive()


async def test_the_time_limit_of_a_body_does_not_limit_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nekro_core.console.access.body_limit.BODY_S", 0.3)
    async with bot(tmp_path) as client:
        assert (await client.post("/slow", content=b"b")).json() == 1
        assert (await client.post("/slow", content=b"")).json() == 1
        assert (await client.get("/slow")).content == b"pppppp"
        assert (await client.request("GET", "/slow", content=b"b")).content == b"pppppp"
