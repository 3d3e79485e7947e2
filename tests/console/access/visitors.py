"""Makes people with browsers for the tests of logins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pyotp

from nekro_core.operator.roles import AccessRole
from nekro_core.store import ConsolePerson
from tests.adapters.web.running import Web

PASSWORD = "correct horse battery"


async def add_person(
    site: Web, name: str, role: AccessRole = AccessRole.VIEWER, password: str = PASSWORD
) -> ConsolePerson:
    """Add an active person with a password. The bot has an owner as well."""
    people = site.site.identity.people
    await people.owner()
    _, secret = await people.invite(name, role)
    return await people.accept(secret, password)


async def log_in(browser: httpx.AsyncClient, name: str, password: str = PASSWORD) -> httpx.Response:
    return await browser.post("/login", data={"name": name, "password": password})


@asynccontextmanager
async def logged_in(
    site: Web, name: str, role: AccessRole = AccessRole.VIEWER
) -> AsyncIterator[httpx.AsyncClient]:
    """The browser of a new person."""
    await add_person(site, name, role)
    async with site.stranger() as browser:
        assert (await log_in(browser, name)).status_code == 200
        yield browser


async def enrol(site: Web, name: str) -> tuple[pyotp.TOTP, tuple[str, ...]]:
    """Give a person a second factor. Returns the authenticator and the recovery codes."""
    identity = site.site.identity
    person = await identity.people.one(name)
    authenticator = pyotp.TOTP((await identity.second_factor.begin(person)).secret)
    codes = await identity.second_factor.confirm(person, authenticator.at(int(site.clock.now)))
    return authenticator, codes


def hidden(page: str, field: str) -> str:
    """The value of a hidden field of a form."""
    return page.partition(f'name="{field}" type="hidden" value="')[2].partition('"')[0]


def cookie_of(site: Web, browser: httpx.AsyncClient) -> str:
    """The value of the session cookie."""
    return browser.cookies[site.site.authenticator.cookie]
