"""An operator writes a persona, tries it, compares its versions and restores one."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.browsing import browsing
from tests.console.fill_models import EVIL

pytestmark = [pytest.mark.browser, pytest.mark.long]


async def test_a_persona_is_written_tried_compared_and_restored(tmp_path: Path) -> None:
    async with browsing(tmp_path, "personas") as page:
        await page.get_by_role("button", name="New persona").click()
        editor = page.locator(".nc-personas-editor")
        await editor.get_by_label("Name").fill("Ann")
        await editor.get_by_label("Persona", exact=True).fill("You are Ann.")
        await editor.get_by_role("button", name="Save as a new version").click()
        await expect(editor.get_by_role("heading", name="Ann")).to_be_visible()
        await editor.get_by_label("Persona", exact=True).fill(f"You are Ann.\n{EVIL}")
        await editor.get_by_text("Try it on a conversation").click()
        await editor.get_by_label("Chat", exact=True).click()
        await page.get_by_role("option", name="fake-group_30003").first.click()
        await editor.get_by_role("button", name="Try", exact=True).click()
        await expect(editor.locator(".nc-code", has_text="hi").first).to_be_visible()
        await editor.get_by_role("button", name="Save as a new version").click()
        await expect(editor.locator(".nc-diff-added")).to_have_text(f"+ {EVIL}")
        await editor.get_by_role("button", name="Restore").click()
        await expect(editor.get_by_text("Version 3")).to_be_visible()
        await expect(editor.get_by_label("Persona", exact=True)).to_have_value("You are Ann.")


@pytest.mark.slow
async def test_a_removed_persona_is_restored_and_the_second_of_two_writers_is_warned(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path, "personas") as page:
        captain = page.locator("article", has_text="Captain")
        await captain.get_by_role("button", name="Open").click()
        editor = page.locator(".nc-personas-editor")
        await editor.get_by_label("Persona", exact=True).fill("You are a young captain.")
        await captain.get_by_role("button", name="Remove").click()
        await expect(captain.get_by_role("button", name="Bring back")).to_be_visible()
        await page.locator(".nc-toast").get_by_role("button", name="Undo").click()
        await expect(captain.get_by_role("button", name="Open")).to_be_visible()
        other = await page.context.new_page()
        await other.goto(page.url)
        await (
            other.locator("article", has_text="Captain").get_by_role("button", name="Open").click()
        )
        await other.get_by_label("Persona", exact=True).fill("You are a pirate.")
        await other.get_by_role("button", name="Save as a new version").click()
        # the page changes without a reload
        await expect(captain.get_by_text("You are a pirate.")).to_be_visible()
        await editor.get_by_role("button", name="Save as a new version").click()
        await expect(editor.get_by_text("Copy your text, close the persona")).to_be_visible()
        await expect(editor.get_by_label("Persona", exact=True)).to_have_value(
            "You are a young captain."
        )
