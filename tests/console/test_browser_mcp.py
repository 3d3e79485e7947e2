"""An operator tests, adds and removes an MCP server, and sees why another one does not work."""

import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.browsing import browsing
from tests.tools.mcp_client.world import PEER

pytestmark = [pytest.mark.browser, pytest.mark.long]
EVIL_NAME = "a<img src=x onerror=alert(1)>"


async def test_a_server_is_tested_added_and_removed_in_the_browser(tmp_path: Path) -> None:
    async with browsing(tmp_path, "mcp") as page:
        peer = page.locator("article", has=page.get_by_text("peer", exact=True))
        await expect(peer.get_by_text("ready")).to_be_visible()
        await peer.get_by_role("button", name="Show tools").click()
        await expect(peer.get_by_text("peer.echo(text: str")).to_be_visible()
        broken = page.locator("article", has=page.get_by_text("broken", exact=True))
        await expect(broken.get_by_text("there is no program")).to_be_visible()
        await page.get_by_role("button", name="Add a server").click()
        editor = page.locator(".nc-mcp-editor")
        await editor.get_by_label("Name").fill(EVIL_NAME)
        await editor.get_by_role("button", name="Save").click()
        await expect(editor.get_by_text("expected either 'command' or 'url'")).to_be_visible()
        await editor.get_by_label("Command").fill(sys.executable)
        arguments = editor.get_by_role("group", name="Arguments")
        for number, argument in enumerate((str(PEER), "good")):
            await arguments.get_by_role("button", name="Add").click()
            await arguments.get_by_role("textbox").nth(number).fill(argument)
        await editor.get_by_role("button", name="Test").click()
        await expect(editor.get_by_text("works", exact=True)).to_be_visible()
        await editor.get_by_role("button", name="Save").click()
        added = page.locator("article", has=page.get_by_text(EVIL_NAME, exact=True))
        await expect(added.get_by_text("ready")).to_be_visible()
        await added.get_by_role("button", name="Reconnect").click()
        await expect(page.get_by_text("is reconnecting.")).to_be_visible()
        await expect(added.get_by_text("ready")).to_be_visible()
        await added.get_by_role("button", name="Remove").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await expect(added).to_have_count(0)


@pytest.mark.slow
async def test_a_saved_secret_is_kept_and_never_shown(tmp_path: Path) -> None:
    async with browsing(tmp_path, "mcp") as page:
        peer = page.locator("article", has=page.get_by_text("peer", exact=True))
        await peer.get_by_role("button", name="Change").click()
        editor = page.locator(".nc-mcp-editor")
        await editor.get_by_label("Longest time of a call (s)").fill("9")
        await editor.get_by_role("button", name="Save").click()
        await expect(editor.get_by_role("button", name="Save")).to_have_count(0)
        await expect(peer.get_by_text("ready")).to_be_visible()
        assert "a-token-that-nobody-may-see" not in await page.content()
    assert "a-token-that-nobody-may-see" in (tmp_path / "secrets" / "mcp.json").read_text()
