"""An operator changes what the boxes of a chat may reach."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.browsing import browsing
from tests.console.fill_models import CHAT, EVIL

pytestmark = [pytest.mark.browser, pytest.mark.long]


async def test_rules_are_changed_allowed_and_removed_in_the_browser(tmp_path: Path) -> None:
    async with browsing(tmp_path, "network") as page:
        chat = page.locator("article", has=page.get_by_text(CHAT, exact=True)).first
        await chat.get_by_role("button", name="Change").click()
        form = page.locator(".nc-network-form")
        allowed = form.get_by_label("May reach (one rule per line)")
        await expect(allowed).to_have_value("example.org\n*.example.net")
        await allowed.fill(EVIL)
        await form.get_by_role("button", name="Save").click()
        await expect(form.get_by_role("alert")).to_contain_text("no rule")
        await allowed.fill("example.com:8443")
        await form.get_by_role("button", name="Save").click()
        await expect(chat.get_by_text("example.com:8443")).to_be_visible()
        await page.locator(".nc-toast").get_by_role("button", name="Undo").click()
        await expect(chat.get_by_text("*.example.net")).to_be_visible()
        refused = page.locator("article", has_text="secret.example")
        await refused.get_by_role("button", name="Allow it").click()
        await expect(allowed).to_have_value("example.org\n*.example.net\nsecret.example:443")
        await form.get_by_role("button", name="Save").click()
        await expect(chat.get_by_text("secret.example:443")).to_be_visible()
        await refused.get_by_role("button", name="Clear the list of this chat").click()
        await expect(page.get_by_text("Nothing was refused since")).to_be_visible()
        await chat.get_by_role("button", name="Remove").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await expect(page.locator("article", has_text=CHAT)).to_have_count(0)


@pytest.mark.slow
async def test_a_change_that_is_not_shown_yet_is_not_overwritten(tmp_path: Path) -> None:
    async with browsing(tmp_path, "network") as page:
        other = await page.context.new_page()
        await other.goto(page.url)
        article, form = other.locator("article"), other.locator(".nc-network-form")
        theirs = article.filter(has=other.get_by_text(CHAT, exact=True)).first
        await theirs.get_by_role("button", name="Change").click()
        await form.get_by_label("May reach (one rule per line)").fill("theirs.example")
        ours = page.locator("article", has=page.get_by_text(CHAT, exact=True)).first
        change = ours.get_by_role("button", name="Change")
        await form.get_by_role("button", name="Save").click()
        await expect(theirs.get_by_text("theirs.example")).to_be_visible()
        await change.click()  # mostly before this page is drawn again, which it is after 3 s
        form = page.locator(".nc-network-form")
        field = form.get_by_label("May reach (one rule per line)")
        stale = "theirs.example" not in await field.input_value()
        await field.fill("ours.example")
        await form.get_by_role("button", name="Save").click()
        if stale:
            await expect(form.get_by_role("alert")).to_contain_text("was changed since")
            await expect(ours.get_by_text("theirs.example")).to_be_visible()
        else:
            await expect(ours.get_by_text("ours.example")).to_be_visible()


@pytest.mark.slow
async def test_a_viewer_sees_the_rules_and_changes_nothing(tmp_path: Path) -> None:
    async with browsing(tmp_path, "network", role="viewer") as page:
        await expect(page.get_by_text("nas.lan:80").first).to_be_visible()
        for name in ("Change", "Remove", "Allow it", "Add rules for a chat"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)
