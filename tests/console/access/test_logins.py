"""People log in with a link, a password, a code, or the owner's token, and log out again."""

import httpx
import pytest

from nekro_core.operator.identity.guess_limit import GUESS_WINDOW_S, MAX_GUESSES
from nekro_core.operator.identity.people import INVITATION_S
from nekro_core.operator.identity.second_factor import STEP_S
from nekro_core.operator.roles import AccessRole
from tests.adapters.web.running import Web
from tests.console.access.visitors import (
    PASSWORD,
    add_person,
    cookie_of,
    enrol,
    hidden,
    log_in,
    logged_in,
)


async def whoami(browser: httpx.AsyncClient) -> str:
    """The name and role of the person whom the bot sees in this browser; empty for a stranger."""
    answer = await browser.get("/api/v1/operator/people/myself")
    if answer.status_code != 200:
        return ""
    person = answer.json()["result"]
    return f"{person['name']}, {person['role']}"


async def test_the_person_who_opens_the_first_link_is_the_owner_and_needs_no_password(
    chat: Web,
) -> None:
    assert await chat.site.identity.people.all() == []
    async with chat.stranger() as browser:
        assert (await browser.get(chat.site.login_link(chat.url))).status_code == 200
        assert await whoami(browser) == "owner, owner"
    async with chat.stranger() as later:
        await later.get(chat.site.login_link(chat.url))
        assert await whoami(later) == "owner, owner"
    assert [each.name for each in await chat.site.identity.people.all()] == ["owner"]


async def test_a_person_with_the_name_owner_does_not_lock_out_the_owner(chat: Web) -> None:
    invited = {"name": "Owner", "role": "viewer"}
    await chat.client.post("/api/v1/operator/people/invite", json=invited)
    async with chat.stranger() as browser:
        await browser.get(chat.site.login_link(chat.url))
        assert await whoami(browser) == "owner 2, owner"


async def test_an_invited_person_chooses_a_password_and_logs_in_with_it(chat: Web) -> None:
    asked = await chat.client.post(
        "/api/v1/operator/people/invite", json={"name": "Lin", "role": "operator"}
    )
    path = asked.json()["result"]["path"]
    async with chat.stranger() as browser:
        shown = await browser.get(path)
        assert "Welcome, Lin" in shown.text
        token = hidden(shown.text, "token")
        weak = await browser.post("/join", data={"token": token, "password": "short"})
        assert weak.status_code == 422
        assert "12 to 256 characters" in weak.text
        joined = await browser.post("/join", data={"token": token, "password": PASSWORD})
        assert joined.status_code == 200
        assert await whoami(browser) == "Lin, operator"
    async with chat.stranger() as browser:
        assert (await log_in(browser, "Lin", "wrong")).status_code == 401
        # the name in capitals and full-width letters
        assert (await log_in(browser, " ＬＩＮ ")).status_code == 200
        assert await whoami(browser) == "Lin, operator"


async def test_after_the_password_a_code_is_needed_and_a_recovery_code_works_once(
    chat: Web,
) -> None:
    await add_person(chat, "mika")
    authenticator, codes = await enrol(chat, "mika")
    chat.clock.now += STEP_S
    for code, status in (
        (authenticator.at(int(chat.clock.now)), 200),
        (codes[3].upper().replace("-", " "), 200),
        (codes[3], 401),
        ("000000", 401),
    ):
        async with chat.stranger() as browser:
            first = await log_in(browser, "mika")
            assert await whoami(browser) == ""
            half = hidden(first.text, "half")
            answer = await browser.post("/login/code", data={"half": half, "code": code})
            assert answer.status_code == status, code
            assert bool(await whoami(browser)) is (status == 200)


async def test_logging_out_ends_the_session(chat: Web) -> None:
    async with logged_in(chat, "lin") as browser:
        cookie = cookie_of(chat, browser)
        left = await browser.post("/logout")
        assert "logged out" in left.text
        assert await whoami(browser) == ""
    name = chat.site.authenticator.cookie
    async with chat.stranger(Cookie=f"{name}={cookie}") as thief:
        assert await whoami(thief) == ""


async def test_logins_are_in_the_audit_log_without_a_secret(chat: Web) -> None:
    async with logged_in(chat, "lin") as browser:
        cookie = cookie_of(chat, browser)
        await log_in(browser, "lin", "wrong")
        await browser.post("/logout")
    rows = await chat.audit.newest()
    assert [(each.action, each.actor, each.address, each.outcome) for each in rows] == [
        ("people.log_out", "lin", "127.0.0.1", "done"),
        ("people.log_in", "lin", "127.0.0.1", "done"),
    ]
    assert cookie not in repr(rows)
    assert PASSWORD not in repr(rows)


async def test_a_session_survives_a_restart_and_ends_with_a_new_access_token(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    from tests.adapters.web.running import web  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("restarts")
    async with web(folder) as first, logged_in(first, "lin") as browser:
        cookie = f"{first.site.authenticator.cookie}={cookie_of(first, browser)}"
    async with web(folder) as again, again.stranger(Cookie=cookie) as browser:
        assert await whoami(browser) == "lin, viewer"
    changed = web(folder, web_access_token="another token 0123")
    async with changed as third, third.stranger(Cookie=cookie) as browser:
        assert await whoami(browser) == ""


async def test_after_wrong_passwords_only_the_tried_name_must_wait(chat: Web) -> None:
    await add_person(chat, "lin")
    await add_person(chat, "mika")
    async with chat.stranger() as browser:
        tries = [await log_in(browser, "lin", "wrong") for _ in range(MAX_GUESSES)]
        assert {answer.status_code for answer in tries} == {401}
        # The right password must wait too, because an early success would tell a guesser that it is
        # right.
        refused = await log_in(browser, "LIN")
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= GUESS_WINDOW_S + 1
        assert (await log_in(browser, "mika")).status_code == 200
        # The owner can still log in with a link or the token.
        token = {"token": chat.site.access_token}
        assert (await browser.post("/login", data=token)).status_code == 200
        chat.clock.now += GUESS_WINDOW_S + 1
        assert (await log_in(browser, "lin")).status_code == 200


async def test_an_invitation_ends_after_three_days_or_when_a_newer_one_is_made(chat: Web) -> None:
    people = chat.site.identity.people
    await people.owner()
    person, first = await people.invite("lin", AccessRole.VIEWER)
    second = await people.new_link(person)
    async with chat.stranger() as browser:
        assert (await browser.get("/join", params={"token": first})).status_code == 401
        assert (await browser.get("/join", params={"token": second})).status_code == 200
        chat.clock.now += INVITATION_S + 1
        form = {"token": second, "password": PASSWORD}
        assert (await browser.post("/join", data=form)).status_code == 401
        assert (await log_in(browser, "lin")).status_code == 401


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "Enter your name"), ("zh-CN", "请输入名字和密码"), ("ja", "名前とパスワード")],
)
async def test_the_login_page_is_written_in_the_browsers_language(
    table: Web, language: str, words: str
) -> None:
    async with table.stranger(**{"Accept-Language": language}) as browser:
        page = await browser.get("/login")
    assert words in page.text
    assert "<script" not in page.text
