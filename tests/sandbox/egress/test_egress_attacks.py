"""Tests of row 5 of the table of attacks (docs/attacks.md): spellings of names, kinds of addresses,
and DNS answers that change."""

from collections.abc import AsyncIterator

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.egress import EgressDenied, EgressRules
from nekro_core.sandbox.egress.dial import Dialer
from nekro_core.sandbox.egress.rules import Destination, EgressRule
from nekro_core.system.addresses import is_of_this_machine
from tests.sandbox.egress.world import PUBLIC, World, echo, world
from tests.sandbox.preview.world import says, status

OK = "HTTP/1.1 200 OK\nContent-Length: 2"


@pytest.fixture(scope="module")
async def out(anyio_backend: str) -> AsyncIterator[World]:
    """A box that may reach allowed.tld and the names below sub.tld. Every name has an address."""
    async with world(None, "allowed.tld", "*.sub.tld", "bücher.tld") as made:
        names = ("allowed.tld", "a.sub.tld", "evil.tld", "xn--bcher-kva.tld")
        made.internet.names |= {name: [[PUBLIC]] for name in names}
        async with (
            made.internet.serving(PUBLIC, 80, says(OK, b"ok")),
            made.internet.serving(PUBLIC, 443, echo),
        ):
            yield made


@pytest.mark.parametrize(
    "authority",
    ["allowed.tld:443", "a.sub.tld:443", "xn--bcher-kva.tld:443", "allowed.tld:80"],
)
async def test_allowed_names_are_reached(out: World, authority: str) -> None:
    assert await out.status(authority) == 200


SPELLINGS = [
    "evil.tld",
    "evil.allowed.tld",
    "sub.tld",
    "xsub.tld",
    "allowed.tld.evil.tld",
    "evilallowed.tld",
    "allowed.tld.",
    "allowed.tld..",
    "ALLOWED.tld",
    "Allowed.Tld",
    "allowed.tld@evil.tld",
    "evil.tld@allowed.tld",
    "user:pass@allowed.tld",
    "allowed.tld%00.evil.tld",
    "evil.tld%00.allowed.tld",
    "evil.tld\\.allowed.tld",
    "evil.tld#.allowed.tld",
    "evil.tld?.allowed.tld",
    "evil.tld/.allowed.tld",
    ".sub.tld",
    "a..sub.tld",
    "*.sub.tld",
    "-a.sub.tld",
    "a b.sub.tld",
    f"{'a' * 64}.sub.tld",
    f"{'a.' * 130}sub.tld",
    "b\u00fccher.tld",
    "\uff41llowed.tld",
    "allowed\u3002tld",
    "xn--allowed-.tld",
    "",
    PUBLIC,
    "93.184.215.014",
    "0135.0270.0327.0016",
    "0x5d.0xb8.0xd7.0xe",
    "0x5db8d70e",
    "1572394766",
    "93.12113678",
    "127.1",
    "127.0.0.1",
    "0",
    "[::1]",
    "[::ffff:127.0.0.1]",
    f"[::ffff:{PUBLIC}]",
    "[fe80::1%25lo]",
    "[64:ff9b::7f00:1]",
    "[allowed.tld]",
    "::1",
    "localhost",
    "allowed",
]


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_other_spelling_of_a_name_is_reached(out: World, host: str) -> None:
    asked, connected = len(out.internet.asked), len(out.internet.connected)
    sent = host.encode("utf-8").decode("latin-1")
    for answer in (
        await out.get(f"http://{sent}/"),
        await out.ask(f"CONNECT {sent}:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
    ):
        assert status(answer) in {400, 403}
    assert len(out.internet.asked) == asked, (
        "the name must not be looked up, because a name can carry data out"
    )
    assert len(out.internet.connected) == connected


@pytest.mark.parametrize("byte", [0, 1, 9, 10, 11, 13, 32, 127, 128, 255])
async def test_names_with_odd_bytes_are_refused(out: World, byte: int) -> None:
    asked = len(out.internet.asked)
    raw = bytes([byte])
    for name in (b"evil" + raw + b".allowed.tld", b"allowed.tld" + raw, raw + b"allowed.tld"):
        answer = await out.ask(b"CONNECT " + name + b":443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert not answer or status(answer) in {400, 403}
    assert len(out.internet.asked) == asked


@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT allowed.tld HTTP/1.1",
        "CONNECT allowed.tld:0 HTTP/1.1",
        "CONNECT allowed.tld:65536 HTTP/1.1",
        "CONNECT allowed.tld:22 HTTP/1.1",
        "CONNECT allowed.tld:443:80 HTTP/1.1",
        "CONNECT allowed.tld:\u0664\u0664\u0663 HTTP/1.1",
        "CONNECT http://allowed.tld:443 HTTP/1.1",
        "GET / HTTP/1.1",
        "GET allowed.tld HTTP/1.1",
        "GET https://allowed.tld/ HTTP/1.1",
        "GET ftp://allowed.tld/ HTTP/1.1",
        "GET http:allowed.tld/ HTTP/1.1",
        "GET http:///allowed.tld HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "\x16\x03\x01\x02\x00\x01\x00",
        "SSH-2.0-OpenSSH",
    ],
)
async def test_an_invalid_proxy_request_is_refused(out: World, request_line: str) -> None:
    connected = len(out.internet.connected)
    answer = await out.ask(f"{request_line}\r\nHost: allowed.tld\r\n\r\n".encode())
    assert status(answer) in {400, 403}
    assert len(out.internet.connected) == connected


