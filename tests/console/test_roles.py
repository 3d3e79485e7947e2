"""Calls all queries, actions, files and pages with all roles, through the real guard.

Each role calls an operation with a browser's session, with an API token for the operation's area,
with a token for another area, and with a token that may only read. If the call is allowed, the
answer is 422, because each request has a parameter that no operation has. So nothing is changed.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from nekro_core.app.app import App
from nekro_core.console.frame import ConsolePage
from nekro_core.console.pages import PAGES
from nekro_core.console.texts import console_texts
from nekro_core.operator.operator import Operation
from nekro_core.operator.roles import AccessRole
from tests.console.fill_people import PASSWORD
from tests.console.process import running_console

pytestmark = [pytest.mark.jail, pytest.mark.anyio]

API = "/api/v1/operator"
UNKNOWN = "no_such_parameter"
FILES = [
    ("GET", "/api/v1/backups/nekro-20200101-000000.zip", "backups", AccessRole.OWNER, "act"),
    ("POST", "/api/v1/backups", "backups", AccessRole.OWNER, "act"),
    ("GET", "/api/v1/logs", "logs", AccessRole.VIEWER, "read"),
]
"""Each row describes an address that sends or receives a file: its method, its path, its area, and
the role and the scope that it needs."""


@dataclass
class Site:
    """A running web site, with a logged-in browser for each role."""

    address: str
    browsers: dict[AccessRole, httpx.AsyncClient]
    program: httpx.AsyncClient

    async def token(self, role: AccessRole, *scopes: str) -> dict[str, str]:
        """The header of a new API token of a person with this role."""
        made = await self.browsers[role].post(
            f"{API}/people/make_token", json={"label": " ".join(scopes)[:60], "scopes": scopes}
        )
        assert made.status_code == 200, made.text
        return {"Authorization": f"Bearer {made.json()['result']['secret']}"}


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Site]:
    """A whole site in a separate process."""
    folder = tmp_path_factory.mktemp("site")
    async with running_console(folder, "tests.console.serve_site") as address:
        clients = {
            role: httpx.AsyncClient(base_url=address, trust_env=False, timeout=60)
            for role in AccessRole
        }
        program = httpx.AsyncClient(base_url=address, trust_env=False, timeout=60)
        for role, client in clients.items():
            answer = await client.post("/login", data={"name": role.value, "password": PASSWORD})
            assert answer.status_code == 200, answer.text
        yield Site(address, clients, program)
        for client in (*clients.values(), program):
            await client.aclose()


async def status_of(
    client: httpx.AsyncClient, operation: Operation, headers: dict[str, str] | None = None
) -> int:
    """The status of the answer to a request with an unknown parameter."""
    path = f"{API}/{operation.full_name.replace('.', '/')}"
    if operation.declaration.acts:
        answer = await client.post(path, json={UNKNOWN: 1}, headers=headers)
    else:
        answer = await client.get(path, params={UNKNOWN: 1}, headers=headers)
    return answer.status_code


def scope_of(operation: Operation) -> str:
    return f"{operation.area.name}:{'act' if operation.declaration.acts else 'read'}"


def expected(operation: Operation, role: AccessRole) -> int:
    return 422 if role.allows(operation.declaration.role) else 403


@pytest.mark.parametrize("role", AccessRole)
async def test_a_browser_may_do_what_its_role_allows(
    app: App, site: Site, role: AccessRole
) -> None:
    operations = app.operations.operations()
    table = {name: await status_of(site.browsers[role], each) for name, each in operations.items()}
    assert table == {name: expected(each, role) for name, each in operations.items()}
    if role is not AccessRole.OWNER:
        assert 403 in table.values()


@pytest.mark.parametrize("role", AccessRole)
async def test_a_token_of_the_area_may_do_what_the_role_of_its_person_allows(
    app: App, site: Site, role: AccessRole
) -> None:
    operations = app.operations.operations()
    scopes = {scope_of(each) for each in operations.values()}
    tokens = {scope: await site.token(role, scope) for scope in scopes}
    table = {
        name: await status_of(site.program, each, tokens[scope_of(each)])
        for name, each in operations.items()
    }
    assert table == {name: expected(each, role) for name, each in operations.items()}


@pytest.mark.parametrize("role", AccessRole)
async def test_a_token_of_another_area_may_call_nothing(
    app: App, site: Site, role: AccessRole
) -> None:
    operations = app.operations.operations()
    areas = {each.area.name for each in operations.values()}
    tokens = {
        area: await site.token(role, *(f"{each}:act" for each in areas if each != area))
        for area in areas
    }
    table = {
        name: await status_of(site.program, each, tokens[each.area.name])
        for name, each in operations.items()
    }
    assert table == dict.fromkeys(operations, 403)


@pytest.mark.parametrize("role", AccessRole)
async def test_a_token_that_may_read_everything_calls_no_action(
    app: App, site: Site, role: AccessRole
) -> None:
    token = await site.token(role, "*:read")
    for name, each in app.operations.operations().items():
        wanted = 403 if each.declaration.acts else expected(each, role)
        assert await status_of(site.program, each, token) == wanted, name


async def test_without_a_login_nothing_can_be_called(app: App, site: Site) -> None:
    for name, each in app.operations.operations().items():
        assert await status_of(site.program, each) == 401, name
        assert await status_of(site.program, each, {"Authorization": "Bearer nekro_no"}) in {
            401,
            429,
        }, name


@pytest.mark.parametrize("role", AccessRole)
@pytest.mark.parametrize(("method", "path", "area", "needed", "scope"), FILES)
async def test_a_file_is_sent_or_received_only_with_the_role_and_the_scope_that_it_needs(
    site: Site,
    role: AccessRole,
    method: str,
    path: str,
    area: str,
    needed: AccessRole,
    scope: str,
) -> None:
    beyond = await site.token(role, "chats:act", *([f"{area}:read"] if scope == "act" else []))
    within = await site.token(role, f"{area}:{scope}")
    for client, headers, allowed in (
        (site.browsers[role], {}, role.allows(needed)),
        (site.program, within, role.allows(needed)),
        (site.program, beyond, False),
    ):
        answer = await client.request(method, path, headers=headers)
        assert (answer.status_code != 403) == allowed, answer.text
    assert (await site.program.request(method, path)).status_code == 401


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name or "home")
@pytest.mark.parametrize("role", AccessRole)
async def test_a_page_for_a_higher_role_says_so_and_shows_no_data(
    site: Site, role: AccessRole, page: ConsolePage
) -> None:
    """The first text of each page describes the page. A refused page does not show even this
    text."""
    address = page.address + re.sub(r"\{.+\}", "1", page.path)
    shown = await site.browsers[role].get(address, headers={"accept-language": "en"})
    assert shown.status_code == 200
    needed = console_texts().say(f"people.role_{page.role}", "en")
    refusal = console_texts().say("frame.not_allowed", "en", role=needed)
    assert (refusal in shown.text) == (not role.allows(page.role))
    if not role.allows(page.role):
        own = {
            text
            for key, text in console_texts().keys("en").items()
            if key.startswith(f"{page.name}.") and len(text) > 30 and "{" not in text
        }
        assert not [text for text in own if text in shown.text]
    stranger = await site.program.get(address)
    assert stranger.status_code == 401


async def test_only_the_owners_page_shows_the_names_of_people(site: Site) -> None:
    pages = {
        role: (await browser.get("/ui/console/people")).text
        for role, browser in site.browsers.items()
    }
    assert {role: "李雷" in page or "\\u674e" in page for role, page in pages.items()} == {
        AccessRole.VIEWER: False,
        AccessRole.OPERATOR: False,
        AccessRole.OWNER: True,
    }


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/turns?before={number}", 200),
        ("/api/v1/turns/{number}", 404),
        ("/ui/console/files/media/{number}/0", 422),
        ("/ui/console/files/media/1/{number}", 404),
    ],
)
async def test_a_very_large_number_in_an_address_causes_no_server_error(
    site: Site, path: str, status: int
) -> None:
    answer = await site.browsers[AccessRole.VIEWER].get(path.format(number=10**30))
    assert answer.status_code == status
