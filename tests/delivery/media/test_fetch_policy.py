"""The tests check from which hosts media may be fetched, for a platform's messages and for a chat's
code."""

import ipaddress
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from nekro_core.delivery.errors import NotFetched
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import ChatFetchPolicy, FetchPolicy, PlatformFetchPolicy
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.sandbox.egress import EgressRules
from nekro_core.sandbox.egress.limits import TrafficBudgetExceeded
from tests.peers.visited import Visited, own_address, visited


@pytest.fixture
def served() -> Iterator[Visited]:
    with visited() as serving:
        yield serving


def nobody(_: int) -> bool:
    return False


def platform(*entries: str, old_ports: frozenset[int] = frozenset()) -> PlatformFetchPolicy:
    """A policy that counts no port as the bot's own, so that it can reach the test's servers."""
    return PlatformFetchPolicy(entries, old_ports=old_ports, is_own_port=nobody)


def chat(*allowed: str, private: tuple[str, ...] = (), told: bool = True) -> ChatFetchPolicy:
    return ChatFetchPolicy(EgressRules.parse(allowed, private), told=lambda _: told)


async def fetched(reach: FetchPolicy, url: str, *answers: str) -> bytes:
    async def resolve(host: str, _: int) -> list[str]:
        return list(answers) or [host]

    async with Fetcher(MediaSettings(fetch_s=2), reach, resolve=resolve) as fetcher:
        return await fetcher.fetch(url)


async def test_the_program_of_a_platform_is_reached_only_at_its_port(served: Visited) -> None:
    reach = platform(f"127.0.0.1:{served.port}")
    assert await fetched(reach, f"http://127.0.0.1:{served.port}/") == b"well"
    with pytest.raises(NotFetched, match="not public"):
        await fetched(reach, f"http://127.0.0.1:{served.port - 1}/")
    with pytest.raises(NotFetched, match="not public"):
        await fetched(platform("127.0.0.1:1"), f"http://127.0.0.1:{served.port}/")


async def test_a_private_host_without_a_port_opens_only_web_ports_and_old_onebot_ports(
    served: Visited,
) -> None:
    url = f"http://127.0.0.1:{served.port}/"
    with pytest.raises(NotFetched, match=f'PRIVATE_HOSTS=\\["127.0.0.1:{served.port}"\\]'):
        await fetched(platform("127.0.0.1"), url)
    old = platform("127.0.0.1", old_ports=frozenset({served.port}))
    assert await fetched(old, url) == b"well"


@pytest.mark.parametrize("host", ["127.0.0.1", "own"])
async def test_the_bots_own_ports_are_never_reached(served: Visited, host: str) -> None:
    host = own_address() if host == "own" else host
    # The policy needs no list of the bot's ports: each port on which this process listens is one of
    # them.
    for entry in (f"{host}:{served.port}", host):
        reach = PlatformFetchPolicy((entry,), old_ports=frozenset({served.port}))
        with pytest.raises(NotFetched, match="the bot itself listens"):
            await fetched(reach, f"http://{host}:{served.port}/")
    assert served.visits == []


async def test_a_public_address_of_this_machine_counts_as_private(served: Visited) -> None:
    host = own_address()
    for reach in (platform(), chat(f"{host}:{served.port}"), chat("*", told=False)):
        with pytest.raises(NotFetched):
            await fetched(reach, f"http://{host}:{served.port}/")
    assert served.visits == []


