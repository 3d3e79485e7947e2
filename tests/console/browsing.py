"""Opens pages of the console in a real browser, for tests that act as an operator."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, async_playwright

from tests.console.process import running_console

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@asynccontextmanager
async def browsing(
    folder: Path, name: str, *, role: str = "owner", data: Sequence[str] = ("models",)
) -> AsyncIterator[Page]:
    """A page of a new bot with data for the named pages. The test fails if the page shows an alert
    or logs an error."""
    errors: list[str] = []
    running = running_console(folder, data=data)
    async with running as address, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = await browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
        context.set_default_timeout(20_000)
        await context.add_cookies([{"name": "role", "value": role, "url": address}])
        page = await context.new_page()
        page.on("dialog", lambda shown: errors.append(shown.message))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        await page.goto(f"{address}/ui/console/{name}")
        await page.wait_for_selector(".nc-main")
        await page.wait_for_load_state("networkidle")
        yield page
        await browser.close()
    assert errors == []
