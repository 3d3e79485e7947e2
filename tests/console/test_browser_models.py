"""An operator looks at the models, tests an endpoint, and downloads a file for the embedded one."""

import hashlib
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.browsing import browsing
from tests.console.fill_models import EVIL
from tests.llm.embedded.hub_and_index import Site, serving
from tests.llm.embedded.test_library import FILE, MODEL
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

pytestmark = [pytest.mark.browser, pytest.mark.long]


def reply(asked: Asked) -> Reply:
    if asked.path.endswith("/models"):
        return Answer(status=404, error={"message": "no list"})
    return "1 2 3 4 5 6 7 8 9 10"


async def test_an_operator_tests_an_endpoint_before_it_is_saved(tmp_path: Path) -> None:
    async with (
        ScriptedModelServer(reply, api_key="sk-right") as server,
        browsing(tmp_path, "models") as page,
    ):
        await expect(page.get_by_text(EVIL, exact=True)).to_be_visible()
        await expect(
            page.get_by_text("0.15 / 0.6 USD per million tokens (published)")
        ).to_be_visible()
        await expect(page.get_by_text("2 / 8 per million tokens (your figure)")).to_be_visible()
        await page.get_by_role("button", name="Add a model").click()
        form = page.locator(".nc-models-form")
        await form.get_by_label("Provider").click()
        await page.get_by_role("option", name="OpenAI", exact=True).click()
        await expect(form.get_by_label("Address of the API")).to_have_value(
            "https://api.openai.com/v1"
        )
        await expect(form.get_by_text("Published by OpenAI")).to_be_visible()
        await form.get_by_role("button", name="Use these figures").click()
        await expect(form.get_by_label("Price of 1M prompt tokens")).not_to_have_value("")
        await form.get_by_label("Address of the API").fill("ftp://nowhere")
        await form.get_by_role("button", name="Test").click()
        await expect(form.get_by_text("expected an address such as")).to_be_visible()
        await form.get_by_label("Address of the API").fill(server.base_url)
        await form.get_by_label("Model", exact=True).fill("quick")
        await form.get_by_label("Key", exact=True).fill("sk-wrong")
        await form.get_by_role("button", name="Test").click()
        await expect(form.get_by_text("The model cannot be used like this.")).to_be_visible()
        await form.get_by_label("Key", exact=True).fill("sk-right")
        await form.get_by_role("button", name="Test").click()
        await expect(form.get_by_text("The model answers.")).to_be_visible()
        await expect(form.locator(".nc-models-line")).to_have_count(10)
        await form.get_by_label("Name of the group").fill("quick")
        await form.get_by_role("button", name="Save").click()
        await expect(form).to_have_count(0)
        added = page.locator("article", has=page.get_by_text(server.base_url))
        await expect(added.get_by_text("key set")).to_be_visible()
        await added.get_by_role("button", name="Change").click()
        await form.get_by_label("Model", exact=True).fill("quicker")
        await form.get_by_role("button", name="Save").click()
        await expect(added.get_by_text("quicker")).to_be_visible()
        await page.locator(".nc-toast").last.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("Taken back.")).to_be_visible()
        await expect(added.get_by_text("quicker")).to_have_count(0)
        await added.get_by_role("button", name="Remove").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(added).to_have_count(0)
        assert "sk-nobody-may-see-this" not in await page.content()


@pytest.mark.slow
async def test_a_choice_of_models_that_could_not_be_saved_is_not_shown_any_more(
    tmp_path: Path,
) -> None:
    async with browsing(tmp_path, "models") as page:
        card = page.locator("article", has=page.get_by_text("Quick", exact=True))
        choice = card.get_by_label("Models, in order")
        await choice.click()
        await page.get_by_role("option", name="fast", exact=True).click()
        await expect(page.get_by_text("The model was saved and is in use.")).to_be_visible()
        await page.keyboard.press("Escape")
        # The page has read the roles again.
        await expect(card.get_by_text("fast: gpt-4o-mini")).to_be_visible()
        (settings,) = [each for each in tmp_path.rglob("settings.toml") if each.is_file()]
        # The file cannot be written any more: a folder is where its new content would go.
        settings.with_name(f".{settings.name}.new").mkdir()
        await choice.click()
        await page.get_by_role("option", name="odd", exact=True).click()
        await expect(page.locator(".nc-toast").last).to_contain_text("settings.toml")
        await expect(card.locator(".q-chip")).to_have_count(1)
        await expect(card.locator(".q-chip")).to_contain_text("fast")


@pytest.mark.slow
async def test_a_model_file_is_downloaded_and_deleted_in_the_browser(tmp_path: Path) -> None:
    digest = hashlib.sha256(FILE).hexdigest()
    with serving(Site(hub_file=FILE, hub_sha256=digest)) as site:
        async with browsing(tmp_path, "models") as page:
            await page.get_by_text("Download another model").click()
            await page.get_by_label("Address of the file").fill(f"{site.url}{MODEL}")
            await page.get_by_role("button", name="Download", exact=True).click()
            await expect(page.get_by_text("small.gguf is here.")).to_be_visible()
            card = page.locator("article", has_text="small.gguf")
            await expect(card.get_by_text("fits into memory")).to_be_visible()
            await card.get_by_role("button", name="Delete").click()
            await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
            await expect(card).to_have_count(0)


@pytest.mark.slow
async def test_a_viewer_sees_models_and_changes_nothing(tmp_path: Path) -> None:
    async with browsing(tmp_path, "models", role="viewer") as page:
        await expect(page.get_by_text("gpt-4o-mini")).to_be_visible()
        for name in ("Add a model", "Change", "Remove", "Test", "Download"):
            await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
