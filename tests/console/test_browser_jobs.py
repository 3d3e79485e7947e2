"""A long action continues when its page is left. Every page shows the action and can cancel it."""

from collections.abc import AsyncIterator

import anyio
import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, async_playwright, expect

from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM, NARROW, opened
from tests.peers.silent_files import SilentFiles

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    async with running_console(tmp_path_factory.mktemp("bot"), data=["people"]) as running:
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


async def test_a_download_is_shown_on_every_page_and_can_be_cancelled_on_another_page(
    browser: Browser, address: str
) -> None:
    async with (
        SilentFiles() as files,
        httpx.AsyncClient(trust_env=False, base_url=f"{address}/api/v1/operator") as api,
    ):
        wanted = {"url": f"{files.address}/model.gguf"}
        answer = await api.post("/embedded/download", json=wanted)
        assert answer.status_code == 202, answer.text
        shown = await opened(browser, address + "/ui/console/logs", size=NARROW, theme="dark")
        for _ in range(2):
            await shown.get_by_role("button", name="Long actions, running: 1").click()
            row = shown.get_by_role("article", name="Download a model file")
            await expect(row).to_contain_text("running")
            await shown.reload()
        await shown.goto(address + "/ui/console/audit")
        await shown.get_by_role("button", name="Long actions, running: 1").click()
        # The test reads colours only after the list has faded in.
        await expect(row).to_be_visible()
        await shown.wait_for_function(
            "() => !document.getAnimations().some((each) => each instanceof CSSTransition)"
        )
        found = await Axe().run(shown)
        serious = [
            (each["id"], [node["html"] for node in each["nodes"]])
            for each in found.response["violations"]
            if each["impact"] in {"serious", "critical"}
        ]
        assert serious == []
        await shown.get_by_role("button", name="Cancel: Download a model file").click()
        await expect(row).to_contain_text("cancelled")
        with anyio.fail_after(20):
            while files.waiting:
                await anyio.sleep(0.02)
        await shown.context.close()


async def test_a_viewer_sees_running_actions_and_cannot_cancel_them(
    browser: Browser, address: str
) -> None:
    async with (
        SilentFiles() as files,
        httpx.AsyncClient(trust_env=False, base_url=f"{address}/api/v1/operator") as api,
    ):
        wanted = {"url": f"{files.address}/other.gguf"}
        job = (await api.post("/embedded/download", json=wanted)).json()
        shown = await opened(browser, address + "/ui/console", size=NARROW, theme="light")
        await shown.context.add_cookies([{"name": "role", "value": "viewer", "url": address}])
        await shown.reload()
        await shown.get_by_role("button", name="Long actions, running: 1").click()
        row = shown.get_by_role("article", name="Download a model file").first
        await expect(row).to_contain_text("running")
        await expect(
            shown.get_by_role("button", name="Cancel: Download a model file")
        ).to_have_count(0)
        await api.post("/jobs/cancel", json={"job_id": job["job_id"]})
        await shown.context.close()
