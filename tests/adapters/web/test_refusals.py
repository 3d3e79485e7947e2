"""Clients and requests that are refused, each with a clear answer."""

import base64
import json
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import event, given
from hypothesis import strategies as some

from adapters.web.authentication import (
    FAILURE_WINDOW_S,
    MAX_FAILURES,
    MAX_FAILURES_IN_ALL,
    Authenticator,
    LoginAttempts,
)
from adapters.web.errors import WebApiError
from adapters.web.guard import host_allowed, origin_allowed
from adapters.web.rooms import room_key, room_name
from adapters.web.settings import MAX_BODY_BYTES
from adapters.web.texts import texts
from nekro_core.api.chat import Author, ChatKey, ChatKind, Image, Media
from nekro_core.api.i18n import LANGUAGES, preferred
from tests.adapters.web.fake_host import card
from tests.adapters.web.running import Clock, Web, web

LOBBY = ChatKey("web", ChatKind.GROUP, "lobby")
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

    async def test_the_token_is_made_once_and_only_its_owner_can_read_it(
        self, tmp_path: Path
    ) -> None:
        async with web(tmp_path) as first:
            token = first.adapter.access_token
        async with web(tmp_path) as again:
            assert again.adapter.access_token == token
        for path in (tmp_path / "secrets").iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700

    async def test_the_operator_may_choose_the_token(self, tmp_path: Path) -> None:
        async with web(tmp_path, web_access_token="sixteen letters!") as running:
            assert running.adapter.access_token == "sixteen letters!"
            assert (await running.client.get("/api/v1/rooms")).status_code == 200


class TestTheLink:
    async def test_a_link_opens_the_page_once(self, chat: Web) -> None:
        link = chat.adapter.login_link(chat.url)
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
        link = chat.adapter.login_link(chat.url)
        async with chat.stranger() as browser:
            ahead = await browser.get(link, headers={"Sec-Purpose": "prefetch;prerender"})
            assert "set-cookie" not in ahead.headers
            assert "set-cookie" in (await browser.get(link)).headers

    async def test_the_token_in_the_form_opens_the_page(self, chat: Web) -> None:
        async with chat.stranger() as browser:
            wrong = await browser.post("/login", data={"token": "wrong"})
            assert wrong.status_code == 401
            right = await browser.post("/login", data={"token": chat.adapter.access_token})
            assert right.status_code == 200
            assert (await browser.get("/api/v1/rooms")).status_code == 200
            assert (await browser.post("/login", content=b"x" * 5000)).status_code == 413

    async def test_a_login_has_ended_after_31_days(self, chat: Web) -> None:
        async with chat.stranger() as browser:
            await browser.post("/login", data={"token": chat.adapter.access_token})
            chat.clock.now += 31 * 86400
            assert (await browser.get("/api/v1/rooms")).status_code == 401

    async def test_a_script_can_request_a_new_link(self, chat: Web) -> None:
        link = (await chat.client.post("/api/v1/links")).json()["url"]
        async with chat.stranger() as browser:
            assert "set-cookie" in (await browser.get(link)).headers

    def test_forged_and_foreign_sessions_are_refused(self) -> None:
        clock = Clock()
        authenticator = Authenticator(
            access_token="a" * 16, session_secret="s", session_s=60, clock=clock
        )
        other = Authenticator(access_token="b" * 16, session_secret="s", session_s=60, clock=clock)
        session = authenticator.new_session()
        assert authenticator.is_session(session)
        assert not other.is_session(session)
        expiry, rest = session.split(".", 1)
        assert not authenticator.is_session(f"{int(expiry) + 9999}.{rest}")
        for forged in ("", ".", "..", "nan.x.", session[:-1], session + "=", "\ud800"):
            assert not authenticator.is_session(forged)


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
            await browser.post("/login", data={"token": chat.adapter.access_token})
            answer = await browser.post(
                "/api/v1/rooms/lobby/messages",
                json={"speaker": "lin", "text": "hi"},
                headers={"Origin": "https://evil.example"},
            )
        assert (answer.status_code, code_of(answer)) == (403, "origin")
        assert not chat.host.accepted


