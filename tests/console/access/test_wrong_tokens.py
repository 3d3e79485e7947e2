"""Wrong tokens are counted and refused. The right token always works, however it is given."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import httpx
import pytest
from fastapi import FastAPI, WebSocket
from pydantic import SecretStr, ValidationError
from starlette.datastructures import Headers
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from nekro_core.console.access.guard import session_cookie
from nekro_core.console.access.login_attempts import (
    FAILURE_WINDOW_S,
    MAX_ADDRESSES,
    MAX_FAILURES,
    MAX_FAILURES_IN_ALL,
    LoginAttempts,
)
from nekro_core.console.access.login_forms import MOST_FORMS
from nekro_core.console.access.settings import AccessSettings
from nekro_core.operator.identity.guess_limit import rate_limit_key
from tests.adapters.web.running import NO_TLS, Clock, Web
from tests.console.access.guarded import TOKEN, guarded

Way = Callable[[Web, httpx.AsyncClient, str], Awaitable[httpx.Response]]


async def by_header(_: Web, stranger: httpx.AsyncClient, token: str) -> httpx.Response:
    return await stranger.get("/api/v1/rooms", headers={"Authorization": f"Bearer {token}"})


async def by_event_stream(chat: Web, stranger: httpx.AsyncClient, token: str) -> httpx.Response:
    address = "/api/v1/rooms/lobby/events"
    headers = {"Authorization": f"Bearer {token}"}
    async with stranger.stream("GET", address, headers=headers) as answer:
        return answer


async def by_plugins_page(_: Web, stranger: httpx.AsyncClient, token: str) -> httpx.Response:
    return await stranger.get("/plugins/none", headers={"Authorization": f"Bearer {token}"})


async def by_form(_: Web, stranger: httpx.AsyncClient, token: str) -> httpx.Response:
    return await stranger.post("/login", data={"token": token})


async def by_link(_: Web, stranger: httpx.AsyncClient, token: str) -> httpx.Response:
    return await stranger.get("/", params={"token": token})


WAYS: dict[str, Way] = {
    "header": by_header,
    "event stream": by_event_stream,
    "plugins": by_plugins_page,
    "form": by_form,
    "link": by_link,
}
WRONG = {name: WAYS[name] for name in ("header", "form", "link")}


def is_in(answer: httpx.Response) -> bool:
    return answer.status_code not in {401, 403, 429}


@pytest.mark.parametrize("wrong", WRONG)
async def test_the_right_token_works_after_many_wrong_ones(chat: Web, wrong: str) -> None:
    async with chat.stranger() as stranger:
        tries = [await WRONG[wrong](chat, stranger, "wrong") for _ in range(2 * MAX_FAILURES)]
    assert [a.status_code for a in tries] == [401] * MAX_FAILURES + [429] * MAX_FAILURES
    assert all(0 < int(a.headers["retry-after"]) <= FAILURE_WINDOW_S + 1 for a in tries[-5:])
    for name, way in WAYS.items():
        token = chat.site.access_token
        if name == "link":
            token = chat.site.login_link(chat.url).partition("token=")[2]
        async with chat.stranger() as owner:
            answer = await way(chat, owner, token)
            assert is_in(answer), (name, answer.status_code)
    # The one-time token of a link also works in the form, because people may paste it there.
    token = chat.site.login_link(chat.url).partition("token=")[2]
    async with chat.stranger() as owner:
        assert is_in(await by_form(chat, owner, token))
        assert "nekro_session" in str(owner.cookies)
        # The session cookie works as well.
        assert (await owner.get("/api/v1/rooms")).status_code == 200


async def test_the_right_token_works_while_wrong_ones_arrive(chat: Web) -> None:
    stop = anyio.Event()

    async def guess() -> None:
        async with chat.stranger() as stranger:
            while not stop.is_set():
                await by_form(chat, stranger, "wrong")

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(guess)
        with anyio.fail_after(30):
            for _ in range(50):
                async with chat.stranger() as owner:
                    assert is_in(await by_form(chat, owner, chat.site.access_token))
                assert is_in(await by_header(chat, chat.client, chat.site.access_token))
        stop.set()


async def test_wrong_tokens_from_many_addresses_share_a_limit(chat: Web) -> None:
    statuses = []
    for last in range(2, 3 + MAX_FAILURES_IN_ALL // (MAX_FAILURES - 1)):
        # All addresses in 127.0.0.0/8 belong to this machine, so a test can use several of them.
        transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{last}", verify=NO_TLS)
        async with httpx.AsyncClient(base_url=chat.url, transport=transport) as stranger:
            tries = [await by_header(chat, stranger, "wrong") for _ in range(MAX_FAILURES - 1)]
            statuses += [answer.status_code for answer in tries]
    assert statuses[:MAX_FAILURES_IN_ALL] == [401] * MAX_FAILURES_IN_ALL
    assert set(statuses[MAX_FAILURES_IN_ALL:]) == {429}
    assert is_in(await by_header(chat, chat.client, chat.site.access_token))
    chat.clock.now += FAILURE_WINDOW_S + 1
    async with chat.stranger() as stranger:
        assert (await by_header(chat, stranger, "wrong")).status_code == 401


async def test_a_refused_connection_is_closed(chat: Web) -> None:
    # Each further attempt thus needs a new connection.
    async with chat.stranger() as stranger:
        answers = [await by_header(chat, stranger, "wrong") for _ in range(MAX_FAILURES + 1)]
    assert answers[-1].headers["connection"] == "close"
    assert "close" not in answers[0].headers.get("connection", "")


async def test_a_header_cannot_change_the_address_that_is_counted(chat: Web) -> None:
    async with chat.stranger() as stranger:
        statuses = []
        for last in range(MAX_FAILURES + 1):
            stranger.headers["X-Forwarded-For"] = f"198.51.100.{last}"
            statuses.append((await by_header(chat, stranger, "wrong")).status_code)
    assert statuses == [401] * MAX_FAILURES + [429]


async def test_the_right_token_works_for_a_websocket(tmp_path: Path) -> None:
    app = FastAPI()

    @app.websocket("/plugins/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("here")

    async with guarded(app, tmp_path) as (url, authenticator):
        address = url.replace("http", "ws", 1) + "/plugins/echo"

        async def hears(**headers: str) -> str:
            try:
                async with connect(address, additional_headers=headers, proxy=None) as socket:
                    return str(await socket.recv())
            except (InvalidHandshake, ConnectionClosed):
                return ""

        for _ in range(2 * MAX_FAILURES):
            assert await hears(Authorization="Bearer wrong") == ""
        assert await hears(Authorization=f"Bearer {TOKEN}") == "here"
        session = await authenticator.identity.sessions.begin(
            await authenticator.identity.people.owner(), address="", user_agent=""
        )
        assert await hears(Cookie=f"{authenticator.cookie}={session}") == "here"


def test_the_number_of_remembered_addresses_is_bounded() -> None:
    clock = Clock()
    attempts = LoginAttempts(clock)
    for number in range(3 * MAX_ADDRESSES):
        attempts.failed(f"198.51.{number // 250}.{number % 250}")
    assert len(attempts) == MAX_ADDRESSES
    # This address has not failed yet. It must wait because all addresses together have failed
    # too often.
    assert attempts.wait_s("203.0.113.1") == FAILURE_WINDOW_S
    clock.now += FAILURE_WINDOW_S
    assert attempts.wait_s("203.0.113.1") == 0


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        # A client with an IPv6 address can usually use the 2**64 addresses of its network.
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1%eth0", "2001:db8:1:2::/64"),
        ("", ""),
        ("what a proxy made up" * 100, ""),
    ],
)
def test_failures_are_counted_per_address_or_ipv6_network(address: str, counted: str) -> None:
    assert rate_limit_key(address) == counted


@pytest.mark.parametrize("token", ["a" * 40, "abcabcabcabcabcabcabc", "too short"])
def test_a_token_that_can_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(ValidationError, match="at least"):
        AccessSettings(web_access_token=SecretStr(token))


@pytest.mark.parametrize(
    "value", ['"' + "\\" * 60_000 + '"', '"' + '\\"' * 30_000 + '"', "=" * 60_000]
)
async def test_a_cookie_with_many_backslashes_is_parsed_quickly(chat: Web, value: str) -> None:
    # In Python 3.11.7, http.cookies takes time that grows with the square of the number of
    # backslashes (CVE-2024-7592). Debian's 3.11.2-6+deb12u6 and 3.12.6 have the repair. This cookie
    # took 9.5 s, in which all chats waited.
    began = time.thread_time()  # the server runs in this thread
    async with chat.stranger(Cookie=f"a={value}") as stranger:
        assert (await stranger.get("/api/v1/rooms")).status_code in {401, 431}
    assert time.thread_time() - began < 3


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("a=1; s=right; b=2", "right"),
        ("s=right", "right"),
        ('s="right"', "right"),
        (" s = right ;", "right"),
        ("sx=wrong; xs=wrong", ""),
        ("s; s=right", "right"),
        ("a=s=wrong", ""),
        ("", ""),
    ],
)
def test_the_sessions_cookie_is_found_among_others(header: str, found: str) -> None:
    headers = Headers({"cookie": header})
    assert session_cookie(headers, "s") == found


async def test_if_too_many_forms_arrive_slowly_the_oldest_end_and_a_new_form_is_read(
    chat: Web,
) -> None:
    port = int(chat.url.rpartition(":")[2])
    slow = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken="
    async with AsyncExitStack() as stack:
        streams = []
        for _ in range(MOST_FORMS + 5):
            stream = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            await stream.send(slow)
            streams.append(stream)
        for stream in streams[:5]:
            with anyio.fail_after(30):
                assert b" 408 " in await stream.receive()
        async with chat.stranger() as owner:
            assert is_in(await by_form(chat, owner, chat.site.access_token))
        # The other forms have not come to the end of their time.
        with anyio.move_on_after(0.2) as silence:
            await streams[-1].receive()
        assert silence.cancelled_caught
