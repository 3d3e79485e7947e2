"""Strangers, thieves and people whose role is too small attack the console. The tests check what
they can reach."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import StreamingResponse
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from nekro_core.console.access import guard, live_visits
from nekro_core.console.access.authentication import HALF_LOGIN_S, Authenticator
from nekro_core.operator.identity import LastOwner
from nekro_core.operator.identity.passwords import LONGEST
from nekro_core.operator.identity.second_factor import STEP_S
from nekro_core.operator.roles import AccessRole
from nekro_core.store import ConsolePerson, PersonState
from tests.adapters.web.running import NO_TLS, Web
from tests.console.access.guarded import guarded
from tests.console.access.visitors import (
    PASSWORD,
    add_person,
    cookie_of,
    enrol,
    hidden,
    log_in,
    logged_in,
)

OTHER_PASSWORD = "another good password"


async def is_in(browser: httpx.AsyncClient) -> bool:
    return (await browser.get("/api/v1/rooms")).status_code == 200


class TestSessions:
    async def test_a_session_id_that_a_thief_chose_is_not_used(self, chat: Web) -> None:
        """Session fixation: the thief gives the browser a cookie and waits for the login."""
        await add_person(chat, "lin")
        name = chat.site.authenticator.cookie
        async with logged_in(chat, "thief") as thief, chat.stranger() as browser:
            planted = cookie_of(chat, thief)
            for cookie in (planted, "made-up"):
                browser.cookies.clear()
                browser.cookies.set(name, cookie, domain="127.0.0.1")
                await log_in(browser, "lin")
                fresh = [each.value for each in browser.cookies.jar if each.value != cookie]
                assert len(fresh) == 1
            # The session that the browser had before the login has ended.
            assert not await is_in(thief)

    async def test_a_stolen_cookie_does_not_work_after_the_session_was_ended(
        self, chat: Web
    ) -> None:
        async with logged_in(chat, "lin") as browser:
            cookie = f"{chat.site.authenticator.cookie}={cookie_of(chat, browser)}"
            async with chat.stranger(Cookie=cookie) as thief:
                assert await is_in(thief)
                (shown,) = (await browser.get("/api/v1/operator/people/sessions")).json()["result"]
                ended = {"session_id": shown["session_id"]}
                done = await browser.post("/api/v1/operator/people/end_session", json=ended)
                assert done.status_code == 200, done.text
                assert not await is_in(thief)

    async def test_links_that_a_session_made_stop_working_when_the_session_ends(
        self, chat: Web
    ) -> None:
        """A thief who has stolen a session could make links in order to get in again later."""
        async with logged_in(chat, "lin") as browser, chat.stranger() as thief:
            links = [(await browser.post("/api/v1/links")).json()["url"] for _ in range(2)]
            assert (await thief.get(links[0])).status_code == 200
            assert await is_in(thief)
            done = await browser.post("/api/v1/operator/people/end_sessions", json={})
            assert done.status_code == 200, done.text
            assert (await thief.get(links[1])).status_code == 401
            assert not await is_in(thief)

    @pytest.mark.parametrize("how", ["new password", "disabled", "reset link", "31 days"])
    async def test_a_session_ends_after_a_new_password_or_31_days_or_if_its_person_is_disabled(
        self, chat: Web, how: str
    ) -> None:
        people = chat.site.identity.people
        async with logged_in(chat, "lin") as browser:
            person = await people.one("lin")
            match how:
                case "new password":
                    await people.set_password(person, OTHER_PASSWORD)
                case "disabled":
                    await people.disable(person)
                case "reset link":
                    await people.accept(await people.new_link(person), OTHER_PASSWORD)
                case _:
                    chat.clock.now += 31 * 86_400
            assert not await is_in(browser)
            assert (await log_in(browser, "lin", PASSWORD)).status_code == (
                200 if how == "31 days" else 401
            )

    async def test_the_database_has_nothing_with_which_a_thief_could_log_in(
        self, tmp_path: Path
    ) -> None:
        from tests.adapters.web.running import web  # noqa: PLC0415

        async with web(tmp_path) as chat, logged_in(chat, "lin") as browser:
            _, codes = await enrol(chat, "lin")
            person = await chat.site.identity.people.one("lin")
            secret, _ = await chat.site.identity.tokens.make(person, name="x", scopes=["*"])
            link = await chat.site.identity.people.new_link(person)
            told = [cookie_of(chat, browser), secret, link, PASSWORD, *codes]
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("web.sqlite3*"))
        assert b"lin" in stored
        for each in told:
            assert each.encode() not in stored

    async def test_scripts_cannot_read_cookies_and_other_sites_cannot_send_them(
        self, chat: Web
    ) -> None:
        await add_person(chat, "lin")
        async with chat.stranger() as browser:
            answer = await log_in(browser, "lin")
        attributes = {part.strip() for part in answer.headers["set-cookie"].split(";")[1:]}
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= attributes


Way = Callable[[Web, httpx.AsyncClient], Awaitable[httpx.Response]]


async def by_post(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    body = {"speaker": "lin", "text": "hi"}
    return await who.post("/api/v1/rooms/lobby/messages", json=body)


async def by_stop(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    return await who.post("/api/v1/rooms/lobby/stop")


async def by_tool(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    return await who.post("/api/v1/tools/run_code", json={})


async def by_outbox(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    return await who.post("/api/v1/outbox/d1/drop")


async def by_plugin_page(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    return await who.get("/plugins/some/page")


async def by_invitation(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    body = {"name": "eve", "role": "owner"}
    return await who.post("/api/v1/operator/people/invite", json=body)


async def by_own_role(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    body = {"name": "vera", "role": "owner"}
    return await who.post("/api/v1/operator/people/change_role", json=body)


async def by_others_sessions(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    return await who.get("/api/v1/operator/people/sessions", params={"name": "owner"})


async def by_others_second_factor(_: Web, who: httpx.AsyncClient) -> httpx.Response:
    body = {"name": "owner", "present": PASSWORD}
    return await who.post("/api/v1/operator/people/remove_second_factor", json=body)


ACTS: list[Way] = [
    by_post,
    by_stop,
    by_tool,
    by_outbox,
    by_plugin_page,
    by_invitation,
    by_own_role,
    by_others_sessions,
    by_others_second_factor,
]


class TestRoles:
    async def test_a_link_logs_in_the_person_who_asked_for_it_even_if_the_name_changes(
        self, chat: Web
    ) -> None:
        people = chat.site.identity.people
        async with logged_in(chat, "vera") as browser, chat.stranger() as other:
            link = (await browser.post("/api/v1/links")).json()["url"]
            await people.rename(await people.one("vera"), "eve")
            await add_person(chat, "vera", AccessRole.OWNER)  # another person gets the old name
            assert (await other.get(link)).status_code == 200
            myself = (await other.get("/api/v1/operator/people/myself")).json()["result"]
        assert (myself["name"], myself["role"]) == ("eve", "viewer")

    @pytest.mark.parametrize("way", ACTS)
    async def test_a_viewer_cannot_act(self, chat: Web, way: Way) -> None:
        async with logged_in(chat, "vera") as browser:
            answer = await way(chat, browser)
            assert answer.status_code == 403, answer.text
            assert await is_in(browser)  # the viewer may still read
        assert not chat.host.accepted

    async def test_an_operator_may_post_a_message_but_not_invite_people(self, chat: Web) -> None:
        async with logged_in(chat, "otto", AccessRole.OPERATOR) as browser:
            assert (await by_post(chat, browser)).status_code == 200
            assert (await by_invitation(chat, browser)).status_code == 403

    async def test_an_operator_who_becomes_a_viewer_may_no_longer_act(self, chat: Web) -> None:
        async with logged_in(chat, "otto", AccessRole.OPERATOR) as browser:
            assert (await by_stop(chat, browser)).status_code == 200
            people = chat.site.identity.people
            await people.change_role(await people.one("otto"), AccessRole.VIEWER)
            assert (await by_stop(chat, browser)).status_code == 403
            assert await is_in(browser)

    async def test_if_two_owners_give_up_the_role_at_the_same_time_one_owner_is_left(
        self, chat: Web
    ) -> None:
        people = chat.site.identity.people
        second = await add_person(chat, "ona", AccessRole.OWNER)
        outcomes: list[str] = []

        async def leave(person: ConsolePerson) -> None:
            try:
                await people.change_role(person, AccessRole.VIEWER)
            except LastOwner:
                outcomes.append("refused")
            else:
                outcomes.append("left")

        async with anyio.create_task_group() as tasks:
            for person in (await people.owner(), second):
                tasks.start_soon(leave, person)
        assert sorted(outcomes) == ["left", "refused"]
        (last,) = [each for each in await people.all() if each.role == AccessRole.OWNER]
        with pytest.raises(LastOwner, match="only owner"):
            await people.disable(last)
        assert (await people.one(last.name)).state is PersonState.ACTIVE


SCOPES: list[tuple[set[str], str, str, int]] = [
    ({"rooms:read"}, "GET", "/api/v1/rooms", 200),
    ({"rooms:read"}, "POST", "/api/v1/rooms/lobby/stop", 403),
    ({"rooms:act"}, "POST", "/api/v1/rooms/lobby/stop", 200),
    ({"rooms:act"}, "GET", "/api/v1/rooms", 200),
    ({"rooms:act"}, "POST", "/api/v1/tools/x", 403),
    ({"rooms:act"}, "GET", "/api/v1/operator/people/myself", 403),
    ({"turns:read"}, "GET", "/api/v1/rooms", 403),
    ({"*:read"}, "GET", "/api/v1/operator/people/myself", 200),
    ({"*:read"}, "GET", "/plugins/some/page", 403),
    ({"plugins:act"}, "GET", "/plugins/some/page", 404),
    ({"*"}, "POST", "/api/v1/rooms/lobby/stop", 200),
    ({"*"}, "POST", "/api/v1/links", 403),
    ({"*"}, "POST", "/api/v1/operator/people/make_token", 403),
    ({"*"}, "POST", "/api/v1/operator/people/set_password", 403),
    ({"*"}, "POST", "/api/v1/operator/people/begin_second_factor", 403),
    ({"*"}, "POST", "/api/v1/operator/people/invite", 403),
    ({"*"}, "POST", "/api/v1/operator/people/change_role", 403),
    ({"*"}, "GET", "/ui/", 401),  # an API token does not open pages
]
BODIES: dict[str, Any] = {
    "make_token": {"label": "x", "scopes": ["*"]},
    "set_password": {"password": OTHER_PASSWORD},
    "invite": {"name": "eve"},
    "change_role": {"name": "owner", "role": "owner"},
}


class TestTokens:
    @pytest.mark.parametrize(("scopes", "method", "path", "status"), SCOPES)
    async def test_a_token_may_do_what_its_scopes_name_and_nothing_else(
        self, chat: Web, scopes: set[str], method: str, path: str, status: int
    ) -> None:
        owner = await chat.site.identity.people.owner()
        secret, _ = await chat.site.identity.tokens.make(owner, name="ci", scopes=scopes)
        async with chat.stranger(Authorization=f"Bearer {secret}") as script:
            body = BODIES.get(path.rpartition("/")[2], {})
            answer = await script.request(method, path, json=body if method == "POST" else None)
        assert answer.status_code == status, answer.text

    async def test_a_token_can_never_do_more_than_the_role_of_its_person_allows(
        self, chat: Web
    ) -> None:
        person = await add_person(chat, "otto", AccessRole.OPERATOR)
        secret, _ = await chat.site.identity.tokens.make(person, name="ci", scopes=["*"])
        async with chat.stranger(Authorization=f"Bearer {secret}") as script:
            assert (await by_stop(chat, script)).status_code == 200
            await chat.site.identity.people.change_role(person, AccessRole.VIEWER)
            assert (await by_stop(chat, script)).status_code == 403
            await chat.site.identity.people.disable(person)
            assert (await script.get("/api/v1/rooms")).status_code == 401

    async def test_an_expired_and_a_revoked_token_are_refused(self, chat: Web) -> None:
        owner = await chat.site.identity.people.owner()
        tokens = chat.site.identity.tokens
        old, _ = await tokens.make(owner, name="old", scopes=["*"], days=1)
        gone, made = await tokens.make(owner, name="gone", scopes=["*"])
        for secret, change in ((old, "time"), (gone, "revoke")):
            async with chat.stranger(Authorization=f"Bearer {secret}") as script:
                assert await is_in(script)
                if change == "time":
                    chat.clock.now += 86_401
                else:
                    await tokens.revoke(made.token_id)
                assert (await script.get("/api/v1/rooms")).status_code == 401


class TestGuesses:
    async def test_a_login_with_an_unknown_name_computes_as_many_hashes_as_with_a_known_name(
        self, chat: Web
    ) -> None:
        await add_person(chat, "lin")
        disabled = await add_person(chat, "gone")
        await chat.site.identity.people.disable(disabled)
        hashing = chat.site.identity.people.hashing
        pages = set()
        async with chat.stranger() as stranger:
            # The owner has no password.
            for name in ("lin", "nobody", "owner", "gone", "x" * 3000, ""):
                before = hashing.computed
                answer = await log_in(stranger, name, "wrong")
                assert (answer.status_code, hashing.computed - before) == (401, 1), name
                pages.add(answer.text)
        assert len(pages) == 1

    async def test_a_code_of_the_second_factor_works_only_once(self, chat: Web) -> None:
        await add_person(chat, "lin")
        authenticator, _ = await enrol(chat, "lin")
        chat.clock.now += STEP_S
        now = int(chat.clock.now)
        tries = [
            (authenticator.at(now), 200),
            (authenticator.at(now), 401),  # the same code is used again
            (authenticator.at(now - STEP_S), 401),  # this code was used at the enrolment
            (authenticator.at(now + 3 * STEP_S), 401),
            (authenticator.at(now + STEP_S), 200),  # the telephone's clock is ahead
        ]
        for code, status in tries:
            async with chat.stranger() as browser:
                half = hidden((await log_in(browser, "lin")).text, "half")
                answer = await browser.post("/login/code", data={"half": half, "code": code})
                assert answer.status_code == status

    async def test_one_code_that_is_sent_many_times_at_once_opens_one_session(
        self, chat: Web
    ) -> None:
        await add_person(chat, "lin")
        authenticator, _ = await enrol(chat, "lin")
        chat.clock.now += STEP_S
        code, statuses = authenticator.at(int(chat.clock.now)), list[int]()

        async def race(half: str) -> None:
            async with chat.stranger() as browser:
                form = {"half": half, "code": code}
                statuses.append((await browser.post("/login/code", data=form)).status_code)

        async with chat.stranger() as browser:
            halves = [hidden((await log_in(browser, "lin")).text, "half") for _ in range(4)]
        async with anyio.create_task_group() as tasks:
            for half in halves:
                tasks.start_soon(race, half)
        assert sorted(statuses) == [200, 401, 401, 401]

    async def test_codes_cannot_be_tried_without_end_or_without_the_password(
        self, chat: Web
    ) -> None:
        await add_person(chat, "lin")
        authenticator, _ = await enrol(chat, "lin")
        chat.clock.now += STEP_S
        async with chat.stranger() as browser:
            half = hidden((await log_in(browser, "lin")).text, "half")
            statuses = []
            for _ in range(6):
                form = {"half": half, "code": "000000"}
                statuses.append((await browser.post("/login/code", data=form)).status_code)
            assert statuses == [401] * 5 + [429]
            right = authenticator.at(int(chat.clock.now))
            for made_up in ("", "made-up", "1"):
                form = {"half": made_up, "code": right}
                assert (await browser.post("/login/code", data=form)).status_code == 401
            chat.clock.now += HALF_LOGIN_S + 1
            form = {"half": half, "code": authenticator.at(int(chat.clock.now))}
            assert (await browser.post("/login/code", data=form)).status_code == 401
            assert not await is_in(browser)

    async def test_a_link_and_an_invitation_each_work_once_even_if_four_browsers_use_them_at_once(
        self, chat: Web
    ) -> None:
        people = chat.site.identity.people
        await people.owner()
        _, invitation = await people.invite("lin", AccessRole.VIEWER)
        link = chat.site.login_link(chat.url)
        statuses: dict[str, list[int]] = {"link": [], "invitation": []}

        async def open_both() -> None:
            async with chat.stranger() as browser:
                statuses["link"].append((await browser.get(link)).status_code)
            async with chat.stranger() as browser:
                form = {"token": invitation, "password": PASSWORD}
                statuses["invitation"].append((await browser.post("/join", data=form)).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(open_both)
        assert sorted(statuses["link"]) == [200, 401, 401, 401]
        assert sorted(statuses["invitation"]) == [200, 401, 401, 401]


NASTY = {
    "script": "<script>alert(1)</script>",
    "quote": '"><img src=x onerror=alert(1)>',
    "lines": "lin\r\nSet-Cookie: a=b",
    "format": "{say} {0} %s",
    "long": "x" * 4000,
    "surrogate": "\\ud800",
}


class TestInput:
    @pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
    async def test_the_answer_to_a_login_form_does_not_contain_what_the_stranger_typed(
        self, chat: Web, text: str
    ) -> None:
        async with chat.stranger(**{"Accept-Language": "en"}) as stranger:
            for path, form in (
                ("/login", {"name": text, "password": text}),
                ("/login", {"token": text}),
                ("/login/code", {"half": text, "code": text}),
                ("/join", {"token": text, "password": text}),
            ):
                answer = await stranger.post(path, data=form)
                assert answer.status_code in {401, 413}, path
                assert text not in answer.text
                assert "set-cookie" not in answer.headers

    async def test_a_name_that_is_html_is_shown_as_text(self, chat: Web) -> None:
        people = chat.site.identity.people
        await people.owner()
        _, secret = await people.invite("<b>{x}</b> & co", AccessRole.VIEWER)
        async with chat.stranger() as browser:
            page = (await browser.get("/join", params={"token": secret})).text
        assert "<b>" not in page
        assert "&lt;b&gt;{x}&lt;/b&gt; &amp; co" in page

    async def test_a_huge_password_is_refused_before_it_is_hashed(self, chat: Web) -> None:
        await add_person(chat, "lin")
        async with chat.stranger() as stranger:
            assert (await log_in(stranger, "lin", "x" * 5000)).status_code == 413
            long = PASSWORD + "x" * LONGEST
            assert (await log_in(stranger, "lin", long)).status_code == 401

    async def test_a_user_agent_is_stored_without_control_characters_and_not_longer_than_256(
        self, chat: Web
    ) -> None:
        person = await add_person(chat, "lin")
        await chat.site.identity.sessions.begin(
            person, address="::1", user_agent="a\x1b[2J\nb" + "c" * 1000
        )
        (session,) = await chat.site.identity.sessions.of(person)
        assert session.user_agent.startswith("a?[2J?bc")
        assert len(session.user_agent) == 256

    async def test_another_sites_page_cannot_log_a_browser_in_or_out(self, chat: Web) -> None:
        evil = {"Origin": "https://evil.example"}
        async with logged_in(chat, "lin") as browser:
            for path in ("/login", "/login/code", "/join", "/logout"):
                assert (await browser.post(path, data={}, headers=evil)).status_code == 403
            assert await is_in(browser)

    @pytest.mark.parametrize("path", ["/login%0A", "/login/code%0a", "/join%0A", "/logout%0A"])
    async def test_a_newline_after_the_path_does_not_evade_a_check(
        self, chat: Web, path: str
    ) -> None:
        evil = {"Origin": "https://evil.example"}
        async with logged_in(chat, "lin") as browser:
            answer = await browser.post(path, data={"name": "lin", "password": PASSWORD})
            assert answer.status_code == 404
            assert (await browser.post(path, data={}, headers=evil)).status_code == 404
            answer = await browser.get(path)
            assert answer.headers["x-frame-options"] == "DENY"
            assert await is_in(browser)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_visits, "LOOK_EVERY_S", 0.05)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", ["ended", "disabled", "downgraded", "token revoked"])
async def test_an_open_connection_is_closed_when_its_login_ends_or_its_persons_role_changes(
    tmp_path: Path, how: str
) -> None:
    """Tests a websocket and an event stream. A connection of another person stays open."""
    app = FastAPI()

    @app.websocket("/ui/echo")
    @app.websocket("/api/v1/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        while True:
            await socket.send_text(await socket.receive_text() + socket.state.actor.role)

    @app.get("/api/v1/stream")
    async def stream(request: Request) -> StreamingResponse:
        async def pieces() -> Any:
            yield request.state.actor.name
            await anyio.sleep_forever()

        return StreamingResponse(pieces())

    async with guarded(app, tmp_path) as (url, authenticator):
        identity = authenticator.identity
        other = await identity.people.owner()
        _, secret = await identity.people.invite("otto", AccessRole.OPERATOR)
        person = await identity.people.accept(secret, PASSWORD)
        token, made = await identity.tokens.make(person, name="ci", scopes=["*"])
        headers = (
            {"Authorization": f"Bearer {token}"}
            if how == "token revoked"
            else {"Cookie": await cookie(authenticator, person)}
        )
        theirs = {"Cookie": await cookie(authenticator, other)}
        address = url.replace("http", "ws", 1) + "/api/v1/echo"
        with anyio.fail_after(20):
            async with (
                connect(address, additional_headers=headers, proxy=None) as socket,
                connect(address, additional_headers=theirs, proxy=None) as others,
                httpx.AsyncClient(base_url=url, headers=headers, verify=NO_TLS) as client,
                client.stream("GET", "/api/v1/stream") as streamed,
            ):
                texts = streamed.aiter_text()
                assert await anext(texts) == "otto"
                await socket.send("I am ")
                assert await socket.recv() == "I am operator"
                match how:
                    case "ended":
                        await identity.sessions.end_all(person)
                    case "disabled":
                        await identity.people.disable(person)
                    case "downgraded":
                        await identity.people.change_role(person, AccessRole.VIEWER)
                    case _:
                        await identity.tokens.revoke(made.token_id)
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == live_visits.CLOSE_CODE
                assert [text async for text in texts] == []
                await others.send("still ")
                assert await others.recv() == "still owner"
            again = connect(address, additional_headers=headers, proxy=None)
            if how == "downgraded":
                async with again as socket:
                    await socket.send("now ")
                    assert await socket.recv() == "now viewer"
            else:
                with pytest.raises(InvalidHandshake):
                    await again


async def test_one_person_cannot_use_up_all_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MAX_AT_ONCE", 3)
    app = FastAPI()

    @app.websocket("/ui/echo")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.receive_text()

    @app.get("/api/v1/name")
    async def name(request: Request) -> str:
        return str(request.state.actor.name)

    async with guarded(app, tmp_path) as (url, authenticator), AsyncExitStack() as open_sockets:
        people = authenticator.identity.people
        owner = await people.owner()
        _, secret = await people.invite("vera", AccessRole.VIEWER)
        vera = await people.accept(secret, PASSWORD)
        theirs = {"Cookie": await cookie(authenticator, vera)}
        address = url.replace("http", "ws", 1) + "/ui/echo"

        async def one_more() -> ClientConnection:
            return await open_sockets.enter_async_context(
                connect(address, additional_headers=theirs, proxy=None)
            )

        sockets = [await one_more() for _ in range(3)]
        with pytest.raises(InvalidHandshake):
            await one_more()
        async with httpx.AsyncClient(base_url=url, verify=NO_TLS) as client:
            refused = await client.get("/api/v1/name", headers=theirs)
            assert (refused.status_code, refused.headers["connection"]) == (429, "close")
            for headers in (
                {"Cookie": await cookie(authenticator, owner)},
                {"Authorization": f"Bearer {authenticator.access_token}"},
            ):
                assert (await client.get("/api/v1/name", headers=headers)).json() == "owner"
            await sockets[0].close()
            assert (await client.get("/api/v1/name", headers=theirs)).json() == "vera"


async def cookie(authenticator: Authenticator, person: ConsolePerson) -> str:
    session = await authenticator.identity.sessions.begin(person, address="", user_agent="")
    return f"{authenticator.cookie}={session}"


@pytest.mark.usefixtures("quick")
async def test_the_visit_of_an_open_page_knows_the_present_role_of_its_person(
    tmp_path: Path,
) -> None:
    app = FastAPI()
    visits = []

    @app.get("/ui/")
    async def page(request: Request) -> str:
        visits.append(request.state.visit)
        return "ok"

    async with guarded(app, tmp_path) as (url, authenticator):
        people = authenticator.identity.people
        await people.owner()
        _, secret = await people.invite("otto", AccessRole.OPERATOR)
        person = await people.accept(secret, PASSWORD)
        headers = {"Cookie": await cookie(authenticator, person)}
        async with httpx.AsyncClient(base_url=url, headers=headers, verify=NO_TLS) as browser:
            assert (await browser.get("/ui/")).status_code == 200
        (visit,) = visits
        assert (await visit.current()).role is AccessRole.OPERATOR
        await people.change_role(person, AccessRole.VIEWER)
        assert (await visit.current()).role is AccessRole.VIEWER
        await people.disable(person)
        assert await visit.current() is None