BODIES: list[tuple[Any, int, str]] = [
    (b"", 400, "body"),
    (b"{", 400, "body"),
    (b"[]", 422, "body"),
    (b'{"text": "hi"}', 422, "body"),
    (b'{"speaker": 7, "text": "hi"}', 422, "body"),
    (b'{"speaker": "lin", "text": "hi", "chat_key": "web-group_other"}', 422, "body"),
    (b'{"speaker": "lin"}', 422, "empty"),
    (b'{"speaker": "lin", "text": " \\n "}', 422, "empty"),
    (b'{"speaker": "lin", "text": "\\ud800"}', 400, "body"),
    (b'{"speaker": "bot", "text": "hi"}', 422, "speaker"),
    (b'{"speaker": "BOT ", "text": "hi"}', 422, "speaker"),
    (b'{"speaker": "all", "text": "hi"}', 422, "speaker"),
    (b'{"speaker": "", "text": "hi"}', 422, "name"),
    (b'{"speaker": "a\\u202eb", "text": "hi"}', 422, "name"),
    (b'{"speaker": "a\\u200bb", "text": "hi"}', 422, "name"),
    (b'{"speaker": "<b>", "text": "hi"}', 422, "name"),
    (b'{"speaker": "lin", "text": "hi", "reply_to": "nobody"}', 422, "reply_to"),
    (b'{"speaker": "lin", "attachments": [{"data": "%%%"}]}', 422, "attachment"),
    (b'{"speaker": "lin", "attachments": [{"data": ""}]}', 422, "attachment"),
    (json.dumps({"speaker": "lin", "text": "x" * 20_001}).encode(), 422, "body"),
    (json.dumps({"speaker": "lin", "attachments": [{"data": "aGk="}] * 9}).encode(), 422, "body"),
]


class TestInvalidRequests:
    @pytest.mark.parametrize(("body", "status", "code"), BODIES)
    async def test_an_invalid_body_is_refused(
        self, table: Web, body: bytes, status: int, code: str
    ) -> None:
        answer = await table.client.post(
            "/api/v1/rooms/lobby/messages",
            content=body,
            headers={"Content-Type": "application/json"},
        )
        assert (answer.status_code, code_of(answer)) == (status, code)
        assert answer.json()["error"]["message"]
        assert not table.host.accepted

    async def test_another_content_type_is_refused(self, table: Web) -> None:
        answer = await table.client.post("/api/v1/rooms/lobby/messages", content=b"speaker=lin")
        assert (answer.status_code, code_of(answer)) == (415, "content_type")
        answer = await table.client.post(
            "/api/v1/rooms/lobby/messages", files={"files": ("a.txt", b"hi")}
        )
        assert (answer.status_code, code_of(answer)) == (400, "body")
        answer = await table.client.post(
            "/api/v1/rooms/lobby/messages",
            content=b"no form",
            headers={"Content-Type": "multipart/form-data"},
        )
        assert (answer.status_code, code_of(answer)) == (400, "body")

    async def test_an_enormous_body_is_refused(self, chat: Web) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(MAX_BODY_BYTES // len(chunk) + 1):
                yield chunk

        chunk = b" " * (4 * 1024 * 1024)
        answer = await chat.client.post(
            "/api/v1/rooms/lobby/messages",
            content=chunks(),
            headers={"Content-Type": "application/json"},
        )
        assert (answer.status_code, code_of(answer)) == (413, "body")

    @pytest.mark.parametrize(
        "room", ["%20", "..", "group_", "a%2Fb", "a%5Cb", "a%23b", "a%00b", "a%E2%80%AEb", "x" * 65]
    )
    async def test_an_invalid_room_name_is_refused(self, table: Web, room: str) -> None:
        answer = await table.post(room, {"speaker": "lin", "text": "hi"})
        assert answer.status_code in {404, 405, 422}
        assert not table.host.accepted

    @pytest.mark.parametrize("number", ["-1", "x", "1e3", "1_0", "٣", "", "9" * 25, "0x10"])
    async def test_an_invalid_number_is_refused(self, table: Web, number: str) -> None:
        for path in (f"messages?limit={number}", f"messages?after={number}", f"media/{number}/0"):
            answer = await table.client.get(f"/api/v1/rooms/lobby/{path}")
            assert answer.status_code in {400, 404}, path

    async def test_an_invalid_idempotency_key_is_refused(self, table: Web) -> None:
        for key in ("a b", "x" * 201):
            answer = await table.post(
                "lobby", {"speaker": "lin", "text": "hi"}, **{"Idempotency-Key": key}
            )
            assert (answer.status_code, code_of(answer)) == (400, "idempotency_key")

    async def test_an_invalid_setting_stops_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="expected host names"):
            async with web(tmp_path, web_allowed_hosts="[broken"):
                pass


