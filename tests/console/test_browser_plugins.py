"""An operator installs, configures, tries, updates and removes a plugin in a browser."""

import json
import os
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.acceptance import time_limit
from tests.console.fill_plugins import EVIL
from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM
from tests.plugins.world import plugin_source

pytestmark = [pytest.mark.browser, pytest.mark.long]

WEATHER = "/ui/console/plugins/local/weather"
CHECK_MS = time_limit(PluginSettings()) * 1000
"""How long the bot itself lets a check of a plugin run. The check starts a whole bot in a separate
process. This takes 5 s of a processor, and much longer if other programs use the processors."""


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    place = tmp_path / "bot"
    place.mkdir()
    return place


@pytest.fixture
async def address(folder: Path) -> AsyncIterator[str]:
    async with running_console(folder, data=["plugins"]) as running:
        yield running


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


async def opened(browser: Browser, address: str, *, role: str = "owner", width: int = 1280) -> Page:
    context = await browser.new_context(viewport={"width": width, "height": 900}, locale="en-US")
    await context.add_cookies([{"name": "role", "value": role, "url": address}])
    context.set_default_timeout(30_000)
    page = await context.new_page()

    async def alert(dialog: object) -> None:
        raise AssertionError(f"a text was carried out as a script: {dialog}")

    page.on("dialog", alert)
    await page.goto(address)
    await page.wait_for_selector(".nc-main")
    return page


async def shows(card: Locator, text: str) -> None:
    """Wait until the card of a plugin has the text."""
    await expect(card.get_by_text(text, exact=True).first).to_be_visible(timeout=CHECK_MS)
    await expect(card).to_have_count(1)


