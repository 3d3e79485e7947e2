"""An operator changes the settings in a real browser, and each change takes effect."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from nekro_core.system.atomic_files import write_whole
from tests.console.process import running_console

pytestmark = [pytest.mark.browser, pytest.mark.long]

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PROGRAM = "tests.console.serve_settings"
ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


async def opened(browser: Browser, address: str, role: str = "owner") -> Page:
    context = await browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
    context.set_default_timeout(30_000)
    await context.add_cookies([{"name": "role", "value": role, "url": address}])
    page = await context.new_page()
    await page.goto(f"{address}/ui/console/settings")
    await page.wait_for_load_state("networkidle")
    return page


def card(page: Page, name: str) -> Locator:
    return page.locator(f'[data-setting="{name}"]')


async def find(page: Page, name: str) -> Locator:
    await page.get_by_label("Find by name or description").fill(name)
    found = card(page, name)
    await found.wait_for()
    return found


async def value(address: str, name: str) -> object:
    async with httpx.AsyncClient(trust_env=False) as client:
        url = f"{address}/api/v1/operator/settings/one"
        answer = await client.get(url, params={"setting": name})
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]["value"]


async def test_an_owner_changes_settings_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("NEKRO_TRIGGER__DEBOUNCE_S=0.5\n")
    async with running_console(tmp_path, PROGRAM) as address:
        page = await opened(browser, address)
        alerts: list[str] = []
        page.on("dialog", lambda dialog: alerts.append(dialog.message))

        # The persona is changed, takes effect, and the change is undone.
        persona = await find(page, "agent.persona")
        await persona.get_by_role("button", name="Change").click()
        await persona.get_by_role("textbox").fill(ATTACK)
        await persona.get_by_role("button", name="Save").click()
        await expect(persona.locator(".nc-setting-value")).to_have_text(ATTACK)
        assert await value(address, "agent.persona") == ATTACK
        assert ATTACK in (tmp_path / "data" / "settings.toml").read_text()
        await page.get_by_role("button", name="Undo").click()
        await expect(persona.locator(".nc-setting-value")).to_have_text("(empty)")
        assert await value(address, "agent.persona") == ""

        # A wrong value gets the error message of the settings file, and the typed text stays.
        steps = await find(page, "agent.turn.max_steps")
        await steps.get_by_role("button", name="Change").click()
        await steps.get_by_role("textbox").fill("1000")
        await steps.get_by_role("button", name="Save").click()
        problem = steps.get_by_role("alert")
        await expect(problem).to_contain_text("agent.turn.max_steps: ")
        await expect(problem).to_contain_text("settings.toml, line")
        await expect(steps.get_by_role("textbox")).to_have_value("1000")
        await steps.get_by_role("button", name="Cancel").click()
        assert await value(address, "agent.turn.max_steps") == 10

        # A setting that .env sets is locked until its line is moved to the settings file.
        locked = await find(page, "trigger.debounce_s")
        await expect(locked).to_contain_text("NEKRO_TRIGGER__DEBOUNCE_S in .env")
        await expect(locked.get_by_role("button", name="Change")).to_have_count(0)
        await locked.get_by_role("button", name="Move to settings.toml").click()
        await locked.get_by_role("button", name="Change").wait_for()
        assert "debounce_s = 0.5" in (tmp_path / "data" / "settings.toml").read_text()

        # A secret is never shown again.
        key = await find(page, "llm.api_key")
        await key.get_by_role("button", name="Change").click()
        await key.get_by_label("New value").fill("sk-hidden-1")
        await key.get_by_role("button", name="Save").click()
        await expect(key).to_contain_text("A value is set. It is not shown.")
        assert "sk-hidden-1" not in await page.content()
        assert alerts == []


@pytest.mark.slow
async def test_the_second_of_two_people_who_change_a_setting_is_warned_and_keeps_the_typed_text(
    browser: Browser, tmp_path: Path
) -> None:
    async with running_console(tmp_path, PROGRAM) as address:
        one, other = await opened(browser, address), await opened(browser, address)
        for page, text in ((one, "cat"), (other, "dog")):
            persona = await find(page, "agent.persona")
            await persona.get_by_role("button", name="Change").click()
            await persona.get_by_role("textbox").fill(text)
        await card(one, "agent.persona").get_by_role("button", name="Save").click()
        told = card(other, "agent.persona").get_by_role("alert")
        await expect(told).to_contain_text("It is now: cat")
        await expect(card(other, "agent.persona").get_by_role("textbox")).to_have_value("dog")
        await card(other, "agent.persona").get_by_role("button", name="Save").click()
        await expect(told).to_contain_text("it is 'cat' now")
        assert await value(address, "agent.persona") == "cat"


async def test_the_bot_is_restarted_and_a_broken_file_is_named(
    browser: Browser, tmp_path: Path
) -> None:
    async with running_console(tmp_path, PROGRAM) as address:
        page = await opened(browser, address)
        port = await find(page, "port")
        await port.get_by_role("button", name="Change port", exact=True).click()
        await port.get_by_role("textbox").fill("8123")
        await port.get_by_role("button", name="Save").click()
        await expect(page.locator(".nc-main")).to_contain_text("wait for a restart: port")
        await page.get_by_role("button", name="Restart now").click()
        async with page.expect_event("load", timeout=60_000):
            await page.locator(".nc-dialog").get_by_role("button", name="Restart now").click()
        await page.get_by_label("Find by name or description").wait_for()
        await expect(page.locator(".nc-main")).not_to_contain_text("wait for a restart")

        write_whole(tmp_path / "data" / "settings.toml", b"[agent.turn]\nmax_steps = 1000\n")
        broken = page.locator(".nc-settings-problem")
        await expect(broken).to_contain_text("settings.toml, line 2: agent.turn.max_steps")


@pytest.mark.slow
async def test_an_operator_reads_the_settings_and_changes_none(
    browser: Browser, tmp_path: Path
) -> None:
    async with running_console(tmp_path, PROGRAM) as address:
        page = await opened(browser, address, "operator")
        persona = await find(page, "agent.persona")
        await expect(persona.get_by_role("button")).to_have_count(0)
        await expect(page.locator(".nc-main")).to_contain_text("Only an owner changes settings.")
