"""An operator sets, runs, pauses and deletes timers in a browser."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from tests.console.browsing import browsing
from tests.console.fill_models import CHAT, EVIL

pytestmark = [pytest.mark.browser, pytest.mark.long]


async def test_a_recurring_timer_is_set_paused_resumed_run_and_deleted_and_the_deletion_is_undone(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path, "timers") as page:
        await expect(page.get_by_text("No timer is set.")).to_be_visible()
        await page.get_by_text("New timer", exact=True).click()
        await page.get_by_label("Chat (its key)").fill(CHAT)
        await page.get_by_label("When (YYYY-MM-DD").fill("0 8 * * *")
        await page.get_by_label("What the bot reads then").fill(f"Say good morning. {EVIL}")
        await page.get_by_label("Name", exact=True).fill(EVIL)
        await page.get_by_role("button", name="Set", exact=True).click()
        timer = page.locator("article")
        await expect(timer).to_have_count(1)
        await expect(timer).to_contain_text(EVIL)
        await expect(timer).to_contain_text(f"Say good morning. {EVIL}")
        await expect(timer).to_contain_text("0 8 * * *")
        assert await timer.locator("img").count() == 0

        await timer.get_by_role("button", name="Wake the bot now").click()
        await expect(page.get_by_text("The bot was woken.")).to_be_visible()
        await timer.get_by_role("button", name="Pause").click()
        await expect(timer).to_contain_text("paused")
        await timer.get_by_role("button", name="Resume").click()
        await expect(timer).to_contain_text("active")

        await timer.get_by_role("button", name="Delete").click()
        await expect(timer).to_have_count(0)
        deleted = page.get_by_role("status").filter(has_text="The timer was deleted.")
        await deleted.get_by_role("button", name="Undo").click()
        await expect(timer).to_have_count(1)


@pytest.mark.slow
async def test_a_text_that_is_not_a_time_is_refused_and_typed_text_stays(tmp_path: Path) -> None:
    async with browsing(tmp_path, "timers") as page:
        await page.get_by_text("New timer", exact=True).click()
        await page.get_by_label("Chat (its key)").fill(CHAT)
        await page.get_by_label("What the bot reads then").fill("Say good morning.")
        when = page.get_by_label("When (YYYY-MM-DD")
        for wrong, told in (
            ("tomorrow", "expected a time such as"),
            ("61 8 * * *", "cron"),
            ("2001-01-01 08:00", "the time 2001-01-01 08:00:00 is over"),
        ):
            await when.fill(wrong)
            await page.get_by_role("button", name="Set", exact=True).click()
            await expect(page.get_by_role("alert").last).to_contain_text(told)
            await expect(when).to_have_value(wrong)
        await when.fill("2099-12-31 18:00")
        await page.get_by_role("button", name="Set", exact=True).click()
        await expect(page.locator("article")).to_contain_text("next: 2099-12-31 18:00:00")


@pytest.mark.slow
async def test_a_timer_that_another_person_sets_appears_and_a_viewer_only_reads(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path, "timers", role="viewer") as page:
        await expect(page.get_by_text("No timer is set.")).to_be_visible()
        address = page.url.partition("/ui/")[0]
        async with httpx.AsyncClient(trust_env=False, base_url=address) as api:
            given = {"chat_key": CHAT, "cron": "0 8 * * *", "text": "Say good morning."}
            answer = await api.post("/api/v1/operator/timers/set_recurring", json=given)
            assert answer.is_success, answer.text
        await expect(page.locator("article")).to_contain_text("Say good morning.")
        assert await page.locator("article button").count() == 0
        await expect(page.get_by_text("New timer", exact=True)).to_have_count(0)


@pytest.mark.slow
async def test_of_many_timers_the_first_fifty_are_drawn_until_the_person_wants_more(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path, "timers") as page:
        address = page.url.partition("/ui/")[0]
        async with httpx.AsyncClient(trust_env=False, base_url=address) as api:
            for number in range(60):
                given = {"chat_key": CHAT, "due": 4e9 + number, "text": f"Look at shelf {number}."}
                answer = await api.post("/api/v1/operator/timers/set_once", json=given)
                assert answer.is_success, answer.text
        await page.reload()
        timers = page.locator("article")
        await expect(timers).to_have_count(50)
        await expect(timers.last).to_contain_text("Look at shelf 49.")
        await page.get_by_role("button", name="Show more (10 left)").click()
        await expect(timers).to_have_count(60)
        await timers.last.get_by_role("button", name="Delete").click()
        await expect(timers).to_have_count(59)
        await expect(page.get_by_role("button", name="Show more")).to_have_count(0)