async def test_the_target_of_a_redirect_is_checked_too(served: Visited) -> None:
    inner = f"http://127.0.0.1:{served.port}/inner"
    reach = platform(f"files.example:{served.port}")
    with pytest.raises(NotFetched, match="not public"):
        await fetched(reach, f"http://files.example:{served.port}/to/{inner}", "127.0.0.1")
    assert served.visits == [f"/to/{inner}"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://0.0.0.0:{port}/",
        "http://127.7.7.7:{port}/",
        "http://{own}:{port}/",
        "http://[::ffff:{own}]:{port}/",
        "http://inside.example:{port}/",
        "http://169.254.1.1:{port}/",
        "http://[fe80::1]:{port}/",
    ],
)
async def test_code_never_reaches_this_machine_whatever_the_settings_allow(
    served: Visited, url: str
) -> None:
    url = url.format(port=served.port, own=own_address())
    host = url.split("//")[1].rpartition(":")[0]
    inner = () if "example" not in url else ("127.0.0.1",)
    allowed = (f"{host}:{served.port}",)
    for reach in (chat(private=allowed), chat(*allowed), chat(private=allowed, told=False)):
        with pytest.raises(NotFetched):
            await fetched(reach, url, *inner)
    assert served.visits == []


@pytest.mark.parametrize(
    ("allowed", "url", "problem"),
    [
        ((), "http://example.org/x.png", "has no network"),
        ((), "http://example.org/x.png", r'NEKRO_SANDBOX__EGRESS=\["example.org"\]'),
        (("example.net",), "http://example.org/x.png", "example.org:80 is not among"),
        (("example.org",), "http://example.org:8080/x.png", "example.org:8080 is not among"),
        (("*.example.org",), "https://example.org/x.png", "is not among"),
    ],
)
async def test_code_reaches_only_hosts_that_the_chats_boxes_may_reach(
    allowed: tuple[str, ...], url: str, problem: str
) -> None:
    asked: list[str] = []

    async def resolve(host: str, _: int) -> list[str]:
        asked.append(host)
        return ["8.8.8.8"]

    async with Fetcher(MediaSettings(fetch_s=2), chat(*allowed), resolve=resolve) as fetcher:
        with pytest.raises(NotFetched, match=problem):
            await fetcher.fetch(url)
    # The host was not looked up, because a lookup alone would send data to the name server of its
    # domain.
    assert asked == []


async def test_a_host_that_code_did_not_name_needs_no_rule_but_must_be_public() -> None:
    with pytest.raises(NotFetched, match="not public"):
        await fetched(chat(told=False), "http://example.org/", "10.0.0.1")
    reach = chat(told=False)
    reach.check_host("example.org", 443)


async def test_fetches_of_code_count_against_the_traffic_budget_of_the_boxes() -> None:
    def spend(_: int) -> None:
        raise TrafficBudgetExceeded

    reach = ChatFetchPolicy(EgressRules.parse(["example.org"]), told=lambda _: True, spend=spend)
    with pytest.raises(NotFetched, match="traffic of the hour"):
        reach.check_host("example.org", 80)


@pytest.mark.parametrize("entry", ["", "http://127.0.0.1", "a:0", "a:99999", "a:b", "[::1", "a/b"])
def test_an_invalid_private_host_is_refused_with_an_example(entry: str) -> None:
    with pytest.raises(ValidationError, match=r"127\.0\.0\.1:3001"):
        MediaSettings(private_hosts=frozenset({entry}))


def test_private_hosts_without_a_port_are_listed_in_bare() -> None:
    reach = platform("127.0.0.1", "files.lan:9000", "::1", old_ports=frozenset({3001}))
    assert reach.bare == ["127.0.0.1", "::1"]


def test_refused_destinations_are_reported_with_their_reason() -> None:
    refused: list[tuple[str, str]] = []
    policy = ChatFetchPolicy(
        EgressRules.parse(["files.example"]),
        told=lambda _: True,
        refused=lambda destination, reason: refused.append((destination, reason)),
    )
    policy.check_host("files.example", 443)
    with pytest.raises(NotFetched):
        policy.check_host("evil.example", 8443)
    with pytest.raises(NotFetched):
        policy.check_addresses("files.example", 443, [ipaddress.ip_address("127.0.0.1")])
    assert [destination for destination, _ in refused] == ["evil.example:8443", "files.example:443"]
    assert "not among what this chat's code may reach" in refused[0][1]
