"""Strangers and requests from other sites are refused, each with a clear answer."""

import stat
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from nekro_core.console.access.login_attempts import (
    FAILURE_WINDOW_S,
    MAX_FAILURES,
    MAX_FAILURES_IN_ALL,
    LoginAttempts,
)
from nekro_core.console.access.origins import host_allowed, origin_allowed
from tests.adapters.web.running import Clock, Web, web

ADDRESSES = [
    ("GET", "/api/v1/rooms"),
    ("GET", "/api/v1/rooms/lobby/messages"),
    ("POST", "/api/v1/rooms/lobby/messages"),
    ("GET", "/api/v1/rooms/lobby/events"),
    ("GET", "/api/v1/rooms/lobby/media/1/0"),
    ("GET", "/api/v1/rooms/lobby/runs/r1"),
    ("POST", "/api/v1/rooms/lobby/stop"),
    ("POST", "/api/v1/links"),
    ("GET", "/ui"),
    ("GET", "/ui/"),
    ("GET", "/ui/anything/at/all"),
]


def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


class TestTheToken:
    @pytest.mark.parametrize(("method", "path"), ADDRESSES)
    async def test_without_the_token_every_request_is_refused(
        self, table: Web, method: str, path: str
    ) -> None:
        async with table.stranger() as stranger:
            assert (await stranger.request(method, path)).status_code == 401
        async with table.stranger(Cookie="nekro_session_x=1.a.b") as stranger:
            assert (await stranger.request(method, path)).status_code == 401

    @pytest.mark.parametrize(
        "header", ["Bearer", "Bearer wrong", "Basic abc", "Bearer \xff\xfe", "bearer"]
    )
    async def test_a_wrong_token_is_refused(self, chat: Web, header: str) -> None:
        async with chat.stranger() as stranger:
            headers = [(b"authorization", header.encode("latin-1"))]
            answer = await stranger.get("/api/v1/rooms", headers=headers)
        assert answer.status_code == 401
        assert "www-authenticate" in answer.headers

    async def test_after_too_many_wrong_tokens_a_client_must_wait(self, chat: Web) -> None:
        async with chat.stranger(Authorization="Bearer wrong") as stranger:
            answers = [await stranger.get("/api/v1/rooms") for _ in range(MAX_FAILURES + 1)]
            assert [a.status_code for a in answers] == [401] * MAX_FAILURES + [429]
            assert 0 < int(answers[-1].headers["retry-after"]) <= FAILURE_WINDOW_S + 1
            chat.clock.now += FAILURE_WINDOW_S + 1
            assert (await stranger.get("/api/v1/rooms")).status_code == 401

    async def test_the_token_is_made_once_and_other_users_of_the_machine_cannot_read_its_file(
        self, tmp_path: Path
    ) -> None:
        async with web(tmp_path) as first:
            token = first.site.access_token
        async with web(tmp_path) as again:
            assert again.site.access_token == token
        for path in (tmp_path / "secrets").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700

    async def test_the_operator_may_choose_the_token(self, tmp_path: Path) -> None:
        async with web(tmp_path, web_access_token="sixteen letters!") as running:
            assert running.site.access_token == "sixteen letters!"
            assert (await running.client.get("/api/v1/rooms")).status_code == 200


class TestTheLink:
    async def test_a_link_opens_the_page_once(self, chat: Web) -> None:
        link = chat.site.login_link(chat.url)
        async with chat.stranger() as browser:
            entered = await browser.get(link)
            assert entered.status_code == 200
            cookie = entered.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert (await browser.get("/api/v1/rooms")).status_code == 200
            # A browser that is logged in may use the old link again.
            assert (await browser.get(link)).headers["location"] == "/ui/"
        async with chat.stranger() as second:
            refused = await second.get(link)
            assert refused.status_code == 401
            assert "set-cookie" not in refused.headers
            assert (await second.get("/api/v1/rooms")).status_code == 401

    async def test_a_prefetch_does_not_use_up_the_link(self, chat: Web) -> None:
        link = chat.site.login_link(chat.url)
        async with chat.stranger() as browser:
            ahead = await browser.get(link, headers={"Sec-Purpose": "prefetch;prerender"})
            assert "set-cookie" not in ahead.headers
            assert "set-cookie" in (await browser.get(link)).headers

    async def test_the_token_in_the_form_opens_the_page(self, chat: Web) -> None:
        async with chat.stranger() as browser:
            wrong = await browser.post("/login", data={"token": "wrong"})
            assert wrong.status_code == 401
            right = await browser.post("/login", data={"token": chat.site.access_token})
            assert right.status_code == 200
            assert (await browser.get("/api/v1/rooms")).status_code == 200
            assert (await browser.post("/login", content=b"x" * 5000)).status_code == 413

    async def test_a_login_ends_after_31_days(self, chat: Web) -> None:
        async with chat.stranger() as browser:
            await browser.post("/login", data={"token": chat.site.access_token})
            chat.clock.now += 31 * 86400
            assert (await browser.get("/api/v1/rooms")).status_code == 401

    async def test_a_script_can_request_a_new_link(self, chat: Web) -> None:
        link = (await chat.client.post("/api/v1/links")).json()["url"]
        async with chat.stranger() as browser:
            assert "set-cookie" in (await browser.get(link)).headers


