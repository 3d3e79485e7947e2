"""The model starts a server in the chat's box and shares its preview, and a person opens it in a
real browser."""

import re
from pathlib import Path

import anyio
import httpx
import pytest
from playwright.async_api import async_playwright, expect

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.test_browser_page import ARGUMENTS, CHROMIUM, SLOW_MS, python
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = [pytest.mark.browser, pytest.mark.jail, pytest.mark.long]

SERVER = (Path(__file__).parents[1] / "sandbox" / "preview" / "box_server.py").read_text()
SHOW = f"""
from pathlib import Path

Path("server.py").write_text({SERVER!r})
workbench.shell("python3 server.py 8000 > log 2>&1 & for i in 1 2 3 4 5 6 7 8 9; "
                "do grep -q listening log && break; sleep 0.3; done")
send_channel_message("Here it is: " + workbench.browse(8000)["url"])
"""


async def said(bot: BotProcess, pattern: str) -> str:
    """Ask the bot in the lobby. Returns the first match of ``pattern`` in its messages."""
    headers = {"Authorization": f"Bearer {bot.token}"}
    async with httpx.AsyncClient(
        base_url=bot.address, headers=headers, trust_env=False, timeout=60
    ) as script:
        posted = await script.post(
            "/api/v1/rooms/group_Lobby/messages",
            json={"speaker": "lin", "text": "Show me a page, please", "to_bot": True},
        )
        assert posted.is_success, posted.text
        with anyio.fail_after(60):
            while True:
                answer = await script.get("/api/v1/rooms/group_Lobby/messages")
                if found := re.search(pattern, answer.text):
                    return found[0]
                await anyio.sleep(0.05)


async def test_a_preview_of_a_box_opens_in_a_browser(tmp_path: Path) -> None:
    async with ScriptedModelServer([python(SHOW)]) as model:
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
        }
        async with running_bot(tmp_path, **settings) as bot, async_playwright() as playwright:
            url = await said(bot, r"http://[a-z2-7]{32}\.preview\.localhost:\d+/")
            assert url.endswith(bot.address.rpartition(":")[2] + "/")
            chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            context = await chromium.new_context(locale="en-US")
            context.set_default_timeout(SLOW_MS)
            page = await context.new_page()

            await page.goto(url)
            await expect(page).to_have_title("In a box", timeout=SLOW_MS)
            await expect(page.locator("#said")).to_have_text("the box says hello", timeout=SLOW_MS)
            # The preview gets its own cookie and not the cookie of the bot's page.
            assert await page.evaluate("fetch('/cookies').then(a => a.text())") == "mine=1"
            reached = await page.evaluate(
                f"fetch('{bot.address}/api/v1/rooms').then(a => 'read', () => 'refused')"
            )
            assert reached == "refused"

            headers = {"Authorization": f"Bearer {bot.token}"}
            async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as script:
                link = (await script.post(f"{bot.address}/api/v1/links")).json()["url"]
            own = await context.new_page()
            await own.goto(link)
            await expect(own.get_by_text("Here it is:").first).to_be_visible(timeout=SLOW_MS)
            await page.reload()
            assert await page.evaluate("fetch('/cookies').then(a => a.text())") == "mine=1"

            # A host name without a preview gives 404 and does not lead to the bot's page.
            never = await own.goto(url.replace(url[7:39], "a" * 32) + "ui")
            assert never is not None
            assert never.status == 404
            await chromium.close()
