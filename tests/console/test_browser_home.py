"""The first page shows what is wrong at the moment, and links to the page where it can be
corrected."""

import json
from pathlib import Path

import httpx
import pytest
from playwright.async_api import async_playwright, expect

from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM, WIDE, opened

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.jail]

EVIL = "<img src=x onerror=alert(1)>"
LOOK_MS = 30_000
"""How long the tests wait for a change of the page. The page looks for problems every five seconds,
or less often on a busy machine."""


@pytest.mark.slow
async def test_a_problem_appears_and_disappears_while_the_page_is_open(tmp_path: Path) -> None:
    servers = {"mcpServers": {"weather": {"command": "/no/such/program"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    async with (
        running_console(tmp_path, data=["chats"]) as address,
        async_playwright() as playwright,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as person,
    ):
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = await opened(chromium, f"{address}/ui/console", size=WIDE, theme="light")
        alerts: list[str] = []
        page.on("dialog", lambda shown: alerts.append(shown.message))
        problems = page.locator(".nc-main article")
        broken = problems.filter(has_text="The MCP server weather does not work")
        await expect(broken).to_contain_text("there is no program", timeout=LOOK_MS)
        await expect(broken.get_by_role("link")).to_have_attribute("href", "/ui/console/mcp")

        conduct = problems.filter(has_text="conduct.toml")
        await expect(conduct).to_have_count(0)
        (tmp_path / "conduct.toml").write_text(f"[general]\n{EVIL} = 1\n")
        await expect(conduct).to_contain_text("correct ", timeout=LOOK_MS)
        (tmp_path / "conduct.toml").unlink()
        await expect(conduct).to_have_count(0, timeout=LOOK_MS)

        failed = problems.filter(has_text="did not answer the last question")
        await expect(failed).to_have_count(0)
        await person.post("/test/say", params={"text": "Nekro, be unreachable"})
        await expect(failed).to_be_visible(timeout=LOOK_MS)
        await failed.get_by_role("link").click()
        await page.wait_for_url("**/ui/console/turns/*")
        await page.get_by_role("link", name="Home", exact=True).click()
        await person.post("/test/say", params={"text": "Nekro, are you back?"})
        await expect(failed).to_have_count(0, timeout=LOOK_MS)
        assert alerts == []
        await chromium.close()


@pytest.mark.slow
async def test_a_new_message_changes_the_figures_and_nothing_else_is_drawn_again(
    tmp_path: Path,
) -> None:
    async with (
        running_console(tmp_path, data=["chats"]) as address,
        async_playwright() as playwright,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as person,
    ):
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = await opened(chromium, f"{address}/ui/console", size=WIDE, theme="light")
        tile = page.locator(".nc-tiles .nc-card", has_text="Messages").first.locator("div").last
        # By now the list of first steps has changed too.
        await expect(tile).not_to_have_text("0", timeout=LOOK_MS)
        before = await tile.text_content()
        await page.evaluate("document.querySelector('.nc-tiles').dataset.drawn = 'once'")
        await person.post("/test/say", params={"text": "a message more"})
        await expect(tile).not_to_have_text(before or "", timeout=LOOK_MS)
        assert await page.evaluate("document.querySelector('.nc-tiles').dataset.drawn") == "once"
        await chromium.close()
