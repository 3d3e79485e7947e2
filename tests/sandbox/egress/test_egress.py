"""A box reaches the destinations that its operator allows, through the host, and no others."""

import asyncio
import logging
from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import ByteStream

from nekro_core.sandbox.box import BoxConnectionError
from nekro_core.sandbox.egress import Egress, EgressLimits, EgressRules
from nekro_core.sandbox.egress.egress import DefaultEgressSource
from nekro_core.sandbox.results import Listener
from tests.sandbox.egress.world import (
    PUBLIC,
    Internet,
    LoopbackBox,
    LoopbackListener,
    World,
    echo,
    world,
)
from tests.sandbox.preview.world import Recorder, says, status


@pytest.fixture
async def out() -> AsyncIterator[World]:
    """A box that may reach index.example, which has an address."""
    async with world(None, "index.example") as made:
        made.internet.names["index.example"] = [[PUBLIC]]
        yield made


async def test_a_box_without_rules_has_no_egress_until_rules_are_added() -> None:
    async with world() as out:
        assert out.box.listener is None
        assert out.box.environment == {}

        await out.allow("index.example")
        out.internet.names["index.example"] = [[PUBLIC]]
        assert out.box.environment["https_proxy"] == "http://127.0.0.1:3128"
        assert out.box.environment["NO_PROXY"] == "localhost,127.0.0.1,::1"
        async with out.internet.serving(PUBLIC, 443, echo):
            assert await out.status("index.example:443") == 200

        await out.allow()
        assert out.box.environment == {}
        with pytest.raises(OSError, match="Connect call failed"):
            await out.connection()


async def test_a_tunnel_carries_bytes_both_ways_until_both_are_done(out: World) -> None:
    async with out.internet.serving(PUBLIC, 443, echo):
        code, reader, writer = await out.tunnel("index.example:443")
        assert code == 200
        for _ in range(3):
            writer.write(b"x" * 100_000)
            with anyio.fail_after(30):
                assert await reader.readexactly(100_000) == b"X" * 100_000
        writer.write(b"last")
        writer.write_eof()
        with anyio.fail_after(30):
            assert await reader.read() == b"LAST"
        writer.close()
    assert out.internet.connected == [(PUBLIC, 443)]


async def test_bytes_that_come_with_the_request_are_not_lost(out: World) -> None:
    async with out.internet.serving(PUBLIC, 443, echo):
        reader, writer = await out.connection()
        writer.write(b"CONNECT index.example:443 HTTP/1.1\r\nHost: x\r\n\r\nhello")
        with anyio.fail_after(30):
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(5) == b"HELLO"
        writer.close()


async def test_a_plain_request_is_parsed_and_written_again(out: World) -> None:
    server = Recorder()
    async with out.internet.serving(PUBLIC, 80, server):
        answer = await out.ask(
            "POST http://index.example/simple/?a=1 HTTP/1.1\r\nHost: evil.example\r\n"
            "Transfer-Encoding: chunked\r\nProxy-Authorization: Basic x\r\nX-Hop: 1\r\n"
            "Connection: X-Hop\r\nAccept: */*\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        )
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"ok")
    assert server.heads[0].startswith(b"POST /simple/?a=1 HTTP/1.1\r\n")
    assert server.bodies == [b"hello"]
    assert server.headers() == {
        "host": "index.example",
        "accept": "*/*",
        "transfer-encoding": "chunked",
        "connection": "close",
    }


async def test_each_request_needs_its_own_connection_and_check(out: World) -> None:
    server = Recorder()
    async with out.internet.serving(PUBLIC, 80, server):
        first = "GET http://index.example/ HTTP/1.1\r\nHost: x\r\n\r\n"
        second = "GET http://evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = await out.ask(first + second)
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer.lower()
    assert len(server.heads) == 1


async def test_removing_a_name_from_the_rules_ends_its_open_tunnels(out: World) -> None:
    await out.allow("index.example", "other.example")
    out.internet.names["other.example"] = [[PUBLIC]]
    async with out.internet.serving(PUBLIC, 443, echo):
        _, removed, one = await out.tunnel("index.example:443")
        _, kept, other = await out.tunnel("other.example:443")
        await out.allow("other.example")
        with anyio.fail_after(30):
            assert await removed.read() == b""
            other.write(b"still here")
            assert await kept.readexactly(10) == b"STILL HERE"
        assert await out.status("index.example:443") == 403
        one.close()
        other.close()


async def test_a_redirect_to_a_private_address_is_passed_on_and_its_target_refused(
    out: World,
) -> None:
    moved = "HTTP/1.1 302 Found\nLocation: http://169.254.169.254/latest\nContent-Length: 0"
    async with out.internet.serving(PUBLIC, 80, says(moved)):
        answer = await out.get("http://index.example/")
        assert b"location: http://169.254.169.254/latest" in answer.lower()
        assert status(await out.get("http://169.254.169.254/latest")) == 403
    assert out.internet.connected == [(PUBLIC, 80)], "the host must not follow the redirect"


