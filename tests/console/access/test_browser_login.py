"""The pages that are shown before the login are accessible in a real browser: on a wide screen and
on a telephone, in light and in dark colours. ``SCREENSHOTS=folder`` saves a picture of each
page."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyotp
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.console.browsing import ARGUMENTS, CHROMIUM
from tests.console.fill_people import PASSWORD
from tests.console.process import running_console

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.jail]

PEOPLE = "/api/v1/operator/people"
NAME = "<b>Zoe</b>"


@dataclass
class Site:
    """A site with logins. Its viewer has a second factor. ``invited`` is the link of an invited
    person."""

    address: str
    invited: str


@asynccontextmanager
async def logged_in(address: str, name: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as client:
        answer = await client.post("/login", data={"name": name, "password": PASSWORD})
        assert answer.status_code == 200, answer.text
        yield client


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    async with running_console(folder, "tests.console.serve_site") as address:
        async with logged_in(address, "viewer") as viewer:
            begun = await viewer.post(f"{PEOPLE}/begin_second_factor", json={"present": PASSWORD})
            code = pyotp.TOTP(begun.json()["result"]["secret"]).now()
            done = await viewer.post(f"{PEOPLE}/confirm_second_factor", json={"code": code})
            assert done.status_code == 200, done.text
        async with logged_in(address, "owner") as owner:
            invited = await owner.post(f"{PEOPLE}/invite", json={"name": NAME, "role": "viewer"})
            assert invited.status_code == 200, invited.text
        yield Site(address, address + invited.json()["result"]["path"])


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


async def assert_usable(page: Page, name: str) -> None:
    found = await Axe().run(page)
    serious = [
        f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found.response["violations"]
        if each["impact"] in {"serious", "critical"}
    ]
    assert serious == [], name
    overhang = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overhang <= 0, f"{name}: {overhang} pixels wider than the window"
    if folder := os.environ.get("SCREENSHOTS"):
        await page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.slow), "ja"])
async def test_the_pages_that_are_shown_before_the_login_are_accessible(
    site: Site, browser: Browser, language: str, width: int, theme: str
) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if theme == "dark" else "light",
        locale=language,
    )
    context.set_default_timeout(20_000)
    page, kind = await context.new_page(), f"{theme}-{width}-{language}"
    await page.goto(f"{site.address}/ui/console")
    await assert_usable(page, f"login-{kind}")
    await page.locator("input[name=token]").fill("wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_be_visible()
    await assert_usable(page, f"refused-{kind}")
    await page.locator("input[name=name]").fill("viewer")
    await page.locator("input[name=password]").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.locator("input[name=code]")).to_be_focused()
    await assert_usable(page, f"code-{kind}")
    await page.goto(site.invited)
    await expect(page.get_by_role("heading")).to_contain_text(NAME)
    await page.locator("input[name=password]").fill("a" * 20)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_be_visible()
    await assert_usable(page, f"join-{kind}")
    await context.close()
