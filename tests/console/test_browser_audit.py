"""An operator finds changes in the audit log and undoes one, in a browser."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.console.browsing import browsing
from tests.console.fill_models import CHAT, EVIL

pytestmark = [pytest.mark.browser, pytest.mark.long]


async def call(page: Page, operation: str, *, role: str = "owner", **parameters: object) -> None:
    """Call an action as another person with this role."""
    address = page.url.partition("/ui/")[0]
    cookies = {"role": role}
    async with httpx.AsyncClient(trust_env=False, base_url=address, cookies=cookies) as api:
        await api.post(f"/api/v1/operator/{operation.replace('.', '/')}", json=parameters)


async def test_a_change_is_found_shown_as_text_and_undone(tmp_path: Path) -> None:
    async with browsing(tmp_path, "audit") as page:
        text = f"You are {EVIL}"
        await call(page, "chats.set_policy", chat_key=CHAT, field="persona", value=text)
        await call(
            page, "chats.set_policy", role="operator", chat_key=CHAT, field="mode", value="tools"
        )
        await call(
            page, "chats.set_policy", role="viewer", chat_key=CHAT, field="mode", value="code"
        )
        rows = page.locator("article")
        await expect(rows.first).to_contain_text("denied")  # the row appears without a reload
        await expect(rows.filter(has_text=EVIL).first).to_be_visible()
        assert await rows.locator("img").count() == 0

        await page.get_by_label("Person").fill("operator")
        await page.get_by_label("Person").press("Tab")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("chats.set_policy")
        await expect(rows).to_contain_text("tools")
        await page.get_by_label("Person").fill("")
        await page.get_by_label("Person").press("Tab")
        await page.get_by_label("Area").click()
        await page.get_by_role("option", name="personas").click()
        await expect(rows.first).to_contain_text("personas.")
        await expect(rows.filter(has_text="chats.")).to_have_count(0)
        await page.get_by_label("Area").click()
        await page.get_by_role("option", name="chats").click()

        changed = rows.filter(has_text="tools")
        await changed.get_by_role("button", name="Take back").click()
        await expect(page.get_by_text("The change was taken back.")).to_be_visible()
        await expect(rows.filter(has_text="taken back by entry")).to_have_count(1)


@pytest.mark.slow
async def test_a_change_is_not_undone_if_somebody_changed_the_value_since(tmp_path: Path) -> None:
    async with browsing(tmp_path, "audit") as page:
        for value in ("observe", "off"):
            await call(page, "chats.set_policy", chat_key=CHAT, field="state", value=value)
        older = page.locator("article").filter(has_text="chats.set_policy").last
        await expect(older).to_contain_text("observe")
        await older.get_by_role("button", name="Take back").click()
        await expect(page.get_by_role("alert").last).to_contain_text("changed")
        await expect(page.locator("article").filter(has_text="taken back")).to_have_count(0)


@pytest.mark.slow
async def test_a_viewer_is_told_which_role_the_page_needs(tmp_path: Path) -> None:
    async with browsing(tmp_path, "audit", role="viewer") as page:
        await expect(
            page.get_by_text("This page is for people with the role operator.")
        ).to_be_visible()
        await expect(page.locator("article")).to_have_count(0)
