"""An operator reads the statistics: charts, their tables, the figures of one model, and a CSV
file."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, async_playwright, expect

from tests.console.fill_statistics import NAUGHTY
from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM, WIDE, opened

pytestmark = [pytest.mark.browser, pytest.mark.long]
STATISTICS = "/ui/console/statistics"


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    async with running_console(
        tmp_path_factory.mktemp("bot"), data=["statistics", "chats"]
    ) as running:
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


@pytest.mark.slow
async def test_charts_have_tables_and_a_model_named_like_html_is_text(
    browser: Browser, address: str
) -> None:
    shown = await opened(browser, address + STATISTICS, size=WIDE, theme="light")
    alerts: list[str] = []
    shown.on("dialog", lambda dialog: alerts.append(dialog.message))
    await expect(shown.locator(".nc-chart svg")).to_have_count(5)
    await shown.locator(".nc-chart").first.hover()
    await expect(shown.locator(".nc-chart").first).to_contain_text("Messages of people")
    await shown.get_by_label("Table: Messages and turns").first.click()
    await expect(shown.locator(".nc-chart-card table tbody tr").first).to_be_visible()
    await shown.locator(".nc-statistics-dimensions").get_by_text("Models").click()
    await shown.get_by_role("button", name=NAUGHTY).click()
    await expect(shown.get_by_text(f"Only the model {NAUGHTY}")).to_be_visible()
    await shown.get_by_role("button", name="Show the whole bot").click()
    await expect(shown.get_by_text(f"Only the model {NAUGHTY}")).to_have_count(0)
    assert alerts == []
    await shown.context.close()


@pytest.mark.slow
async def test_a_chosen_time_span_is_drawn_with_a_suitable_step(
    browser: Browser, address: str
) -> None:
    shown = await opened(browser, address + STATISTICS, size=WIDE, theme="light")
    await expect(shown.locator(".nc-chart svg")).to_have_count(5)

    async def offered() -> list[str]:
        await shown.get_by_label("One point for each").click()
        names = await shown.get_by_role("option").all_inner_texts()
        await shown.keyboard.press("Escape")
        return names

    async def choose(span: str) -> None:
        await shown.get_by_label("Span").click()
        await shown.get_by_role("option", name=span).click()

    assert await offered() == ["Hour", "Day"]
    await choose("Last 12 months")
    await expect(shown.get_by_label("One point for each")).to_have_value("Month")
    assert await offered() == ["Day", "Month"]
    await choose("Last 24 hours")
    await expect(shown.get_by_label("One point for each")).to_have_value("Hour")
    assert await offered() == ["Hour"]

    await choose("From one day to another")
    today = datetime.now().astimezone().date()
    begin = (today - timedelta(days=3)).isoformat()
    await shown.get_by_label("From", exact=True).fill(begin)
    await shown.get_by_label("To", exact=True).fill((today - timedelta(days=2)).isoformat())
    async with shown.expect_download() as saved:
        await shown.get_by_role("button", name="CSV: Tokens").click()
    rows = (await (await saved.value).path()).read_text("utf-8").splitlines()[1:]
    assert rows
    days = {begin, (today - timedelta(days=2)).isoformat()}
    assert {row[:10] for row in rows} <= days

    await shown.get_by_label("From", exact=True).fill(today.isoformat())
    await expect(shown.get_by_role("alert")).to_contain_text("Choose a first day")
    await shown.context.close()


async def test_figures_are_updated_without_a_reload_and_an_opened_table_stays_open(
    browser: Browser, address: str
) -> None:
    shown = await opened(browser, address + STATISTICS, size=WIDE, theme="light")
    await expect(shown.locator(".nc-chart svg")).to_have_count(5)
    await shown.get_by_label("Table: Messages and turns").first.click()
    table = shown.locator(".nc-chart-card table").first
    await expect(table).to_be_visible()
    tile = shown.locator(".nc-tiles .nc-card").filter(has_text="Messages of people")
    number = tile.locator(".nc-tile-value")
    before = int((await number.inner_text()).replace(",", ""))
    await shown.evaluate("document.querySelector('.nc-chart-card table').id = 'the-same'")
    async with httpx.AsyncClient(trust_env=False, base_url=address) as web:
        assert (await web.post("/test/say", params={"text": "hello"})).is_success
    await expect(number).not_to_have_text(f"{before:,}", timeout=30_000)
    assert await shown.locator("#the-same").count() == 1
    await shown.context.close()


@pytest.mark.slow
async def test_the_csv_file_has_the_rows_of_the_chart(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    shown = await opened(browser, address + STATISTICS, size=WIDE, theme="dark")
    async with shown.expect_download() as saved:
        await shown.get_by_role("button", name="CSV: Tokens").click()
    file = tmp_path / "tokens.csv"
    await (await saved.value).save_as(file)
    first, *rows = file.read_text("utf-8").splitlines()
    assert first.startswith("start,messages,sent,turns,errors,requests,prompt_tokens")
    assert rows
    await shown.context.close()


async def test_the_first_page_shows_the_figures_of_today_and_the_first_steps_of_an_operator(
    browser: Browser, address: str
) -> None:
    shown = await opened(browser, address + "/ui/console", size=WIDE, theme="light")
    await expect(shown.get_by_text("Messages of people")).to_be_visible()
    steps = shown.locator(".nc-home-steps li")
    await expect(steps).to_have_count(4)
    await expect(steps.filter(has_text="Talk to the bot")).to_contain_text("done")
    await expect(steps.filter(has_text="Set your password")).not_to_contain_text("done")
    await steps.filter(has_text="Choose a model").get_by_role("link").click()
    await shown.wait_for_url("**/ui/console/models")
    await shown.context.close()
