"""An operator answers requests, bans people and writes to several chats in a browser."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM, NARROW, opened
from tests.peers.onebot_v11 import OneBotPeer

pytestmark = [pytest.mark.browser, pytest.mark.long]

HTML = "<img src=x onerror=alert(1)>"
TOKEN = "a token of the test's account"


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    """The address of a running console, whose bot has the OneBot account 20009."""
    async with (
        running_console(tmp_path_factory.mktemp("bot"), data=["platforms"]) as running,
        httpx.AsyncClient(trust_env=False, base_url=f"{running}/api/v1/operator") as api,
    ):
        settings = {"account": "20009", "access_token": TOKEN}
        given = {"platform": "onebot_v11", "settings": settings}
        with anyio.fail_after(60):  # this waits until the test bot has made its data
            while not (await api.post("/platforms/add_account", json=given)).is_success:
                await anyio.sleep(0.05)
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


@pytest.fixture
async def peer(address: str) -> AsyncIterator[OneBotPeer]:
    url = f"{address.replace('http', 'ws')}/onebot/v11/ws"
    async with OneBotPeer("20009", TOKEN, url, has_history=False) as connected:
        await connected.wait_connected()
        yield connected


@pytest.fixture
async def page(browser: Browser, address: str) -> AsyncIterator[Page]:
    """The page in a window as small as that of a telephone."""
    shown = await opened(browser, address + "/ui/console/requests", size=NARROW, theme="dark")
    yield shown
    await shown.context.close()


def asked(user: int, **more: Any) -> dict[str, Any]:
    event = {"post_type": "request", "self_id": 20009, "time": 1_800_000_000, "user_id": user}
    return {**event, **more}


async def serious_problems(page: Page) -> list[str]:
    found = await Axe().run(page)
    return [
        f"{each['id']}: {[node['failureSummary'] for node in each['nodes'][:3]]}"
        for each in found.response["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


async def test_requests_appear_without_a_reload_and_are_refused_and_approved(
    page: Page, peer: OneBotPeer
) -> None:
    alerts: list[str] = []
    page.on("dialog", lambda shown: alerts.append(shown.message))
    await peer.emit(asked(50001, request_type="friend", flag="f9", comment=HTML))
    await peer.emit(asked(50002, request_type="group", sub_type="add", group_id=30009, flag="g9"))
    friend = page.locator(".nc-request").filter(has_text="50001 asks to be a friend")
    await expect(friend).to_contain_text(HTML)

    await page.get_by_role("button", name="Refuse: 50001").click()
    await page.get_by_label("Reason (may be empty)").fill("who are you?")
    await page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
    call = await peer.next_call("set_friend_add_request")
    assert (call.params["flag"], call.params["approve"]) == ("f9", False)
    await expect(friend).to_have_count(0)

    await page.get_by_role("button", name="Approve: 50002").click()
    call = await peer.next_call("set_group_add_request")
    assert (call.params["flag"], call.params["approve"]) == ("g9", True)

    await page.get_by_role("button", name="All").click()
    await expect(friend).to_contain_text("Reason: who are you?")
    assert alerts == []


async def test_a_request_that_was_answered_elsewhere_is_removed_from_the_list(
    page: Page, peer: OneBotPeer
) -> None:
    await peer.emit(asked(50004, request_type="friend", flag="f10"))
    friend = page.locator(".nc-request").filter(has_text="50004 asks to be a friend")
    peer.calls.clear()
    await page.get_by_role("button", name="Take off the list: 50004").click()
    await expect(friend).to_have_count(0)
    await page.get_by_role("button", name="Undo").last.click()
    await expect(friend).to_have_count(1)
    assert [call for call in peer.calls if "request" in call.action] == []
    await expect(page.get_by_text("These platforms hand over requests: ")).to_contain_text(
        "onebot_v11"
    )


@pytest.mark.slow
async def test_a_person_is_banned_and_the_ban_ends(page: Page) -> None:
    await page.get_by_role("tab", name="Banned").click()
    await page.get_by_label("Platform", exact=True).fill("a:b")
    await page.get_by_label("The person's id on the platform").fill("50003")
    await page.get_by_role("button", name="Ban", exact=True).click()
    await expect(page.locator(".nc-toast-bad")).to_contain_text("expected an adapter or instance")
    await page.get_by_label("Platform", exact=True).fill("onebot_v11")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("50003 is banned.")).to_be_visible()
    assert await serious_problems(page) == []

    banned = page.locator(".nc-banned").filter(has_text="50003")
    await page.get_by_role("button", name="End the ban: 50003").click()
    await expect(banned).to_have_count(0)
    await page.get_by_role("button", name="Undo").last.click()
    await expect(banned).to_have_count(1)


async def test_a_message_goes_to_the_chosen_chats_and_can_be_stopped_and_continued(
    page: Page, peer: OneBotPeer
) -> None:
    for user in (61001, 61002, 61003):
        await peer.say_in_private(user, "hello")
    await page.get_by_role("tab", name="Broadcasts").click()
    await page.get_by_label("Message", exact=True).fill("We are back.")
    await page.get_by_label("Find chats by name or key").fill("6100")
    choices = page.locator(".nc-chooser-row")
    await expect(choices).to_have_count(3)
    await page.get_by_role("button", name="Choose all that match").click()
    await expect(page.get_by_text("Chosen chats: 3")).to_be_visible()
    await page.get_by_role("button", name="Remove name of 61003 from the choice").click()
    await expect(page.get_by_text("Chosen chats: 2")).to_be_visible()
    assert await serious_problems(page) == []

    await page.get_by_label("Chats per minute").fill("0.5")
    await page.get_by_role("button", name="Send", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Send this to 2 chats? It takes about 2 min.")
    await dialog.get_by_role("button", name="Send").click()
    first = await peer.next_send()
    assert first.text == "We are back."
    card = page.locator(".nc-broadcast").first
    await expect(card).to_contain_text("1 of 2 chats")
    await card.get_by_role("button", name="Cancel").click()
    await expect(card).to_contain_text("cancelled")

    await card.get_by_role("button", name="Send the rest").click()
    second = await peer.next_send()
    assert {call.params["user_id"] for call in (first, second)} == {61001, 61002}
    await expect(card).to_contain_text("2 of 2 chats")
    await card.get_by_text("Result in each chat").click()
    await expect(card.get_by_text("onebot_v11.20009-private_61001")).to_be_visible()
    await expect(card.locator(".nc-badge-good")).to_have_count(3)