INSIDE = [
    ["127.0.0.1"],
    ["10.0.0.1"],
    ["169.254.169.254"],
    ["100.64.0.1"],
    ["0.0.0.0"],
    ["224.0.0.1"],
    ["::1"],
    ["fe80::1%lo"],
    ["fd00::1"],
    ["::ffff:127.0.0.1"],
    ["64:ff9b::7f00:1"],
    ["2002:7f00:1::"],
    [PUBLIC, "127.0.0.1"],
    ["127.0.0.1", PUBLIC],
]


@pytest.mark.parametrize("addresses", INSIDE)
async def test_an_allowed_name_at_a_private_address_is_refused(addresses: list[str]) -> None:
    async with world(None, "allowed.tld") as out:
        out.internet.names["allowed.tld"] = [addresses]
        answer = await out.get("http://allowed.tld/")
        assert status(answer) == 403
        assert await out.status("allowed.tld:443") == 403
        assert out.internet.connected == []


async def test_each_request_looks_a_name_up_once_and_uses_that_address() -> None:
    async with world(None, "allowed.tld") as out:
        out.internet.names["allowed.tld"] = [[PUBLIC], ["127.0.0.1"]]
        async with out.internet.serving(PUBLIC, 443, echo):
            assert await out.status("allowed.tld:443") == 200
            assert out.internet.asked == ["allowed.tld"]
            assert await out.status("allowed.tld:443") == 403
        assert out.internet.connected == [(PUBLIC, 443)]


async def test_an_operator_may_allow_a_single_private_server() -> None:
    async with world() as out:
        await out.allow("allowed.tld", private=("127.0.0.1:8081", "index.lan"))
        out.internet.names["index.lan"] = [["192.168.1.5"]]
        async with (
            out.internet.serving("127.0.0.1", 8081, says(OK, b"ok")),
            out.internet.serving("192.168.1.5", 80, says(OK, b"ok")),
        ):
            assert status(await out.get("http://127.0.0.1:8081/")) == 200
            assert status(await out.get("http://index.lan/")) == 200
            for url in ("http://127.0.0.1/", "http://127.0.0.2:8081/", "http://localhost:8081/"):
                assert status(await out.get(url)) == 403