async def test_a_refused_box_and_the_operator_get_the_reason(
    out: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            answer = await out.get("http://evil.example/")
    assert answer.startswith(b"HTTP/1.1 403 evil.example:80 is not among what this box may reach")
    assert b"NEKRO_SANDBOX__EGRESS" in answer
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "box 'default' of 'chat' may not reach evil.example:80: no rule allows it"
    assert out.internet.asked == [], "a refused name is not even looked up"

    with caplog.at_level(logging.WARNING):
        for number in range(150):
            await out.get(f"http://n{number}.evil.example/")
    assert len(caplog.records) < 110, "a loop must not fill the log"


async def test_egress_that_follows_a_source_of_changes_applies_new_rules_after_a_change(
    out: World,
) -> None:
    changes = iter([False, True])
    out.egress.follow(lambda: next(changes, False), every_s=0.01)
    out.allowed.clear()
    with anyio.fail_after(30):
        while out.box.environment:
            await anyio.sleep(0.01)


async def test_every_box_has_its_own_rules(out: World) -> None:
    other = LoopbackBox()
    await out.egress.attach("chat", "other", other)
    assert other.listener is None
    assert await out.status("evil.example:443") == 403


async def test_a_name_without_an_address_and_a_silent_server_give_different_errors(
    out: World,
) -> None:
    await out.allow("index.example", "nowhere.example")
    assert b"has no address" in await out.get("http://nowhere.example/")
    assert status(await out.get("http://index.example/")) == 502

    async with out.internet.serving(PUBLIC, 80, says("SSH-2.0-x")):
        assert b"no answer that is HTTP" in await out.get("http://index.example/")


async def test_connections_traffic_and_time_of_a_box_are_limited() -> None:
    limits = EgressLimits(connections=2, bytes_per_hour=1000, idle_s=1.5, request_s=1)
    async with world(limits, "index.example") as out:
        out.internet.names["index.example"] = [[PUBLIC]]
        async with out.internet.serving(PUBLIC, 443, echo):
            _, idle, one = await out.tunnel("index.example:443")
            _, _, two = await out.tunnel("index.example:443")
            assert await out.status("index.example:443") == 502, (
                "a third connection must be refused"
            )
            with anyio.fail_after(30):
                assert await idle.read() == b"", "an idle connection must be ended"
            one.close()
            two.close()
            await anyio.sleep(0.1)

            _, reader, writer = await out.tunnel("index.example:443")
            writer.write(b"x" * 600)
            with anyio.fail_after(30):
                assert len(await reader.read()) <= 600, (
                    "600 bytes in each direction are above the limit"
                )
            writer.close()
            _, reader, writer = await out.tunnel("index.example:443")
            writer.write(b"x" * 600)
            with anyio.fail_after(30):
                assert await reader.read() == b""
            writer.close()
            out.now[0] += 3600
            _, reader, writer = await out.tunnel("index.example:443")
            writer.write(b"x")
            with anyio.fail_after(30):
                assert await reader.readexactly(1) == b"X"
            writer.close()

        assert status(await out.ask("GET http://index.exa")) == 408, "slow-loris"


async def test_egress_forgets_a_box_that_died(out: World) -> None:
    out.box.alive = False
    await out.egress.refresh()
    out.box.alive = True
    await out.allow()
    assert out.box.environment != {}, "a dead box is not changed any more"


async def test_a_new_box_replaces_a_dead_one_of_the_same_name(out: World) -> None:
    out.box.alive = False
    again = LoopbackBox()
    await out.egress.attach("chat", "default", again)
    assert again.listener is not None
    await again.listener.aclose()


async def test_closing_egress_ends_open_tunnels() -> None:
    internet = Internet({"index.example": [[PUBLIC]]})
    ended = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()

    async with internet.serving(PUBLIC, 443, hold):
        async with world(None, "index.example", internet=internet) as out:
            code, _, writer = await out.tunnel("index.example:443")
            assert code == 200
        with anyio.fail_after(30):
            await ended.wait()
        writer.close()


async def test_egress_continues_after_descriptors_were_used_up_for_a_moment() -> None:
    class Starved(LoopbackListener):
        failures = 1

        async def accept(self) -> ByteStream:
            if self.failures:
                self.failures -= 1
                raise OSError(24, "Too many open files")
            return await super().accept()

    class StarvedBox(LoopbackBox):
        async def listen(self, port: int) -> Listener:
            self.listener = await Starved().open()
            return self.listener

    box = StarvedBox()
    async with Egress.open(lambda *_: EgressRules.parse(["index.example"])) as egress:
        await egress.attach("chat", "default", box)
        assert box.listener is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", box.listener.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with anyio.fail_after(30):
            assert status(await reader.read()) == 403
        writer.close()
        await box.listener.aclose()


async def test_a_box_without_an_owner_gets_the_default_rules_or_is_destroyed() -> None:
    class One:
        def __init__(self, box: LoopbackBox) -> None:
            self.box = box

        async def take(self, image: str = "") -> LoopbackBox:
            return self.box

    class Full(LoopbackBox):
        async def listen(self, port: int) -> Listener:
            raise BoxConnectionError("taken")

    async with Egress.open(
        lambda owner, _: EgressRules.parse([] if owner else ["a.example"])
    ) as egress:
        box = LoopbackBox()
        assert await DefaultEgressSource(One(box), egress).take() is box
        assert box.environment["https_proxy"]
        assert box.listener is not None
        await box.listener.aclose()

        full = Full()
        with pytest.raises(BoxConnectionError):
            await DefaultEgressSource(One(full), egress).take()
        assert not full.alive
