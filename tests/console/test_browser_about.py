"""The page "About" shows the version of the bot, the changes, and the licences of the used code."""

import platform
from pathlib import Path

import pytest
from playwright.async_api import expect

import nekro_core
from tests.console.browsing import browsing

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.mark.slow
async def test_the_page_has_the_version_the_changes_and_the_licences(tmp_path: Path) -> None:
    async with browsing(tmp_path, "about", role="viewer") as page:
        tiles = page.locator(".nc-tiles")
        await expect(tiles).to_contain_text(platform.python_version())
        await expect(tiles).to_contain_text(nekro_core.__version__)
        changes = page.locator(".nc-prose")
        await expect(changes.get_by_role("heading", name="Unreleased")).to_be_visible()
        # The console does not serve files of the repository, so no link leads to such a file.
        addresses = await changes.get_by_role("link").evaluate_all(
            "links => links.map(each => each.getAttribute('href'))"
        )
        assert [each for each in addresses if not each.startswith("https://")] == []

        packages = page.get_by_role("row")
        await expect(packages.filter(has_text="anyio")).to_contain_text("MIT")
        await page.get_by_role("button", name="Next page").click()
        await expect(packages.filter(has_text="anyio")).to_have_count(0)