async def test_the_public_address_of_this_machine_counts_as_private() -> None:
    for host, expected in (("127.0.0.1", True), ("[::1]", True), (PUBLIC, False)):
        address = Destination.parse(f"{host}:1").address
        assert address is not None
        assert is_of_this_machine(address) is expected


@pytest.mark.parametrize(
    ("text", "allowed", "refused"),
    [
        ("example.org", ["example.org:443", "example.org:80"], ["a.example.org:443"]),
        ("Example.ORG.", ["example.org:443"], ["example.org:8443"]),
        ("example.org:8443", ["example.org:8443"], ["example.org:443"]),
        ("*.example.org", ["a.example.org:443", "a.b.example.org:80"], ["example.org:443"]),
        ("*", ["any.example:443"], ["localhost:80", "1.1.1.1:443", "[2606:4700::1]:443"]),
        ("1.1.1.1", ["1.1.1.1:443"], ["1.1.1.2:443"]),
        ("[2606:4700::1]:443", ["[2606:4700::1]:443", "[2606:4700:0::1]:443"], []),
        ("bücher.example", ["xn--bcher-kva.example:443"], []),
    ],
)
def test_which_destinations_a_rule_matches(
    text: str, allowed: list[str], refused: list[str]
) -> None:
    rule = EgressRule.parse(text)
    assert all(rule.matches(Destination.parse(one)) for one in allowed)
    assert not any(rule.matches(Destination.parse(one)) for one in refused)


@pytest.mark.parametrize(
    "text",
    [
        *("", "*.", "**", "a.*.b", "http://example.org", "example.org/", "a:b", "a:0", "a:70000"),
        *("a b", "1.2.3", "*.1.1.1.1", "256.1.1.1", "[::1", "user@example.org", "0x7f.1"),
    ],
)
def test_an_invalid_rule_is_refused_with_an_explanation(text: str) -> None:
    with pytest.raises(ValueError, match="is no rule; expected"):
        EgressRule.parse(text)


@given(st.text(max_size=40), st.integers(1, 65535))
def test_a_destination_has_one_spelling(text: str, port: int) -> None:
    """A destination that can be parsed is written in the same way, and parses to the same value."""
    try:
        destination = Destination.parse(f"{text}:{port}")
    except EgressDenied:
        return
    assert destination.port == port
    assert Destination.parse(str(destination)) == destination
    if not text.startswith("["):
        assert destination.host == text
        assert text == text.lower()
    assert not EgressRules.parse(["allowed.tld"]).find(destination) or text == "allowed.tld"


async def test_an_ip_address_is_not_looked_up_as_a_name() -> None:
    async def never(name: str) -> list[str]:
        raise AssertionError(name)

    rule = EgressRule.parse("127.0.0.1:1", private=True)
    with pytest.raises(Exception, match="nobody answers"):
        await Dialer(never).dial(Destination.parse("127.0.0.1:1"), rule)


LINES = st.sampled_from(
    [
        b"CONNECT allowed.tld:443 HTTP/1.1\r\n",
        b"CONNECT evil.tld:443 HTTP/1.1\r\n",
        b"GET http://allowed.tld/ HTTP/1.1\r\n",
        b"POST http://allowed.tld/ HTTP/1.0\r\n",
        b"GET http://evil.tld/ HTTP/1.1\r\n",
        b"Host: evil.tld\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: keep-alive\r\n",
        b"Expect: 100-continue\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\r\n",
        b"\n",
    ]
)


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pieces=st.lists(LINES | st.binary(max_size=20), max_size=10))
async def test_whatever_a_box_sends_only_allowed_names_are_looked_up(
    out: World, pieces: list[bytes]
) -> None:
    before = len(out.internet.asked)
    reader, writer = await out.connection()
    writer.write(b"".join(pieces))
    writer.write_eof()
    with anyio.fail_after(30):
        await reader.read()
    writer.close()
    assert set(out.internet.asked[before:]) <= {"allowed.tld"}
