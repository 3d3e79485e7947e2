"""In a browser, an operator sees, adds, changes, ends and deletes notes, and adds documents."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.console.browsing import browsing
from tests.console.fill_models import CHAT, EVIL

pytestmark = [pytest.mark.browser, pytest.mark.long]


async def add_note(url: str, text: str, **more: str) -> None:
    address = url.partition("/ui/")[0]
    async with httpx.AsyncClient(trust_env=False, base_url=address) as api:
        given = {"chat_key": CHAT, "text": text, **more}
        answer = await api.post("/api/v1/operator/memory/add_note", json=given)
        assert answer.is_success, answer.text


@pytest.mark.slow
async def test_a_note_is_shown_changed_ended_and_deleted(tmp_path: Path) -> None:
    async with browsing(tmp_path, "memory") as page:
        await expect(page.get_by_text("Nothing is remembered yet.")).to_be_visible()
        await add_note(page.url, f"likes tea {EVIL}", about_id="10001", about_name="Lin")
        await page.reload()
        await page.get_by_role("button", name="Show", exact=True).click()
        note = page.locator("article").filter(has_text="likes tea")
        await expect(note).to_contain_text(f"likes tea {EVIL}")
        await expect(note).to_contain_text("Lin (10001)")
        assert await note.locator("img").count() == 0
        await note.get_by_role("button", name="Change").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Note", exact=True).fill("likes coffee")
        await dialog.get_by_role("button", name="Save").click()
        note = page.locator("article").filter(has_text="likes coffee")
        await note.get_by_role("button", name="Does not hold any more").click()
        await expect(note).to_have_count(0)
        saved = page.get_by_role("status").filter(has_text="The note is saved.").last
        await saved.get_by_role("button", name="Undo").click()
        await expect(note).to_have_count(1)
        await note.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(note).to_have_count(0)


async def test_documents_are_added_unreadable_ones_are_reported_and_a_viewer_only_reads(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path, "memory") as page:
        chooser = page.locator("input[type=file]").last
        door = {"name": "door.md", "mimeType": "text/markdown", "buffer": b"# Door\nvermilion"}
        await chooser.set_input_files(door)  # type: ignore[arg-type]
        await expect(page.get_by_text("bot/door.md")).to_be_visible()
        wrong = {"name": "scan.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4 nothing"}
        await page.locator("input[type=file]").last.set_input_files(wrong)  # type: ignore[arg-type]
        await expect(page.get_by_role("alert").last).to_contain_text("no PDF that can be read")
    other = tmp_path / "viewer"
    other.mkdir()
    async with browsing(other, "memory", role="viewer") as page:
        await expect(page.get_by_text("There are no documents.")).to_be_visible()
        assert await page.locator("input[type=file]").count() == 0