async def test_a_plugin_is_uploaded_updated_rolled_back_and_removed(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    def write(version: str, more: str = "") -> None:
        source = plugin_source("cup", "shake", more=more)
        work = tmp_path / "cup"
        work.mkdir(exist_ok=True)
        (work / "__init__.py").write_text(source.replace('"1", "ann"', f'"{version}", "ann"'))

    write("1")
    packed = tmp_path / "cup.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(tmp_path / "cup" / "__init__.py", "cup/__init__.py")
    page = await opened(browser, address + "/ui/console/plugins")
    await page.get_by_text("Install a plugin").click()
    await page.locator("input[type=file]").set_input_files(packed)
    question = page.get_by_role("dialog")
    await expect(question.get_by_text("What its code may do")).to_be_visible(timeout=CHECK_MS)
    await expect(question.get_by_text("shake", exact=True)).to_be_visible()
    await question.get_by_role("button", name="Install").click()
    card = page.locator("article", has_text="ann.cup")
    await shows(card, "loaded")

    write("2", more="import subprocess\n")
    await page.get_by_label("Git address").fill(str(tmp_path / "cup"))
    await page.get_by_role("button", name="See what it may do").first.click()
    await expect(question.get_by_text("installed now: 1")).to_be_visible(timeout=CHECK_MS)
    await expect(
        question.get_by_text("starts programs on this machine (subprocess)", exact=True)
    ).to_be_visible()
    await question.get_by_role("button", name="Update").click()
    await shows(card, "2")
    await card.get_by_role("button", name="Go back").click()
    await question.get_by_role("button", name="Go back to this").click()
    await shows(card, "1")
    # The cards of the other plugins are not drawn again, so that a press on their buttons counts.
    other = page.locator("article", has_text="nekro.chat").get_by_role("button", name="Disable")
    button = await other.element_handle()
    await card.get_by_role("button", name="Disable").click()
    await shows(card, "disabled")
    assert await button.evaluate("(button) => button.isConnected")
    await page.locator(".nc-toast", has_text="is disabled").get_by_text("Undo").click()
    await shows(card, "loaded")

    write("3", more="\nraise RuntimeError('no luck')\n")
    await page.get_by_role("button", name="See what it may do").first.click()
    await expect(question.get_by_text("no luck").first).to_be_visible(timeout=CHECK_MS)
    await expect(question.get_by_role("button", name="Update")).to_be_disabled()
    await question.get_by_role("button", name="Not now").click()

    await card.get_by_role("button", name="Remove").click()
    await expect(question.get_by_text("local/cup")).to_be_visible()
    await question.get_by_role("button", name="Remove").click()
    await expect(card).to_have_count(0)
    await page.context.close()


@pytest.mark.slow
async def test_an_index_of_plugins_is_read_and_its_wrong_entries_are_reported(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    (tmp_path / "cup.py").write_text(plugin_source("cup", "shake"))
    index = tmp_path / "index.json"
    index.write_text(
        json.dumps(
            [
                {"name": f"Cup {EVIL}", "source": "cup.py", "description": "Shakes."},
                {"name": "No source"},
            ]
        )
    )
    page = await opened(browser, address + "/ui/console/plugins")
    await page.get_by_text("Install a plugin").click()
    field = page.get_by_label("Address of an index")
    await field.fill(str(tmp_path / "nothing.json"))
    await page.get_by_role("button", name="Read the index").click()
    await expect(page.get_by_text("expected an http or https address, or a .json")).to_be_visible()
    await field.fill(str(index))
    await page.get_by_role("button", name="Read the index").click()
    await expect(page.get_by_text("entry 2: source: Field required")).to_be_visible()
    row = page.locator("article", has_text=f"Cup {EVIL}")
    await row.get_by_role("button", name="See what it may do").click()
    question = page.get_by_role("dialog")
    await expect(question.get_by_text("Install cup?")).to_be_visible(timeout=CHECK_MS)
    await question.get_by_role("button", name="Not now").click()
    await expect(question).to_have_count(0)
    await expect(field).to_have_value(str(index))
    await page.context.close()


@pytest.mark.slow
async def test_the_error_of_a_broken_plugin_is_shown_as_text_with_its_line(
    browser: Browser, address: str, folder: Path
) -> None:
    page = await opened(browser, address + "/ui/console/plugins")
    card = page.locator("article", has_text="local/broken")
    await expect(card.get_by_text("<b>no number</b>")).to_be_visible()
    await expect(card.get_by_text(f"{folder}/plugins/broken/__init__.py:7")).to_be_visible()
    await expect(page.get_by_role("link", name=f"Weather {EVIL}")).to_be_visible()
    broken = folder / "plugins" / "broken"
    text = (broken / "__init__.py").read_text().replace('int("<b>no number</b>")', "7")
    (broken / "__init__.py").write_text(text)
    await card.get_by_role("button", name="Reload").click()
    mended = page.locator("article", has_text="ann.broken")
    await shows(mended, "loaded")
    await mended.get_by_role("link").click()
    await page.wait_for_url(f"{address}/ui/console/plugins/local/broken")
    await page.get_by_role("link", name="All plugins").click()
    await page.wait_for_url(f"{address}/ui/console/plugins")
    await page.context.close()


async def test_a_plugins_form_reports_wrong_values_and_changes_of_others_and_keeps_typed_text(
    browser: Browser, address: str
) -> None:
    page = await opened(browser, address + WEATHER)
    await page.get_by_label("Hours").fill("500")
    await page.get_by_label("Key").first.fill("s3cret")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Input should be less than or equal to 240")).to_be_visible()
    await expect(page.get_by_label("Key").first).to_have_value("s3cret")
    await page.get_by_label("Hours").fill("48")
    await page.get_by_label("City").fill(EVIL)
    await page.get_by_role("button", name="Add").first.click()
    await page.get_by_label("Words").last.fill("fog")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".nc-toasts").get_by_text("uses the new values")).to_be_visible()
    await page.reload()
    await expect(page.get_by_label("Hours")).to_have_value("48")
    await expect(page.get_by_label("City")).to_have_value(EVIL)
    await expect(page.get_by_label("Words").last).to_have_value("fog")
    key = page.get_by_label("Key").first
    await expect(key).to_have_value("")
    await expect(key).to_have_attribute("placeholder", "set; leave this empty to keep it")
    assert "s3cret" not in await page.content()

    other = await opened(browser, address + WEATHER)
    await page.get_by_label("City").fill("Nara")
    await other.get_by_label("Hours").fill("12")
    await other.get_by_role("button", name="Save").click()
    await expect(other.locator(".nc-toasts").get_by_text("uses the new values")).to_be_visible()
    await expect(page.get_by_text("Somebody else has changed this")).to_be_visible()
    await expect(page.get_by_label("City")).to_have_value("Nara")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("was changed since this form was read: HOURS")).to_be_visible()
    await page.get_by_role("button", name="load the present values").click()
    await expect(page.get_by_label("Hours")).to_have_value("12")
    await page.context.close()
    await other.context.close()


