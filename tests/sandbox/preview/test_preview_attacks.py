"""Tests of row 41 of the table of attacks (docs/attacks.md): host names, headers, the framing of
HTTP messages, and slow peers."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.preview import (
    PreviewRefused,
    PreviewRegistry,
    PreviewSettings,
    PreviewTargetState,
)
from nekro_core.sandbox.preview.front import called_name
from nekro_core.sandbox.preview.headers import request_headers, response_headers
from nekro_core.sandbox.preview.registry import MOST_PORTS
from tests.sandbox.preview.world import LoopbackBox, Recorder, World, says, status, world

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def here(anyio_backend: str) -> AsyncIterator[World]:
    async with world() as made:
        yield made


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("{name}", 200),
        ("{token}.preview.localhost", 200),
        ("{TOKEN}.PREVIEW.LOCALHOST", 200),
        ("{token}.preview.localhost.", 200),
        ("{token}.preview.localhost:1", 200),
        ("preview.localhost", 404),
        ("www.preview.localhost", 404),
        ("x.{token}.preview.localhost", 404),
        ("{token}.x.preview.localhost", 404),
        (".preview.localhost", 404),
        ("{token}.preview.localhost..", 200),
        ("{guess}.preview.localhost", 404),
        ("{token}.preview.localhost:80:80", 400),
        ("{token}.preview.localhost:port", 400),
        ("bot@{token}.preview.localhost", 400),
        ("localhost/{token}.preview.localhost", 400),
        ("{token}.preview.localhost/localhost", 400),
        ("{token}.preview.localhost#localhost", 400),
        ("localhost, {token}.preview.localhost", 400),
        ("{token}.preview.localhost\\@localhost", 400),
        ("{token}.preview.localhost%00.localhost", 400),
        ("[{token}.preview.localhost]", 400),
    ],
)
async def test_a_request_whose_host_looks_like_a_preview_never_reaches_the_bot(
    here: World, host: str, expected: int
) -> None:
    name = here.name()
    token = name.split(".")[0]
    guess = token[:-1] + ("a" if token[-1] != "a" else "b")
    called = host.format(name=name, token=token, TOKEN=token.upper(), guess=guess)
    before = len(here.bot.seen)
    async with here.box.serving(8000, says("HTTP/1.1 200 OK\nContent-Length: 2", b"ok")):
        answer = await here.get(called)
    assert status(answer) == expected
    assert len(here.bot.seen) == before


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "[::1]:80",
        "localhost.preview",
        "previewXlocalhost",
        "preview.localhost.example.org",
        "",
    ],
)
async def test_a_request_for_a_host_name_of_the_bot_never_reaches_a_box(
    here: World, host: str
) -> None:
    connections = here.box.connections
    answer = await here.get(host)
    assert answer.endswith(b"the bot")
    assert here.box.connections == connections


async def test_an_absolute_target_or_a_second_host_changes_no_destination(here: World) -> None:
    name, bot = here.name(), f"127.0.0.1:{here.port}"
    recorder = Recorder()
    async with here.box.serving(8000, recorder):
        answer = await here.get(name, f"http://{bot}/ui")
        assert status(answer) == 200
        assert recorder.heads[-1].startswith(b"GET /ui HTTP/1.1")
        connections = here.box.connections
        assert (await here.get(bot, f"http://{name}/x")).endswith(b"the bot")
        before = len(here.bot.seen)
        assert status(await here.get(name, "/", f"Host: {bot}")) == 400
        assert status(await here.get(bot, "/", f"Host: {name}")) == 400
        assert here.box.connections == connections
        assert len(here.bot.seen) == before
        for method in ("CONNECT", "TRACE"):
            assert status(await here.get(name, "/", method=method)) == 400


async def test_only_allowed_headers_of_a_request_reach_a_box(here: World) -> None:
    recorder = Recorder()
    async with here.box.serving(8000, recorder):
        await here.get(
            here.name(),
            "/a%2Fb/../c?q=%20&&x",
            "Cookie: nekro_session_ab=secret; theirs=1",
            'Cookie: "nekro_session_x"=2;NEKRO_other=3',
            "X-Forwarded-For: 203.0.113.9",
            "Forwarded: for=203.0.113.9",
            "X-Real-IP: 203.0.113.9",
            "X-Forwarded-Host: evil",
            "Proxy-Authorization: Basic x",
            "X-Private: dropped",
            "Keep-Alive: 5",
            "Authorization: Basic own",
            "Connection: X-Private, Host",
        )
    assert recorder.heads[-1].startswith(b"GET /a%2Fb/../c?q=%20&&x HTTP/1.1\r\n")
    headers = recorder.headers()
    assert headers == {
        "cookie": "theirs=1",
        "authorization": "basic own",
        "host": here.name(),
        "x-forwarded-host": here.name(),
        "x-forwarded-proto": "http",
        "connection": "close",
    }


def test_only_allowed_headers_of_an_answer_reach_the_browser() -> None:
    def passed(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
        given_pairs = [(name.encode(), value.encode("latin-1")) for name, value in pairs]
        found = [(n.decode(), v.decode("latin-1")) for n, v in response_headers(given_pairs, 8000)]
        return [pair for pair in found if pair[0] not in {"referrer-policy", "x-robots-tag"}]

    assert passed(
        ("set-cookie", "a=1; Domain=preview.localhost; Path=/"),
        ("set-cookie", "b=2;domain = .preview.localhost"),
        ("set-cookie", "c=domain=x; DOMAIN;HttpOnly"),
    ) == [
        ("set-cookie", "a=1; Path=/"),
        ("set-cookie", "b=2"),
        ("set-cookie", "c=domain=x;HttpOnly"),
    ]
    assert passed(
        ("clear-site-data", '"cookies"'),
        ("alt-svc", 'h2=":8080"'),
        ("server", "x"),
        ("upgrade", "h2c"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("x-control", "a\x01b"),
        ("content-type", "text/html"),
    ) == [("content-type", "text/html")]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("http://localhost:8000/login?next=/#x", "/login?next=/#x"),
        ("http://127.0.0.1:8000", "/"),
        ("http://0.0.0.0:8000//evil.example/", "/evil.example/"),
        ("http://[::1]:8000/a", "/a"),
        ("http://localhost:8000/\\evil.example", "/evil.example"),
        ("http://localhost:8080/ui", "http://localhost:8080/ui"),
        ("http://169.254.169.254/", "http://169.254.169.254/"),
        ("/relative", "/relative"),
        ("https://example.org/", "https://example.org/"),
        ("http://localhost:99999/", "http://localhost:99999/"),
        ("//localhost:8000/a", "/a"),
    ],
)
def test_a_redirect_to_the_box_itself_leads_to_the_preview(location: str, expected: str) -> None:
    (found,) = (
        v for n, v in response_headers([(b"location", location.encode())], 8000) if n == b"location"
    )
    assert found == expected.encode()


async def test_the_preview_follows_no_redirect(here: World) -> None:
    elsewhere = f"http://127.0.0.1:{here.port}/private"
    head = f"HTTP/1.1 302 Found\nLocation: {elsewhere}\nContent-Length: 0"
    before = len(here.bot.seen)
    async with here.box.serving(8000, says(head)):
        answer = await here.get(here.name())
    assert f"location: {elsewhere}".encode() in answer
    assert len(here.bot.seen) == before


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("SSH-2.0-OpenSSH_9", b""),
        ("HTTP/1.1 999 What\nContent-Length: 0", b""),
        ("HTTP/1.1 101 Switching Protocols\nUpgrade: x\nConnection: upgrade", b"raw"),
        ("HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2", b"ab"),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK\nbad header: 1", b""),
        (f"HTTP/1.1 200 OK\nX: {'a' * 200_000}", b""),
        ("", b""),
    ],
)
async def test_an_invalid_answer_becomes_bad_gateway(here: World, head: str, body: bytes) -> None:
    async with here.box.serving(8000, says(head, body)):
        assert status(await here.get(here.name())) == 502
    assert (await here.get("localhost")).endswith(b"the bot")


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("HTTP/1.1 200 OK\nContent-Length: 10", b"half"),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"4\r\nhalf\r\n"),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"zz\r\nhalf\r\n"),
    ],
)
async def test_an_incomplete_answer_does_not_look_complete(
    here: World, head: str, body: bytes
) -> None:
    async with here.box.serving(8000, says(head, body)):
        answer = await here.get(here.name())
    assert status(answer) == 200
    assert b"content-length: 10" in answer or not answer.endswith(b"0\r\n\r\n")
    assert len(answer.partition(b"\r\n\r\n")[2]) < 10 + 3


async def test_answers_without_a_body_may_have_a_content_length(here: World) -> None:
    answers = [
        "HTTP/1.1 304 Not Modified\nContent-Length: 10\nETag: x",
        "HTTP/1.1 204 No Content",
        "HTTP/1.1 200 OK\nConnection: close",
    ]
    for head in answers:
        async with here.box.serving(8000, says(head)):
            answer = await here.get(here.name())
        assert answer.startswith(head.split("\n")[0].encode())
    async with here.box.serving(8000, says("HTTP/1.1 200 OK\nContent-Length: 10")):
        answer = await here.get(here.name(), method="HEAD")
    assert b"content-length: 10" in answer


async def test_a_smuggled_request_reaches_no_server(here: World) -> None:
    name, recorder = here.name(), Recorder()
    seen = len(here.bot.seen)
    async with here.box.serving(8000, recorder):
        framed = "Content-Length: 4\r\nTransfer-Encoding: chunked"
        both = f"POST / HTTP/1.1\r\nHost: {name}\r\n{framed}\r\n\r\n"
        hidden = f"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
        await here.ask(both + hidden)
    assert not any(
        b"transfer" in h.lower() and b"content-length" in h.lower() for h in recorder.heads
    )
    assert len(here.bot.seen) == seen


async def test_the_size_and_time_of_a_previews_requests_are_limited() -> None:
    settings = PreviewSettings(body_mb=1, answer_s=0.8, upload_s=0.8, idle_s=0.8)
    async with world(settings) as here:
        name = here.name()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async with here.box.serving(8000, silent):
            assert status(await here.get(name)) == 504
            deaf = f"POST / HTTP/1.1\r\nHost: {name}\r\nContent-Length: 2\r\n\r\nab"
            assert status(await here.ask(deaf)) == 504
            slow = f"POST / HTTP/1.1\r\nHost: {name}\r\nContent-Length: 10\r\n\r\nab"
            assert status(await here.ask(slow)) == 408
            big = f"POST / HTTP/1.1\r\nHost: {name}\r\nContent-Length: 2000000\r\n\r\n"
            assert status(await here.ask(big.encode() + bytes(2_000_000))) == 413

        async def stalls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            await reader.read()

        async with here.box.serving(8000, stalls):
            assert (await here.get(name)).endswith(b"half")


async def test_a_fast_server_waits_for_a_slow_reader(here: World) -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        piece = bytes(1024 * 1024)
        while sent < 256:
            writer.write(piece)
            await writer.drain()
            sent += 1

    async with here.box.serving(8000, flood):
        _, writer = await asyncio.open_connection("127.0.0.1", here.port, limit=1024)
        writer.write(f"GET / HTTP/1.1\r\nHost: {here.name()}\r\n\r\n".encode())
        before = -1
        with anyio.fail_after(30):
            while before != sent or not sent:
                before = sent
                await anyio.sleep(0.2)
        assert sent < 64, "the host must not buffer megabytes for a slow reader"
        writer.transport.abort()


@pytest.mark.parametrize("port", [0, -1, 65536, 3128])
def test_invalid_and_reserved_ports_get_no_preview(port: int) -> None:
    with pytest.raises(PreviewRefused, match=str(port)):
        PreviewRegistry(PreviewSettings(), 8080).open(LoopbackBox(), port)


def test_the_number_of_previews_of_a_box_is_limited() -> None:
    preview, box = PreviewRegistry(PreviewSettings(), 8080), LoopbackBox()
    for port in range(1, MOST_PORTS + 1):
        preview.open(box, port)
    with pytest.raises(PreviewRefused, match="shown already"):
        preview.open(box, MOST_PORTS + 1)
    assert preview.open(box, 1)


def test_the_registry_keeps_no_destroyed_boxes() -> None:
    preview = PreviewRegistry(PreviewSettings(), 8080)
    gone = weakref.WeakSet[LoopbackBox]()
    for _ in range(3):
        box = LoopbackBox()
        preview.open(box, 80)
        box.preview_state = PreviewTargetState.GONE
        gone.add(box)
    preview.open(LoopbackBox(), 80)
    del box
    gc.collect()
    assert not gone


@pytest.mark.parametrize("domain", ["localhost", "127.0.0.1", "", "a b.c", "x..y", "[::1]", "-a.b"])
def test_an_invalid_preview_domain_is_refused(domain: str) -> None:
    with pytest.raises(ValueError, match="expected a domain"):
        PreviewSettings(domain=domain)


def test_addresses_use_the_proxys_domain_scheme_and_port() -> None:
    settings = PreviewSettings(domain="*.Boxes.Example.org.", scheme="https", port=443)
    address = PreviewRegistry(settings, 8080).open(LoopbackBox(), 80)
    assert address.startswith("https://")
    assert address.endswith(".boxes.example.org/")


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_no_request_for_a_host_below_the_preview_domain_reaches_the_bot(hosts: list[bytes]) -> None:
    preview = PreviewRegistry(PreviewSettings(), 8080)
    for spelled in (b"preview.localhost", b"PREVIEW.localhost"):
        scope = {"headers": [(b"host", host + b"." + spelled + host) for host in hosts]}
        found = called_name(scope, preview)
        if hosts and isinstance(found, str):
            assert preview.is_name(found)
        elif hosts and found.value == "bot":
            (single,) = scope["headers"]
            name = single[1].decode("latin-1").lower().split(":")[0].rstrip(".")
            assert not name.endswith(".preview.localhost")


@given(st.lists(st.tuples(st.sampled_from([b"cookie", b"connection"]), st.binary(max_size=60))))
def test_no_spelling_of_a_cookie_of_the_bot_reaches_a_box(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    planted = [(name, value + b"; nekro_session_1=s;" + value) for name, value in pairs]
    for name, value in request_headers(planted, scheme="http"):
        if name == b"cookie":
            for piece in value.split(b";"):
                assert not piece.strip().lower().startswith(b"nekro_")


PIECES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n",
        b"HTTP/1.1 304 X\r\n",
        b"HTTP/9.9 200 OK\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close, content-length\r\n",
        b"Upgrade: websocket\r\nConnection: upgrade\r\n",
        b"Location: http://[::1\r\n",
        b"Set-Cookie: a=\xff; domain\r\n",
        b"X\x00: y\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"fffffffffffffffff\r\n",
        b"abc",
    ]
)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pieces=st.lists(PIECES | st.binary(max_size=20), max_size=8), upgrade=st.booleans())
async def test_whatever_a_server_sends_the_browser_gets_one_answer(
    here: World, pieces: list[bytes], upgrade: bool
) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"".join(pieces))

    name = here.name()
    head = f"GET / HTTP/1.1\r\nHost: {name}\r\n"
    if upgrade:
        head += "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        head += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    else:
        head += "Connection: close\r\n\r\n"
    before = len(here.bot.seen)
    async with here.box.serving(8000, speak):
        answer = await here.ask(head)
    assert 200 <= status(answer) < 600
    assert len(here.bot.seen) == before
