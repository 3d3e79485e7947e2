"""Every page of the console opens in a real browser, is accessible, and fits a telephone. This also
holds for the pages of single chats, turns and plugins.

``SCREENSHOTS=docs/images/console`` saves a picture of each page.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

from nekro_core.console.pages import PAGES
from tests.console.process import running_console

pytestmark = [pytest.mark.browser, pytest.mark.long]

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
LISTED = [page for page in PAGES if page.group]
PLACES = {each.name or "home": each.address for each in LISTED} | {
    "a chat": "/ui/console/chats/fake-group_30003",
    "a turn": "/ui/console/turns/2",
    "a plugin": "/ui/console/plugins/local/weather",
}
"""The addresses of the pages. A key that begins with "a " is a page that shows one thing, such as
one chat. `test_the_places_have_every_page_of_a_single_thing` checks that none is missing."""
WIDE, NARROW = (1280, 860), (390, 800)
LOOKS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]
OPENINGS = [
    pytest.param(
        name,
        size,
        theme,
        id=f"{name}-{'wide' if size == WIDE else 'telephone'}-{theme}",
        # CI opens one half of the pages on a wide screen, and the other half on a telephone.
        marks=[] if place % 2 == look else pytest.mark.slow,
    )
    for place, name in enumerate(PLACES)
    for look, (size, theme) in enumerate(LOOKS)
]


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    """The address of a running console."""
    async with running_console(tmp_path_factory.mktemp("bot")) as running:
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


async def opened(browser: Browser, address: str, *, size: tuple[int, int], theme: str) -> Page:
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, locale="en-US"
    )
    context.set_default_timeout(30_000)
    page = await context.new_page()
    await page.goto(address)
    await page.wait_for_selector(".nc-main")
    await page.wait_for_load_state("networkidle")
    return page


@pytest.mark.parametrize(("name", "size", "theme"), OPENINGS)
async def test_a_page_opens_without_errors_and_is_accessible(
    browser: Browser, address: str, name: str, size: tuple[int, int], theme: str
) -> None:
    shown = await opened(browser, address + PLACES[name], size=size, theme=theme)
    errors: list[str] = []
    shown.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    found = await Axe().run(shown)
    serious = [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found.response["violations"]
        if each["impact"] in {"serious", "critical"}
    ]
    assert serious == []
    overhang = await shown.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overhang <= 0, f"{overhang} pixels wider than the window"
    assert errors == []
    addresses = await shown.locator("a").evaluate_all("links => links.map(each => each.href)")
    assert [each for each in addresses if "/ui/ui/" in each] == []
    if folder := os.environ.get("SCREENSHOTS"):
        await shown.screenshot(path=Path(folder) / f"{name}-{theme}-{size[0]}.png")
    await shown.context.close()


def test_the_places_have_every_page_of_a_single_thing() -> None:
    """The address of such a page is the address of its list, followed by an id."""
    lists = [PLACES[each] for each in PLACES if each.startswith("a ")]
    single = sorted(each.address for each in PAGES if not each.group)
    assert sorted(each.rpartition("/")[0].removesuffix("/local") for each in lists) == single


async def test_ctrl_k_finds_a_page_and_enter_opens_it(browser: Browser, address: str) -> None:
    shown = await opened(browser, address + "/ui/console/audit", size=WIDE, theme="light")
    await shown.keyboard.press("Control+k")
    await expect(shown.get_by_placeholder("Find a page, chat")).to_be_focused()
    await shown.keyboard.type("undel")
    await expect(shown.locator(".nc-palette-found a")).to_have_count(1)
    await shown.keyboard.press("Enter")
    await shown.wait_for_url(f"{address}/ui/console/undelivered")
    await shown.get_by_role("link", name="Audit log").click()
    await shown.wait_for_url(f"{address}/ui/console/audit")
    await shown.context.close()


@pytest.mark.slow
async def test_every_link_of_every_page_leads_somewhere(browser: Browser, address: str) -> None:
    context = await browser.new_context(locale="en-US")
    page = await context.new_page()
    links: dict[str, str] = {}
    for each in LISTED:
        await page.goto(address + each.address)
        await page.wait_for_selector(".nc-main")
        await page.wait_for_load_state("networkidle")
        for href in await page.evaluate("[...document.links].map(link => link.href)"):
            if href.startswith(address):
                links.setdefault(href.partition("#")[0], each.address)
    dead = {}
    for href, found_on in links.items():
        answer = await context.request.fetch(href, method="GET")
        # The chat page is not part of this site.
        if answer.status == 404 and href != f"{address}/ui/":
            dead[href] = found_on
    assert dead == {}
    assert len(links) > len(LISTED)
    await page.get_by_label("Colours and language").click()
    await page.get_by_text("My account").last.click()
    await page.wait_for_url(f"{address}/ui/console/account")
    await context.close()


async def test_the_language_and_the_theme_are_remembered(browser: Browser, address: str) -> None:
    shown = await opened(browser, address + "/ui/console/audit", size=WIDE, theme="light")
    await shown.get_by_label("Colours and language").click()
    await shown.get_by_text("日本語").click()
    await shown.get_by_role("heading", name="監査ログ").wait_for()
    await shown.get_by_label("配色と言語").click()
    await shown.get_by_text("ダーク").click()
    await shown.wait_for_selector("body.body--dark")
    await shown.context.close()