class TestMedia:
    async def test_only_stored_media_of_the_room_are_served(self, chat: Web) -> None:
        data = base64.b64encode(card()).decode()
        sent = await chat.say("", attachments=[{"name": "a.png", "data": data}])
        url = sent["segments"][0]["url"]
        assert (await chat.client.get(url)).status_code == 200
        for other in (
            url.replace("group_lobby", "group_cellar"),
            url[:-1] + "1",
            url.replace("/media/1/", "/media/2/"),
            "/api/v1/rooms/group_lobby/media/1/..%2F..%2Fsecrets%2Fweb_access_token",
        ):
            assert (await chat.client.get(other)).status_code in {400, 404}, other

    async def test_files_outside_the_media_folder_are_not_served(self, chat: Web) -> None:
        secret = chat.host.data_dir / "secrets" / "web_access_token"
        for path in (str(secret), "/etc/passwd", f"{chat.host.media.folder}/../secrets/x"):
            record = chat.host.add(
                LOBBY, Author.BOT, (Image(Media(path=path, mime="image/png")),), time=0.0
            )
            answer = await chat.client.get(f"/api/v1/rooms/lobby/media/{record.seq}/0")
            assert answer.status_code == 404

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("page.html", b"<!doctype html><script>alert(1)</script>"),
            ("picture.svg", b"<svg onload='alert(1)'/>"),
            ("unknown.bin", b"\x00\x01"),
        ],
    )
    async def test_files_that_a_browser_could_run_are_served_as_downloads(
        self, chat: Web, name: str, data: bytes
    ) -> None:
        sent = await chat.say(
            "", attachments=[{"name": name, "data": base64.b64encode(data).decode()}]
        )
        (part,) = sent["segments"]
        assert part["type"] == "file"
        answer = await chat.client.get(part["url"])
        assert answer.content == data
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]

    async def test_a_file_name_cannot_add_a_header(self, chat: Web) -> None:
        sent = await chat.say(
            "", attachments=[{"name": 'a"; x="\r\nSet-Cookie: a=b 你.bin', "data": "aGk="}]
        )
        answer = await chat.client.get(sent["segments"][0]["url"])
        assert "set-cookie" not in answer.headers
        assert "%22" in answer.headers["content-disposition"]


class TestTexts:
    def test_every_language_has_the_same_texts_and_fields(self) -> None:
        first = texts(LANGUAGES[0])
        for language in LANGUAGES[1:]:
            table = texts(language)
            assert table.keys() == first.keys()
            for key, sentence in table.items():
                assert sentence, key
                fields = set(re.findall(r"\{\w+\}", sentence))
                assert fields == set(re.findall(r"\{\w+\}", first[key])), key

    @pytest.mark.parametrize(
        ("header", "language"),
        [
            ("", "en"),
            ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
            ("fr-FR,ja;q=0.5,en;q=0.4", "ja"),
            ("en;q=0.1,zh;q=0.2", "zh"),
            ("de", "en"),
            ("ja;q=x,zh;q=0", "en"),
            ("," * 1000, "en"),
        ],
    )
    def test_the_browsers_language_is_chosen(self, header: str, language: str) -> None:
        assert preferred(header) == language


@given(some.text(max_size=80))
def test_a_room_name_gives_back_its_chat_key(text: str) -> None:
    try:
        key = room_key("web", text)
    except WebApiError as refused:
        event(refused.code)
        return
    assert room_key("web", room_name(key)) == key
    assert ChatKey.parse(str(key)) == key


def one_address(number: int) -> str:
    return f"192.0.2.{number}"


@given(some.lists(some.tuples(some.integers(0, 2), some.floats(0, 30))))
def test_an_address_waits_for_its_own_failures_and_the_shared_limit(
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
