"""An operator connects, changes, pauses and removes accounts in a browser."""

from collections.abc import AsyncIterator

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM, WIDE, opened
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.long]

HTML = "<img/src=x/onerror=alert(1)>"
PLATFORMS = "/ui/console/platforms"


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    """The address of a running console, whose bot has a OneBot account 20002."""
    async with running_console(tmp_path_factory.mktemp("bot"), data=["platforms"]) as running:
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


@pytest.fixture
async def page(browser: Browser, address: str) -> AsyncIterator[Page]:
    shown = await opened(browser, address + PLATFORMS, size=WIDE, theme="light")
    yield shown
    await shown.context.close()


def account(page: Page, key: str) -> Locator:
    return page.get_by_role("article", name=key, exact=True)


async def add(page: Page, platform: str, **values: str) -> Locator:
    """Fill in the form of a new account, and send it. Returns the dialog."""
    await page.get_by_role("button", name=f"Add account: {platform}").click()
    dialog = page.get_by_role("dialog")
    for label, value in values.items():
        await dialog.get_by_label(label, exact=True).fill(value)
    await dialog.get_by_role("button", name="Add and connect").click()
    return page.get_by_role("dialog")


async def serious_problems(page: Page) -> list[str]:
    """The problems that axe finds in the open dialog. Contrasts are left out, because axe takes the
    dimmed page for the background of the buttons. The same buttons are checked outside dialogs."""
    without_contrasts = {"rules": {"color-contrast": {"enabled": False}}}
    found = await Axe().run(page, context=".nc-dialog", options=without_contrasts)
    return [
        f"{each['id']}: {[node['failureSummary'] for node in each['nodes'][:3]]}"
        for each in found.response["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


async def test_an_account_is_added_seen_paused_and_removed_on_the_page(
    page: Page, address: str
) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog = await add(page, "OneBot v11")
    await expect(dialog).to_contain_text("a reverse connection needs the account's number")
    await dialog.get_by_label("Account", exact=True).fill("20009")
    await dialog.get_by_role("button", name="Add and connect").click()

    await expect(dialog).to_contain_text("Waiting until the account is seen")
    assert await serious_problems(page) == []
    url = await dialog.get_by_label("URL", exact=True).input_value()
    assert url == f"{address.replace('http', 'ws')}/onebot/v11/ws"
    token = dialog.get_by_label("Token", exact=True)
    assert await token.get_attribute("type") == "password"
    await dialog.get_by_role("button", name="Copy: Token").click()
    await expect(page.get_by_text("Copied.")).to_be_visible()
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert len(copied) >= 32
    assert copied == await token.input_value()

    async with OneBotPeer("20009", copied, url) as peer:
        await expect(dialog).to_contain_text("The account is online.")
        await dialog.get_by_role("button", name="Close").click()
        card = account(page, "20009")
        await expect(card).to_contain_text("online")
        await peer.say_in_private(10001, "hello")
        await expect(card).to_contain_text("1 since the start")

        await card.get_by_role("button", name="Pause").click()
        await peer.wait_disconnected()
        await expect(card).to_contain_text("paused")
        await page.get_by_role("button", name="Undo").last.click()
        await peer.wait_connected()
        await expect(card).to_contain_text("online")

        await card.get_by_role("button", name="Change").click()
        await dialog.get_by_label("Access token", exact=True).fill("another token")
        await dialog.get_by_role("button", name="Change").click()
        await peer.wait_disconnected()
        await expect(card).to_contain_text("wrong or missing access token")

    async with OneBotPeer("20009", "another token", url) as peer:
        await peer.wait_connected()
        await card.get_by_role("button", name="Remove").click()
        await expect(page.get_by_role("dialog")).to_contain_text("Remove the account 20009?")
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await peer.wait_disconnected()
        await expect(card).to_have_count(0)


@pytest.mark.slow
async def test_a_connection_test_says_what_is_wrong_and_html_is_shown_as_text(page: Page) -> None:
    alerts: list[str] = []
    page.on("dialog", lambda shown: alerts.append(shown.message))
    await page.get_by_role("button", name="Add account: OneBot v11").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("combobox", name="Who connects").click()
    await page.get_by_role("option", name="forward").click()
    await dialog.get_by_label("Address", exact=True).fill(f"ws://127.0.0.1:{free_port()}")
    await dialog.get_by_role("button", name="Test the connection").click()
    await expect(dialog.locator(".nc-verdict")).to_contain_text("cannot be reached")
    assert await serious_problems(page) == []
    async with OneBotPeer("20010", "theirs") as peer:
        await dialog.get_by_label("Address", exact=True).fill(peer.address)
        await dialog.get_by_role("button", name="Test the connection").click()
        await expect(dialog.locator(".nc-verdict")).to_contain_text("refused")
        await dialog.get_by_label("Access token", exact=True).fill("theirs")
        await dialog.get_by_role("button", name="Test the connection").click()
        await expect(dialog.locator(".nc-verdict")).to_contain_text("account 20010 answers")
    await dialog.get_by_role("button", name="Close").click()

    dialog = await add(page, "OneBot v11", Account=HTML)
    await expect(dialog).to_contain_text(f"Connect {HTML} on OneBot v11")
    await dialog.get_by_role("button", name="Close").click()
    await expect(account(page, HTML)).to_contain_text(HTML)
    await account(page, HTML).get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(account(page, HTML)).to_have_count(0)
    assert alerts == []


async def test_a_platform_is_enabled_and_disabled_and_a_locked_account_is_only_paused(
    page: Page,
) -> None:
    await page.get_by_role("button", name="Enable: E-mail").click()
    mail = page.get_by_role("region", name="E-mail")
    await expect(mail).to_contain_text("No account yet.")
    await page.get_by_role("button", name="Disable: E-mail").click()
    await expect(page.get_by_role("button", name="Enable: E-mail")).to_be_visible()

    locked = account(page, "ws://127.0.0.1:1/")
    await expect(locked).to_contain_text("Set in ONEBOT_V11_WS_URLS")
    await expect(locked).to_contain_text("cannot be reached")
    assert await locked.get_by_role("button", name="Change").count() == 0
    assert await locked.get_by_role("button", name="Remove").count() == 0


async def test_a_viewer_sees_accounts_and_no_buttons(page: Page, address: str) -> None:
    await page.context.add_cookies([{"name": "role", "value": "viewer", "url": address}])
    await page.goto(address + PLATFORMS)
    await expect(account(page, "20002")).to_contain_text("online")
    assert await page.locator(".nc-main").get_by_role("button").count() == 0


@pytest.mark.parametrize(
    ("language", "words"), [("zh-CN", "已启用的平台"), ("ja-JP", "有効なプラットフォーム")]
)
async def test_the_page_is_shown_in_the_browsers_language(
    browser: Browser, address: str, language: str, words: str
) -> None:
    context = await browser.new_context(locale=language)
    shown = await context.new_page()
    await shown.goto(address + PLATFORMS)
    await expect(shown.get_by_role("heading", name=words)).to_be_visible()
    await context.close()
