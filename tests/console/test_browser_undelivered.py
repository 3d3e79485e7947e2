"""In a browser, an operator sends an undelivered message again and drops another one."""

from pathlib import Path

import anyio
import httpx
import pytest
from playwright.async_api import expect

from tests.console.browsing import browsing
from tests.peers.onebot_v11 import Failed, OneBotPeer

pytestmark = [pytest.mark.browser, pytest.mark.long]

EVIL = "<img src=x onerror=alert(1)>"
TOKEN = "a token of the test's account"
CHAT = "onebot_v11.20009-group_61001"


async def test_refused_messages_say_why_and_are_sent_again_or_dropped(tmp_path: Path) -> None:
    async with browsing(tmp_path, "undelivered", data=["platforms"]) as page:
        address = page.url.partition("/ui/")[0]
        base = f"{address}/api/v1/operator"
        async with httpx.AsyncClient(trust_env=False, base_url=base) as api:
            settings = {"account": "20009", "access_token": TOKEN}
            given = {"platform": "onebot_v11", "settings": settings}
            with anyio.fail_after(20):  # this waits until the test bot has made its data
                while not (await api.post("/platforms/add_account", json=given)).is_success:
                    await anyio.sleep(0.2)
            url = f"{address.replace('http', 'ws')}/onebot/v11/ws"
            async with OneBotPeer("20009", TOKEN, url, has_history=False) as peer:
                await peer.wait_connected()
                await peer.say_in_group(61001, 10001, "nobody answers this")
                with anyio.fail_after(20):
                    while not (await api.get("/chats/one", params={"chat_key": CHAT})).is_success:
                        await anyio.sleep(0.1)
                peer.answer("send", *(Failed(120, f"muted {EVIL}"),) * 2)
                for text in (f"first {EVIL}", "second"):
                    said = await api.post("/chats/say", json={"chat_key": CHAT, "text": text})
                    assert said.is_success, said.text
                    await peer.next_send()
                first = page.locator("article").filter(has_text=f"first {EVIL}")
                second = page.locator("article").filter(has_text="second")
                await expect(first).to_contain_text("refused")  # the row appears without a reload
                await expect(first).to_contain_text(f"muted {EVIL}")
                assert await first.locator("img").count() == 0

                await first.get_by_role("button", name="Send again").click()
                assert (await peer.next_send()).text == f"first {EVIL}"
                await expect(first).to_have_count(0)
                await second.get_by_role("button", name="Do not send").click()
                await expect(second).to_have_count(0)
                await page.get_by_role("button", name="All", exact=True).click()
                await expect(first.first).to_contain_text("sent")
                await expect(second).to_contain_text("dropped")
                await second.get_by_role("link", name=CHAT).click()
                await expect(page.get_by_label("Search in this chat")).to_be_visible()


@pytest.mark.slow
async def test_a_bot_that_delivered_everything_says_so_and_a_viewer_gets_no_buttons(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path, "undelivered", role="viewer", data=["turns"]) as page:
        await expect(page.locator("article")).not_to_have_count(0)
        assert await page.locator("article button").count() == 0
    (tmp_path / "other").mkdir()
    async with browsing(tmp_path / "other", "undelivered") as page:
        await expect(page.get_by_text("Everything was delivered.")).to_be_visible()