class TestHostAndOrigin:
    @pytest.mark.parametrize(
        ("host", "allowed"),
        [
            ("127.0.0.1:8080", True),
            ("localhost:8080", True),
            ("LOCALHOST", True),
            ("nekro.localhost", True),
            ("[::1]:8080", True),
            ("172.17.0.1:8080", True),
            ("bot.example.com", True),
            ("bot.example.com:443", True),
            ("BOT.example.com.", True),
            ("evil.example.com", False),
            ("127.0.0.1.evil.example", False),
            ("localhost.evil.example", False),
            ("evil.example#localhost", False),
            ("localhost@evil.example", False),
            ("evil.example/localhost", False),
            ("localhost, evil.example", False),
            ("", False),
            (":8080", False),
            ("[::1", False),
        ],
    )
    def test_only_allowed_host_names_are_served(self, host: str, allowed: bool) -> None:
        assert host_allowed(host, {"bot.example.com"}) is allowed

    @pytest.mark.parametrize(
        ("origin", "host", "allowed"),
        [
            (None, "127.0.0.1:8080", True),
            ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
            ("http://localhost", "localhost:80", True),
            ("https://bot.example.com", "bot.example.com", True),
            ("https://bot.example.com", "127.0.0.1:8080", True),  # the bot is behind a proxy
            ("http://127.0.0.1:3000", "127.0.0.1:8080", False),  # another program on this machine
            ("http://localhost:8080", "127.0.0.1:8080", False),
            ("https://evil.example", "127.0.0.1:8080", False),
            ("null", "127.0.0.1:8080", False),
            ("file://", "127.0.0.1:8080", False),
            ("http://[", "127.0.0.1:8080", False),
            ("", "127.0.0.1:8080", False),
        ],
    )
    def test_only_the_pages_own_origin_is_accepted(
        self, origin: str | None, host: str, allowed: bool
    ) -> None:
        assert origin_allowed(origin, host, {"bot.example.com"}) is allowed

    @pytest.mark.parametrize(
        ("site", "mode", "status"),
        [
            ("same-origin", "cors", 200),
            ("none", "navigate", 200),
            ("same-site", "navigate", 200),  # a link on a page of another port
            ("same-site", "no-cors", 403),  # a picture on such a page
            ("cross-site", "no-cors", 403),
            ("cross-site", "websocket", 403),
            ("nonsense", "", 403),
        ],
    )
    async def test_another_sites_page_cannot_load_the_api(
        self, table: Web, site: str, mode: str, status: int
    ) -> None:
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        assert (await table.client.get("/api/v1/rooms", headers=headers)).status_code == status

    async def test_a_request_with_a_foreign_host_name_is_refused(self, table: Web) -> None:
        for path in ("/", "/login", "/ui/", "/api/v1/rooms", "/onebot/v11/http"):
            answer = await table.client.get(path, headers={"Host": "evil.example:8080"})
            assert answer.status_code == 421
            assert code_of(answer) == "host"

    async def test_another_sites_page_cannot_post_with_the_cookie(self, chat: Web) -> None:
        async with chat.stranger() as browser:
            await browser.post("/login", data={"token": chat.site.access_token})
            answer = await browser.post(
                "/api/v1/rooms/lobby/messages",
                json={"speaker": "lin", "text": "hi"},
                headers={"Origin": "https://evil.example"},
            )
        assert (answer.status_code, code_of(answer)) == (403, "origin")
        assert not chat.host.accepted


def one_address(number: int) -> str:
    return f"192.0.2.{number}"


@given(some.lists(some.tuples(some.integers(0, 2), some.floats(0, 30))))
def test_an_address_waits_after_many_failures_of_its_own_or_of_all_together(
    steps: list[tuple[int, float]],
) -> None:
    clock = Clock()
    attempts = LoginAttempts(clock)
    times: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for who, pause in steps:
        clock.now += pause
        attempts.failed(one_address(who))
        times[who].append(clock.now)
        for one, failed in times.items():
            young = [t for t in failed if t > clock.now - FAILURE_WINDOW_S]
            together = sum(
                t > clock.now - FAILURE_WINDOW_S for each in times.values() for t in each
            )
            enough = len(young) >= MAX_FAILURES or together >= MAX_FAILURES_IN_ALL
            assert (attempts.wait_s(one_address(one)) > 0) is enough
