"""An operator finds a turn, sees what happened and which prompts were sent, and repeats the
turn."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, async_playwright, expect

from tests.console.fill_turns import EVIL
from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.jail]


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    async with running_console(tmp_path_factory.mktemp("bot"), data=["turns"]) as running:
        yield running


@pytest.fixture
async def page(anyio_backend: str) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = await chromium.new_page(viewport={"width": 1280, "height": 860}, locale="en-US")
        page.set_default_timeout(30_000)
        yield page
        await chromium.close()


async def test_turns_are_filtered_and_html_in_a_message_is_shown_as_text(
    page: Page, address: str
) -> None:
    await page.goto(f"{address}/ui/console/turns")
    listed = page.locator("article")
    await expect(listed).to_have_count(5)
    await expect(page.get_by_role("link", name=EVIL)).to_be_visible()
    assert await page.locator("article img").count() == 0
    chat = page.get_by_label("Chat key")
    await chat.fill("fake-private_lin")
    await chat.press("Tab")
    await expect(listed).to_have_count(3)
    await chat.fill("nowhere")
    await chat.press("Tab")
    await expect(page.get_by_role("alert")).to_contain_text("chat_key")
    await page.goto(f"{address}/ui/console/turns?failed=1&chat=fake-private_lin")
    await expect(listed).to_have_count(1)
    await expect(listed).to_contain_text("the model failed (model_rejected)")


async def test_a_turn_shows_its_times_its_code_and_its_prompt(page: Page, address: str) -> None:
    await page.goto(f"{address}/ui/console/turns")
    await page.get_by_role("link", name="roll a 20-sided dice").click()
    bars = page.locator(".nc-turn-bar-row")
    for kind in (
        "Waiting for the person",
        "Waiting for a slot",
        "Step · scripted",
        "Prompt",
        "Until the first token",
        "Reply",
        "Code",
        "Statement · face = roll(20)",
        "Statement · send_channel_message",
        "Call · roll",
        "Send · You rolled 10.",
    ):
        await expect(bars.filter(has_text=kind).first).to_be_visible()
    await expect(bars.filter(has_text="Until the first token")).to_have_count(1)
    await expect(page.get_by_text("Answered: it was written in a private chat.")).to_be_visible()
    await bars.filter(has_text="Call · roll").hover()
    await expect(page.get_by_role("tooltip")).to_contain_text('{"args": [20]}')
    await page.mouse.move(0, 0)
    await page.get_by_text("The same as a table").click()
    cells = page.get_by_role("cell", name="Waiting for the person", exact=False)
    await expect(cells).to_be_visible()
    await expect(page.get_by_text("face = roll(20)").first).to_be_visible()
    await expect(page.get_by_text("exactly as it was sent")).to_be_visible()
    await expect(page.get_by_text("The unchanged beginning ends here")).to_be_visible()
    section = page.locator(".nc-turn-section").filter(has_text=re.compile("^History"))
    await section.get_by_role("button").first.click()
    await expect(section.locator(".nc-code")).to_contain_text("roll a 20-sided dice")

    async with page.expect_download() as waiting:
        await page.get_by_role("button", name="Download JSON").click()
    download = await waiting.value
    assert download.suggested_filename == "turn-2-step-1.json"
    body = json.loads(Path(await download.path()).read_bytes())
    async with httpx.AsyncClient(trust_env=False) as client:
        query = f"{address}/api/v1/operator/turns/shown?turn_id=2&step=0"
        answer = (await client.get(query)).json()
    assert body == answer["result"]["body"]
    found = await Axe().run(page)
    assert not [e for e in found.response["violations"] if e["impact"] in ("serious", "critical")]


async def test_a_refused_message_links_to_the_undelivered_messages(
    page: Page, address: str
) -> None:
    await page.goto(f"{address}/ui/console/turns/5")
    await expect(page.get_by_text("the bot was muted in this group").first).to_be_visible()
    await page.locator(".nc-turn-call").get_by_role("link", name="Undelivered").first.click()
    await page.wait_for_url(f"{address}/ui/console/undelivered")
    await page.goto(f"{address}/ui/console/turns/99")
    await expect(page.get_by_text("there is no turn 99")).to_be_visible()


async def test_a_turn_is_repeated_beside_the_original(page: Page, address: str) -> None:
    await page.goto(f"{address}/ui/console/turns/2")
    await page.get_by_role("combobox", name="Persona").click()
    await page.get_by_role("option", name="another text").click()
    await page.get_by_label("Text of the persona").fill("You are a pirate.")
    await page.get_by_role("button", name="Repeat", exact=True).click()
    original = page.get_by_role("region", name="Original")
    repeated = page.get_by_role("region", name="Repeated")
    # A repetition makes a box. This takes seconds on a busy machine.
    await expect(original.get_by_text("You rolled 10.").first).to_be_visible(timeout=30_000)
    await expect(repeated.locator(".nc-turn-said")).to_have_text("hi")
    await expect(page.get_by_text("It made no calls.")).to_be_visible()
    await page.get_by_text("What the model was shown in step 1 of the repetition").click()
    section = page.locator(".nc-turn-section").filter(has_text="Persona")
    await section.get_by_role("button").last.click()
    await expect(section.locator(".nc-code")).to_contain_text("You are a pirate.")
    await page.reload()
    await expect(page.get_by_role("region", name="Repeated")).to_be_visible()


@pytest.mark.slow
async def test_a_running_repetition_is_shown_after_a_reload_and_is_ended(
    page: Page, address: str
) -> None:
    await page.goto(f"{address}/ui/console/turns/1")
    await page.get_by_role("combobox", name="Persona").click()
    await page.get_by_role("option", name="another text").click()
    await page.get_by_label("Text of the persona").fill("You are very slow.")
    begin = page.get_by_role("button", name="Repeat", exact=True)
    await begin.click()
    running = page.locator(".nc-job")
    await expect(running.get_by_text("the turn runs")).to_be_visible(timeout=30_000)
    await page.reload()
    await expect(running.get_by_text("the turn runs")).to_be_visible()
    await expect(begin).to_be_disabled()
    await page.goto(f"{address}/ui/console/turns/2")
    await expect(begin).to_be_enabled()  # another turn can be repeated meanwhile
    await expect(running).to_have_count(0)
    await page.goto(f"{address}/ui/console/turns/1")
    await running.get_by_role("button", name="Cancel").click()
    await expect(running).to_have_count(0)
    await expect(begin).to_be_enabled()
    await expect(page.get_by_text("Cancelled").first).to_be_visible()


async def test_a_viewer_sees_turns_and_cannot_repeat_them(page: Page, address: str) -> None:
    await page.context.add_cookies([{"name": "role", "value": "viewer", "url": address}])
    await page.goto(f"{address}/ui/console/turns/1")
    await expect(page.get_by_text("This needs the role operator.")).to_be_visible()
    await expect(page.get_by_role("button", name="Repeat", exact=True)).to_have_count(0)
