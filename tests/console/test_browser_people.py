"""Owners invite people, make backups and read the log in a real browser, behind the real guard."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from nekro_core.operator.roles import AccessRole
from tests.console.fill_people import PASSWORD, SCRIPT_NAME
from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    """The address of a site with logins."""
    folder = tmp_path_factory.mktemp("site")
    async with running_console(folder, "tests.console.serve_site") as running:
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


async def logged_in(
    browser: Browser, address: str, page: str, role: AccessRole = AccessRole.OWNER
) -> Page:
    """A page of the console that a person with this role opened. If a script opens a dialog, the
    test fails."""
    context = await browser.new_context(locale="en-US", viewport={"width": 1280, "height": 860})
    context.set_default_timeout(20_000)
    answer = await context.request.post(
        f"{address}/login", form={"name": role.value, "password": PASSWORD}
    )
    assert answer.ok
    shown = await context.new_page()
    shown.on("dialog", lambda _: pytest.fail("a script of somebody's text ran"))
    await shown.goto(f"{address}/ui/console/{page}")
    await shown.wait_for_load_state("networkidle")
    return shown


async def test_an_owner_invites_a_person_who_chooses_a_password(
    browser: Browser, address: str
) -> None:
    shown = await logged_in(browser, address, "people")
    await expect(shown.get_by_text(SCRIPT_NAME)).to_be_visible()
    await shown.get_by_text("Invite a person").click()
    await shown.get_by_label("Name", exact=True).fill("Lin")
    await shown.get_by_role("button", name="Make the link").click()
    link = await shown.get_by_label("Link for Lin").input_value()
    assert link.startswith(f"{address}/join?token=")
    await expect(shown.get_by_role("img", name="Link for Lin")).to_be_visible()
    await shown.get_by_role("button", name="I have kept it").click()
    await expect(shown.locator("article").last).to_contain_text("invited")
    guest = await (await browser.new_context(locale="en-US")).new_page()
    await guest.goto(link)
    await guest.locator("input[type=password]").first.fill("a password of my own")
    await guest.keyboard.press("Enter")
    await guest.wait_for_url("**/ui/**")
    await guest.context.close()
    await expect(shown.locator("article").last).to_contain_text("active")
    await shown.context.close()


async def test_a_person_makes_a_token_that_is_shown_once_and_logs_out(
    browser: Browser, address: str
) -> None:
    shown = await logged_in(browser, address, "account", AccessRole.VIEWER)
    await expect(shown.get_by_text("this browser")).to_be_visible()
    await shown.get_by_text("New API token").click()
    await shown.get_by_label("What it is for").fill("statistics")
    await shown.get_by_label("Scopes: what it may do").fill("logs:read")
    await shown.keyboard.press("Enter")
    await shown.get_by_role("button", name="Make token").click()
    secret = await shown.get_by_label("Your new API token").input_value()
    reading = await shown.request.get(
        f"{address}/api/v1/operator/logs/level", headers={"Authorization": f"Bearer {secret}"}
    )
    assert reading.ok
    await shown.get_by_role("button", name="I have kept it").click()
    await expect(shown.get_by_label("Your new API token")).to_have_count(0)
    await expect(shown.locator("article", has_text="statistics")).to_be_visible()
    assert secret not in await shown.content()
    await shown.get_by_label("Colours and language").click()
    # The page has such a button too, so do not click before the menu is open.
    await shown.locator(".q-menu").get_by_text("Log out", exact=True).click()
    await shown.wait_for_url("**/logout")
    refused = await shown.request.get(f"{address}/ui/console/account")
    assert refused.status == 401
    await shown.context.close()


async def test_an_open_page_shows_the_login_when_its_session_was_ended(
    browser: Browser, address: str
) -> None:
    shown = await logged_in(browser, address, "people", AccessRole.OWNER)
    other = await logged_in(browser, address, "account", AccessRole.OWNER)
    await expect(other.get_by_text(re.compile(r"Chrome \d+, Linux")).first).to_be_visible()
    await other.get_by_label("Your present password").first.fill(PASSWORD)
    await other.get_by_label("New password").fill(PASSWORD)
    await other.get_by_role("button", name="Change password").click()
    await expect(other.get_by_text("The password is set.")).to_be_visible()
    # The browser that changed the password stays logged in. The other one shows the login without a
    # reload.
    await expect(shown.get_by_role("heading", name="Log in")).to_be_visible()
    await other.reload()
    await expect(other.get_by_text("this browser")).to_be_visible()
    await shown.context.close()
    await other.context.close()


@pytest.mark.slow
async def test_a_lost_connection_is_reported_and_typed_text_stays(
    browser: Browser, address: str
) -> None:
    shown = await logged_in(browser, address, "account", AccessRole.VIEWER)
    await shown.get_by_label("Name", exact=True).fill("typed before")
    await shown.context.set_offline(True)
    await shown.evaluate("window.socket.io.engine.close()")
    notice = shown.get_by_text("No connection. Trying again")
    await expect(notice).to_be_visible()
    await shown.context.set_offline(False)
    # The page tries again every few seconds, and waits longer after each time.
    await expect(notice).to_be_hidden(timeout=30_000)
    await expect(shown.get_by_label("Name", exact=True)).to_have_value("typed before")
    await shown.context.close()


async def test_a_backup_is_made_downloaded_uploaded_and_its_restore_prepared(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    shown = await logged_in(browser, address, "backups")
    await shown.get_by_role("button", name="Make a backup").click()
    await expect(shown.get_by_text("The backup was made and checked.")).to_be_visible()
    async with shown.expect_download() as coming:
        await shown.get_by_role("link", name="Download").click()
    file = tmp_path / "backup.zip"
    await (await coming.value).save_as(file)
    await shown.get_by_text("Upload a backup").click()
    await shown.locator("input[type=file]").set_input_files(file)
    await expect(shown.get_by_text("The backup was uploaded and checked.")).to_be_visible()
    await expect(shown.get_by_text("uploaded-")).to_be_visible()
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(file.read_bytes()[:2000])
    await shown.locator("input[type=file]").set_input_files(damaged)
    await expect(shown.get_by_role("alert")).to_be_visible()
    await expect(shown.get_by_role("alert")).not_to_contain_text(".coming")
    await shown.get_by_role("alert").get_by_label("Close").click()
    row = shown.locator("article", has_text="uploaded-")
    await row.get_by_role("button", name="Restore…").click()
    await expect(shown.get_by_text("The present data folder is not deleted")).to_be_visible()
    await shown.get_by_role("button", name="Prepare the restore").click()
    await expect(shown.get_by_text("Restore at the next start")).to_be_visible()
    await shown.get_by_role("button", name="Do not restore").click()
    await expect(shown.get_by_text("Restore at the next start")).to_have_count(0)
    await row.get_by_role("button", name="Delete").click()
    await shown.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(shown.get_by_text("uploaded-")).to_have_count(0)
    await shown.context.close()


async def test_the_log_is_filtered_and_shows_scripts_and_terminal_codes_as_text(
    browser: Browser, address: str
) -> None:
    shown = await logged_in(browser, address, "logs")
    log = shown.get_by_role("log")
    await expect(log).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(log).to_contain_text("␛[31mred␛[0m and <U+202E>txt.exe")
    await expect(log).to_contain_text('KeyError: "sun"')
    await shown.get_by_label("Plugin (its key)").fill("weather")
    await expect(log).not_to_contain_text("onerror")
    await expect(log).to_contain_text("the forecast failed")
    await shown.get_by_label("Turn (its number)").fill("7")
    await expect(log).to_contain_text("No line matches")
    await shown.get_by_label("Turn (its number)").fill("seven")
    await expect(shown.get_by_role("alert")).to_contain_text("expected the number of a turn")
    await shown.context.close()