@pytest.mark.slow
async def test_a_function_is_tried_in_a_chat_and_its_use_is_counted(
    browser: Browser, address: str
) -> None:
    page = await opened(browser, address + WEATHER)
    await page.get_by_role("tab", name="Functions").click()
    await expect(page.get_by_text("def forecast(city: str, days: int = 1)")).to_be_visible()
    await page.get_by_text("Try it").click()
    await page.get_by_label("city").fill("Kyoto")
    call = page.get_by_role("button", name="Call it")
    await call.click()
    await expect(page.get_by_text("choose one above")).to_be_visible()
    await page.get_by_label("Chat in which functions are tried").click()
    await page.get_by_role("option", name="fake-group_30003").click()
    await page.get_by_label("days").fill("3")
    await call.click()
    await expect(page.get_by_text(f"Kyoto: rain for 3 days {EVIL}")).to_be_visible()
    await page.get_by_label("city").fill("nowhere")
    await call.click()
    fault = page.locator(".nc-plugin-outcome")
    await expect(fault.get_by_text(f"LookupError: there is no weather in {EVIL}")).to_be_visible()
    await expect(fault.get_by_text("weather/__init__.py:")).to_be_visible()
    await page.get_by_role("tab", name="Use and cost").click()
    row = page.get_by_role("row", name="forecast")
    await expect(row.get_by_role("cell").nth(1)).to_have_text("2")
    await page.get_by_role("tab", name="Its own page").click()
    frame = page.frame_locator(".nc-plugin-frame")
    await expect(frame.get_by_role("heading", name="Weather map")).to_be_visible()
    await page.context.close()


@pytest.mark.slow
async def test_a_viewer_reads_and_changes_nothing(browser: Browser, address: str) -> None:
    page = await opened(browser, address + WEATHER, role="viewer")
    await expect(page.get_by_label("Hours")).to_be_disabled()
    for name in ("Save", "Reload", "Disable", "Remove", "Add"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
    await expect(page.get_by_role("tab", name="Its own page")).to_have_count(0)
    await page.get_by_role("tab", name="Functions").click()
    await expect(page.get_by_text("def forecast")).to_be_visible()
    await expect(page.get_by_text("Try it")).to_have_count(0)
    await page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_the_page_of_a_plugin_is_accessible(
    browser: Browser, address: str, width: int, theme: str
) -> None:
    page = await opened(browser, address + WEATHER, width=width)
    await page.emulate_media(color_scheme=theme)
    for tab in ("Configuration", "Functions", "Use and cost", "About", "Its own page"):
        await page.get_by_role("tab", name=tab).click()
        if tab == "Functions":
            await page.get_by_text("Try it").click()
            await expect(page.get_by_label("city")).to_be_visible()
        await page.wait_for_timeout(400)  # in this time Quasar's animation ends
        found = await Axe().run(page)
        serious = [
            f"{tab}: {each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found.response["violations"]
            if each["impact"] in {"serious", "critical"}
        ]
        assert serious == []
        overhang = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overhang <= 0, f"{tab}: {overhang} pixels wider than the window"
        if folder := os.environ.get("SCREENSHOTS"):
            name = f"plugin-{tab.split()[0].lower()}-{theme}-{width}.png"
            await page.screenshot(path=Path(folder) / name)
    await page.context.close()
