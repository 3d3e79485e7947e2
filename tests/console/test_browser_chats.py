"""An operator reads chats, sees why the bot answered, writes in its name and changes its
behaviour."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, Route, async_playwright, expect

from tests.console.fill_chats import EVIL
from tests.console.process import running_console
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM, NARROW, WIDE, opened

SERIOUS = ("serious", "critical")
pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
async def address(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[str]:
    """The address of a running console."""
    async with running_console(tmp_path_factory.mktemp("bot"), data=["chats"]) as running:
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


async def hear(address: str, text: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(f"{address}/test/say", params={"text": text})).raise_for_status()


async def the_group(browser: Browser, address: str, *, size: tuple[int, int] = WIDE) -> Page:
    place = f"{address}/ui/console/chats/fake-group_30003"
    return await opened(browser, place, size=size, theme="light")


@pytest.mark.slow
async def test_the_list_of_chats_is_searched_and_links_to_the_chat(
    browser: Browser, address: str
) -> None:
    shown = await opened(browser, f"{address}/ui/console/chats", size=WIDE, theme="light")
    await expect(shown.locator(".nc-chats-row").get_by_text("fake-group_30003")).not_to_have_count(
        0
    )
    await shown.get_by_label("Name, key or person").fill("fake-private_Lin")
    await expect(shown.locator(".nc-chats-row")).to_have_count(1)
    await shown.locator(".nc-chats-row").click()
    await shown.wait_for_url(f"{address}/ui/console/chats/fake-private_Lin")
    await expect(shown.locator(".nc-chat-history").get_by_text("hello")).to_be_visible()
    await shown.context.close()


@pytest.mark.slow
async def test_ten_thousand_chats_are_read_page_by_page_and_found(
    browser: Browser, tmp_path: Path
) -> None:
    async with running_console(tmp_path, data=["chats", "many"]) as address:
        shown = await opened(browser, f"{address}/ui/console/chats", size=WIDE, theme="light")
        rows = shown.locator(".nc-chats-row")
        await expect(rows).to_have_count(50)
        await shown.get_by_role("button", name="Show older ones").click()
        await expect(rows).to_have_count(100)
        await shown.get_by_label("Name, key or person").fill("fake-group_907777")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("message 7777")
        await shown.keyboard.press("Control+k")
        await expect(shown.get_by_placeholder("Find a page, chat")).to_be_focused()
        await shown.keyboard.type("group_904321")
        await expect(shown.locator(".nc-palette-found a")).to_have_count(1)
        await shown.keyboard.press("Enter")
        await shown.wait_for_url(f"{address}/ui/console/chats/fake-group_904321")
        await expect(shown.locator(".nc-chat-history")).to_contain_text("message 4321")
        await shown.context.close()


async def test_a_message_says_why_it_was_answered_and_html_is_shown_as_text(
    browser: Browser, address: str
) -> None:
    shown = await the_group(browser, address)
    shown.on("dialog", lambda _: pytest.fail("a person's text was executed"))
    await expect(shown.get_by_text("Answered: it calls the bot “Nekro”.").first).to_be_visible()
    await expect(shown.get_by_text("nothing in it calls the bot").first).to_be_visible()
    await expect(shown.locator(".nc-chat-history").get_by_text(EVIL).first).to_be_visible()
    picture = shown.locator("img.nc-chat-picture")
    await expect(picture).to_have_js_property("naturalWidth", 1)
    source = await shown.get_by_role("link", name="page.html").evaluate("link => link.href")
    answer = await shown.request.get(source)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    await shown.context.close()


async def test_a_recalled_message_is_shown_after_a_click_that_is_logged(
    browser: Browser, address: str
) -> None:
    shown = await the_group(browser, address)
    history = shown.locator(".nc-chat-history")
    await expect(history.get_by_text("Its content is hidden")).to_be_visible()
    await expect(shown.get_by_text("I should not have said that")).to_have_count(0)
    line = history.locator(".nc-chat-gone")
    await line.get_by_role("button", name="Look at it").click()
    await expect(line.get_by_text("I should not have said that")).to_be_visible()
    await expect(line.locator("img.nc-chat-picture")).to_have_js_property("naturalWidth", 1)
    await shown.goto(f"{address}/ui/console/audit")
    await expect(shown.get_by_text("chats.show_recalled").first).to_be_visible()
    await shown.context.close()


async def test_a_new_message_is_on_the_open_pages_at_once(browser: Browser, address: str) -> None:
    shown = await the_group(browser, address)
    listed = await opened(browser, f"{address}/ui/console/chats", size=WIDE, theme="light")
    await hear(address, "the newest words")
    await expect(shown.locator(".nc-chat-history").get_by_text("the newest words")).to_be_visible()
    await expect(listed.locator(".nc-chats-row").first).to_contain_text("the newest words")
    await shown.context.close()
    await listed.context.close()


async def test_a_new_message_is_scrolled_into_view_unless_the_person_reads_further_up(
    browser: Browser, address: str
) -> None:
    shown = await the_group(browser, address)
    for number in range(30):
        await hear(address, f"line {number}")
    history = shown.locator(".nc-chat-history")
    await expect(history.get_by_text("line 29", exact=True)).to_be_in_viewport()
    await history.evaluate("history => { history.scrollTop = 0; }")
    await hear(address, "words at the end")
    await expect(history.get_by_text("words at the end")).to_be_attached()
    assert await history.evaluate("history => history.scrollTop") == 0
    await shown.context.close()


async def test_a_message_that_arrived_while_the_page_loaded_is_shown(
    browser: Browser, address: str
) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-US")
    page, go_on = await context.new_page(), anyio.Event()

    async def hold(route: Route) -> None:
        await go_on.wait()
        await route.continue_()

    # The bot has sent the page, but the browser does not run its scripts yet.
    await page.route(re.compile(r"/_nicegui/.*\.js"), hold)
    await page.goto(f"{address}/ui/console/chats/fake-group_30003", wait_until="commit")
    await hear(address, "said in between")
    go_on.set()
    history = page.locator(".nc-chat-history")
    await expect(history.get_by_text("said in between")).to_have_count(1)
    await hear(address, "and said later")
    await expect(history.get_by_text("and said later")).to_have_count(1)
    await expect(history.get_by_text("said in between")).to_have_count(1)
    await context.close()


async def test_an_operator_speaks_as_the_bot(browser: Browser, address: str) -> None:
    shown = await the_group(browser, address)
    await shown.get_by_label("Say something as the bot").fill("I am <b>the operator</b>")
    await shown.get_by_role("button", name="Send").click()
    bubble = shown.locator(".nc-chat-line-bot").get_by_text("I am <b>the operator</b>")
    await expect(bubble).to_be_visible()
    await expect(shown.get_by_label("Say something as the bot")).to_have_value("")
    await shown.context.close()


async def test_the_second_of_two_people_who_save_is_told_of_the_change_and_keeps_what_they_typed(
    browser: Browser, address: str
) -> None:
    first, second = await the_group(browser, address), await the_group(browser, address)
    names = "Names of the bot here (with commas)"
    await second.get_by_label(names).fill("Rin")
    await first.get_by_label(names).fill("Mei, Nekro")
    await save(first, names)
    await expect(first.get_by_text("Saved, and in force.")).to_be_visible()
    await save(second, names)
    await expect(second.get_by_text("was changed meanwhile")).to_be_visible()
    await expect(second.get_by_label(names)).to_have_value("Rin")
    await first.get_by_role("button", name="Undo").click()
    await expect(first.get_by_text("Taken back.")).to_be_visible()
    await first.context.close()
    await second.context.close()


async def save(shown: Page, label: str) -> None:
    field = shown.locator(".nc-chat-field").filter(has=shown.get_by_label(label))
    await field.get_by_role("button", name="Save").click()


async def test_an_operator_sets_the_emoji_for_seen_messages_and_the_pace_of_the_bots_messages(
    browser: Browser, address: str
) -> None:
    shown = await the_group(browser, address)
    emoji = "Marks the messages that it answers with this emoji (empty: none)"
    pace = "Pace of several messages in a row, in characters per second (0: no pause)"
    await shown.get_by_label(emoji).fill("👀")
    await save(shown, emoji)
    await expect(shown.get_by_text("Saved, and in force.").first).to_be_visible()
    await shown.get_by_label(pace).fill("fast")
    await save(shown, pace)
    await expect(shown.get_by_text("expected a number such as 12")).to_be_visible()
    await shown.get_by_label(pace).fill("12")
    await save(shown, pace)
    await expect(shown.get_by_label(pace)).to_have_value("12.0")
    await expect(shown.get_by_label(emoji)).to_have_value("👀")
    await shown.context.close()


async def test_a_search_shows_the_messages_of_this_chat(browser: Browser, address: str) -> None:
    shown = await the_group(browser, address)
    await shown.get_by_label("Search in this chat (Enter)").fill("homework")
    await shown.keyboard.press("Enter")
    await expect(shown.locator(".nc-chat-found .nc-row")).to_have_count(1)
    await shown.context.close()


async def test_ctrl_k_finds_a_chat(browser: Browser, address: str) -> None:
    shown = await opened(browser, f"{address}/ui/console/about", size=WIDE, theme="light")
    await shown.keyboard.press("Control+k")
    await expect(shown.get_by_placeholder("Find a page, chat")).to_be_focused()
    await shown.keyboard.type("30003")
    await expect(shown.locator(".nc-palette-found a")).to_have_count(1)
    await shown.keyboard.press("Enter")
    await shown.wait_for_url(f"{address}/ui/console/chats/fake-group_30003")
    await shown.context.close()


async def test_the_page_of_a_chat_fits_the_screen_of_a_telephone(
    browser: Browser, address: str
) -> None:
    shown = await the_group(browser, address, size=NARROW)
    for tab in ("Tools", "Members", "Timers", "Boxes", "Data", "Behaviour"):
        await shown.get_by_role("tab", name=tab).click()
        overhang = await shown.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overhang <= 0, f"{overhang} pixels wider than the window at {tab}"
    await shown.context.close()


async def test_a_viewer_reads_and_cannot_act(browser: Browser, address: str) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-US")
    await context.add_cookies([{"name": "role", "value": "viewer", "url": address}])
    page = await context.new_page()
    await page.goto(f"{address}/ui/console/chats/fake-group_30003")
    await page.wait_for_selector(".nc-chat-bubble")
    await expect(page.get_by_role("button", name="Send")).to_have_count(0)
    await expect(page.get_by_role("button", name="Save")).to_have_count(0)
    await context.close()


async def test_an_impossible_value_is_reported_at_its_field(browser: Browser, address: str) -> None:
    shown = await the_group(browser, address)
    field = shown.locator(".nc-chat-field").filter(has_text="Quota of the chat in 24 hours")
    await field.get_by_label("Turns").fill("-3")
    await field.get_by_role("button", name="Save").click()
    await expect(field.get_by_text("Input should be greater than or equal to 0")).to_be_visible()
    await expect(shown.locator(".nc-toast")).to_have_count(0)
    commands = shown.get_by_label("Permissions of commands")
    await commands.fill("reset")
    await save(shown, "Permissions of commands")
    await expect(shown.get_by_text("expected a line such as")).to_be_visible()
    await commands.fill("reset = nobody")
    await save(shown, "Permissions of commands")
    await expect(shown.get_by_text("Input should be 'public', 'user'")).to_be_visible()
    await expect(commands).to_have_value("reset = nobody")
    await shown.context.close()


@pytest.mark.slow
async def test_an_operator_switches_tools_off_and_undoes_the_change(
    browser: Browser, address: str
) -> None:
    shown = await the_group(browser, address)
    await shown.get_by_role("tab", name="Tools").click()
    panel = shown.get_by_role("tabpanel")
    plugin = panel.get_by_role("switch", name="nekro.dice")
    await expect(plugin).to_be_checked()
    await panel.get_by_label("Each tool of nekro.dice").click()
    await panel.get_by_role("switch", name="roll_dice").click()
    await expect(plugin).not_to_be_checked()
    await expect(panel.get_by_role("switch", name="roll_dice")).not_to_be_checked()
    await shown.get_by_role("button", name="Undo").click()
    await expect(shown.get_by_text("Taken back.")).to_be_visible()
    await expect(plugin).to_be_checked()
    await panel.get_by_role("button", name="All off").click()
    await expect(panel.get_by_text(re.compile("^0 of"))).to_be_visible()
    await panel.get_by_role("button", name="All on").click()
    await expect(plugin).to_be_checked()
    await shown.get_by_role("tab", name="Behaviour").click()
    await shown.wait_for_timeout(6_000)
    told = shown.get_by_text("Somebody changed the behaviour of the bot here meanwhile.")
    await expect(told).to_be_hidden()
    await shown.context.close()


async def test_the_data_of_a_private_chat_are_counted_and_erased_only_after_a_confirmation(
    browser: Browser, address: str
) -> None:
    place = f"{address}/ui/console/chats/fake-private_Lin"
    shown = await opened(browser, place, size=WIDE, theme="light")
    await shown.get_by_role("tab", name="Members").click()
    await shown.get_by_role("button", name="Quota").click()
    dialog = shown.get_by_role("dialog")
    await dialog.get_by_label("Turns").fill("-1")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_text("greater than or equal to 0")).to_be_visible()
    await dialog.get_by_label("Turns").fill("5")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    await shown.get_by_role("tab", name="Data").click()
    panel = shown.get_by_role("tabpanel")
    await expect(panel.get_by_text("Messages", exact=True)).to_be_visible()
    await expect(panel.locator("dd").first).to_contain_text("since 20")
    await panel.get_by_role("button", name="Erase…").click()
    await expect(shown.get_by_text("Private chats with everything in them: 1.")).to_be_visible()
    await dialog.get_by_role("button", name="Cancel").click()
    await panel.get_by_role("button", name="Erase…").click()
    await dialog.get_by_role("button", name="Erase", exact=True).click()
    await expect(shown.get_by_text("The person was erased.")).to_be_visible()
    await shown.goto(f"{address}/ui/console/chats")
    await expect(shown.locator(".nc-chats-row").first).to_be_visible()
    await expect(shown.get_by_text("fake-private_Lin")).to_have_count(0)
    await shown.context.close()


async def test_an_operator_sees_the_files_of_a_box_adds_one_puts_the_box_to_sleep_and_ends_it(
    browser: Browser, address: str
) -> None:
    shown = await the_group(browser, address)
    await hear(address, "Nekro, write it down")
    await expect(shown.locator(".nc-chat-line-bot").get_by_text("ok", exact=True)).to_be_visible(
        timeout=30_000
    )
    await shown.get_by_role("tab", name="Boxes").click()
    panel = shown.get_by_role("tabpanel")
    await expect(panel.get_by_text("awake")).to_be_visible()
    await panel.get_by_role("button", name="Show files").click()
    link = panel.get_by_role("link", name="note.txt")
    source = await link.evaluate("link => link.href")
    assert await (await shown.request.get(source)).text() == "milk"
    given = {"name": "list.csv", "mimeType": "text/csv", "buffer": b"a,b"}
    await panel.locator("input[type=file]").set_input_files(given)
    await expect(panel.get_by_role("link", name="list.csv")).to_be_visible()
    await panel.get_by_role("button", name="Put to sleep").click()
    await expect(panel.get_by_text("asleep")).to_be_visible()
    await panel.get_by_role("button", name="Show files").click()
    await expect(panel.get_by_role("link", name="list.csv")).to_be_visible(timeout=30_000)
    await panel.get_by_role("button", name="Delete").click()
    dialog = shown.get_by_role("dialog")
    await expect(dialog.get_by_text("with all its files?")).to_be_visible()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(panel.get_by_text("This chat has no box.")).to_be_visible()
    await shown.context.close()


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
async def test_the_tabs_of_a_chat_have_no_serious_accessibility_problems(
    browser: Browser, address: str, theme: str
) -> None:
    place = f"{address}/ui/console/chats/fake-group_30003"
    shown = await opened(browser, place, size=WIDE, theme=theme)
    for tab in ("Behaviour", "Tools", "Members", "Timers", "Boxes", "Data"):
        await shown.get_by_role("tab", name=tab).click()
        await expect(shown.get_by_role("tabpanel").locator("*").first).to_be_attached()
        if tab == "Tools":
            await shown.get_by_label("Each tool of nekro.chat").click()
            await expect(shown.get_by_role("switch", name="send_channel_message")).to_be_visible()
        found = await Axe().run(shown)
        bad = [each for each in found.response["violations"] if each["impact"] in SERIOUS]
        assert not bad, (tab, [(each["id"], each["nodes"][0]["html"]) for each in bad])
    await shown.context.close()
