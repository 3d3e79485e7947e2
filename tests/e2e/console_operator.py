"""Simulates a person who uses the console of a real bot in a separate browser profile."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from nekro_core.console.view import ROOT
from tests.e2e.test_browser_page import SLOW_MS


class ConsoleOperator:
    """A person who looks at the pages of a bot and acts there."""

    def __init__(self, page: Page, address: str, *, telephone: bool) -> None:
        self.page, self.address = page, address
        self._telephone = telephone
        self._pictures = 0

    async def open(self, name: str) -> None:
        """Click a page in the navigation."""
        if self._telephone:  # on a telephone, the navigation is behind a button
            await self.page.get_by_role("button", name="Open the list of pages").click()
        links = self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True)
        await links.click()
        await expect(self.page.get_by_role("heading", level=1)).to_have_text(name)
        await self._is_live()

    async def visit(self, path: str) -> None:
        """Open a page by its address below that of the console."""
        await self.page.goto(f"{self.address}{ROOT}/{path}")
        await self._is_live()

    async def _is_live(self) -> None:
        """Wait until the page's websocket is connected. Before that, a click is lost."""
        await self.page.wait_for_function("window.socket?.connected && window.did_handshake")

    async def told(self, text: str) -> None:
        """Wait for a notification with this text at the edge of the page, and close it."""
        toast = self.page.locator(".nc-toast", has_text=text).first
        await toast.get_by_role("button", name="Close").click()

    async def log_in(self, name: str, password: str) -> None:
        """Log in, and open the console."""
        page = self.page
        await page.goto(f"{self.address}/login")
        await page.get_by_label("Name").fill(name)
        await page.get_by_label("Password").fill(password)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url("**/ui/**")
        await self.visit("")

    async def picture(self, name: str) -> None:
        """Save a picture of the page if the variable SCREENSHOTS names a folder."""
        if folder := os.environ.get("SCREENSHOTS"):
            self._pictures += 1
            path = Path(folder) / f"nothing-{self._pictures:02}-{name}.png"
            await self.page.screenshot(path=path, full_page=True)


@asynccontextmanager
async def at_the_console(
    browser: Browser, address: str, *, telephone: bool = False
) -> AsyncIterator[ConsoleOperator]:
    """A new browser profile. The test fails if a script raises an error or a text opens a
    dialog."""
    errors: list[str] = []
    size = {"width": 390, "height": 844} if telephone else {"width": 1280, "height": 900}
    context = await browser.new_context(viewport=size, locale="en-US")
    context.set_default_timeout(SLOW_MS)
    expect.set_options(timeout=SLOW_MS)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.on("weberror", lambda error: errors.append(str(error.error)))
    page = await context.new_page()
    page.on("dialog", lambda shown: errors.append(shown.message))
    yield ConsoleOperator(page, address, telephone=telephone)
    await context.close()
    assert errors == []
