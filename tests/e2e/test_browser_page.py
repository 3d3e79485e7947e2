"""A person opens the chat page in a real browser and uses everything on it.

``SCREENSHOT=docs/images/chat.png`` saves a picture of the conversation.
"""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyotp
import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.adapters.web.running import whole_page
from tests.e2e.bot_process import running_bot
from tests.peers.scripted_model import Answer, ScriptedModelServer

pytestmark = [pytest.mark.browser, pytest.mark.long]

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--autoplay-policy=no-user-gesture-required",
]
SLOW_MS = 30_000
"""The longest time that a step may take on a busy machine, in milliseconds."""


def python(code: str) -> str:
    """A model's reply that consists of this code."""
    return f"```python\n{code}\n```"


MEDIA = re.compile(r"^/api/v1/rooms/group_Lobby/media/\d+/\d+$")
DECODE = """async (audio) => {
  const data = await (await fetch(audio.src)).arrayBuffer();
  const sound = await new OfflineAudioContext(1, 1, 44100).decodeAudioData(data);
  const samples = sound.getChannelData(0);
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const loudness = Math.sqrt(sum / samples.length);
  return { seconds: sound.duration, samples: samples.length, loudness };
}"""


REPLIES = [
    python('send_channel_message("Hello! Nice to meet you.")'),
    python("print(rol)"),
    python(
        "import random\n\nroll = random.randint(1, 20)\nsend_channel_message(f'You rolled {roll}.')"
    ),
    python('draw_card("Hello!", "A card for you")'),
    python('send_tts_voice("Good night! Sleep well.")'),
    Answer(chunks=["```python\nprint(1)\n"], then="stall"),
    python('send_channel_message("Hello to you too.")'),
    python('send_channel_message("Hello in private.")'),
]
"""The model's replies, in the order of the questions in the visit below."""


@dataclass(frozen=True)
class BotPage:
    """The URL of a bot's page, and the token of its API."""

    url: str
    token: str

    async def link(self) -> str:
        """A link that logs in once."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as script:
            return (await script.post(f"{self.url}/api/v1/links")).json()["url"]


@asynccontextmanager
async def the_page_alone(folder: Path) -> AsyncIterator[BotPage]:
    async with whole_page(folder) as running:
        yield BotPage(running.url, running.token)


@asynccontextmanager
async def the_whole_bot(folder: Path) -> AsyncIterator[BotPage]:
    async with ScriptedModelServer(REPLIES) as model:
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
            # The visitor also says something that is not for the bot. It must not take a reply.
            "NEKRO_TRIGGER__PARTICIPATION__MODE": "mentioned",
        }
        async with running_bot(folder, **settings) as bot:
            yield BotPage(bot.address, bot.token)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(the_page_alone, id="page", marks=pytest.mark.slow),
        pytest.param(the_whole_bot, id="bot", marks=pytest.mark.jail),
    ],
)
async def bot_page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[BotPage]:
    """The page of a running bot. All tests of the page share one process.

    The bot answers requests for a greeting, a dice, a card and a voice. If it is asked to wait, it
    works until it is stopped.
    """
    async with request.param(tmp_path_factory.mktemp("bot")) as running:
        yield running


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        await chromium.close()


@asynccontextmanager
async def visitor(browser: Browser, url: str) -> AsyncIterator[BrowserContext]:
    """A new browser profile. Its pages must log no errors and send requests only to the bot."""
    context = await browser.new_context(
        viewport={"width": 1280, "height": 860}, locale="en-US", timezone_id="Europe/Berlin"
    )
    context.set_default_timeout(SLOW_MS)
    asked: set[str] = set()
    errors: list[str] = []
    context.on("request", lambda request: asked.add(request.url))
    context.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    yield context
    await context.close()
    own = (url, url.replace("http", "ws", 1), "data:", "blob:")
    assert [address for address in asked if not address.startswith(own)] == []
    assert errors == []


async def say(page: Page, text: str) -> None:
    await page.get_by_role("textbox").fill(text)
    await page.keyboard.press("Enter")


def answers(page: Page):
    return page.locator(".nk-of-bot")


async def test_a_visitor_uses_everything_on_the_page(bot_page: BotPage, browser: Browser) -> None:
    url, link = bot_page.url, await bot_page.link()
    expect.set_options(timeout=SLOW_MS)
    async with visitor(browser, url) as context:
        page = await context.new_page()
        await page.goto(link)
        await _greets_and_answers_a_suggestion(page)
        await _rolls_and_shows_its_code(page)
        await _shows_a_picture(page)
        await _plays_a_voice(page)
        await _keep_a_picture_of_it(page)
        await _shows_text_as_text(page)
        await _is_stopped(page)
        await _lets_a_second_person_speak_in_both_tabs(context, page)
        await _takes_a_file_and_gives_it_back(page)
        await _comes_back_after_a_lost_connection(page)
        await _has_private_rooms(page)
        await _fits_a_phone(page)


async def test_a_visitor_without_the_token_is_refused(bot_page: BotPage, browser: Browser) -> None:
    url, link = bot_page.url, await bot_page.link()
    async with await browser.new_context() as context:
        page = await context.new_page()
        await page.goto(url)
        await expect(page.get_by_role("heading")).to_have_text("Log in")
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_role("button", name="Open").click()
        await expect(page.get_by_role("alert")).to_have_text("This token is not right.")
        await page.goto(link)
        await expect(page.locator(".nk-composer")).to_be_visible()
    async with await browser.new_context() as context:
        page = await context.new_page()
        await page.goto(link)
        await expect(page.get_by_role("alert")).to_contain_text("used already")


async def test_an_invited_person_joins_with_a_second_factor_without_scripts(
    bot_page: BotPage, browser: Browser
) -> None:
    url, token = bot_page.url, bot_page.token
    headers = {"Authorization": f"Bearer {token}"}
    people = f"{url}/api/v1/operator/people"
    async with httpx.AsyncClient(headers=headers, trust_env=False) as owner:
        invited = await owner.post(f"{people}/invite", json={"name": "Lin <b>", "role": "viewer"})
        path = invited.json()["result"]["path"]
    async with await browser.new_context(java_script_enabled=False) as context:
        page = await context.new_page()
        await page.goto(url + path)
        await expect(page.get_by_role("heading")).to_have_text("Welcome, Lin <b>")
        await page.get_by_label("New password").fill("correct horse battery")
        await page.get_by_role("button").click()
        await expect(page).to_have_url(f"{url}/ui/")
        begun = await context.request.post(
            f"{people}/begin_second_factor", data={"present": "correct horse battery"}
        )
        authenticator = pyotp.TOTP((await begun.json())["result"]["secret"])
        code = {"code": authenticator.now()}
        confirmed = await context.request.post(f"{people}/confirm_second_factor", data=code)
        codes = (await confirmed.json())["result"]
    async with await browser.new_context(java_script_enabled=False) as context:
        page = await context.new_page()
        await page.goto(f"{url}/ui/outbox")
        await page.get_by_label("Name").fill("lin <B>")
        await page.get_by_label("Password").fill("correct horse battery")
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_label("Code").fill("000000")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert")).to_contain_text("This code is not right")
        await page.get_by_label("Code").fill(codes[0])
        await page.get_by_role("button", name="Log in").click()
        await expect(page).to_have_url(f"{url}/ui/")


async def _greets_and_answers_a_suggestion(page: Page) -> None:
    await expect(page.get_by_text("Hello! I am Nekro.")).to_be_visible()
    await page.get_by_role("button", name="Say hello").click()
    await expect(page.locator(".nk-mine .nk-mention")).to_have_text("@Nekro")
    await expect(answers(page)).to_have_count(1)
    await expect(answers(page).first).to_contain_text("Hello")


async def _rolls_and_shows_its_code(page: Page) -> None:
    await say(page, "roll a 20-sided dice")
    await expect(answers(page)).to_have_count(2)
    await answers(page).last.get_by_role("button", name="Show the code").click()
    # The page shows every run of the turn, also the failed one.
    runs = page.locator(".nk-run")
    await expect(runs).to_have_count(2)
    await expect(runs.first.locator(".nk-code")).to_contain_text("rol")
    await expect(runs.first.locator(".nk-output.nk-bad")).to_contain_text("NameError")
    await expect(runs.last.locator(".nk-code")).to_contain_text("randint")
    await expect(runs.last.locator(".nk-run-facts")).to_contain_text("s")


async def _shows_a_picture(page: Page) -> None:
    await say(page, "draw a card that says hello")
    await expect(answers(page)).to_have_count(3)
    picture = answers(page).last.locator(".nk-picture img")
    await expect(picture).to_be_visible()
    assert (
        await picture.evaluate("async (image) => (await image.decode(), image.naturalWidth)") > 99
    )
    await picture.click()
    await expect(page.get_by_role("dialog").locator("img")).to_be_visible()
    await page.get_by_role("button", name="Close").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def _plays_a_voice(page: Page) -> None:
    await say(page, "say good night with your voice")
    await expect(answers(page)).to_have_count(4)
    voice = answers(page).last
    await voice.get_by_role("button", name="Play").click()
    audio = voice.locator("audio")
    handle = await audio.element_handle()
    await page.wait_for_function("(audio) => audio.currentTime > 0.2", arg=handle)
    heard = await audio.evaluate(DECODE)
    length = await audio.evaluate("(audio) => audio.duration")
    assert length > 0.3
    assert abs(heard["seconds"] - length) < 0.1
    assert abs(heard["samples"] / 44100 - length) < 0.1
    assert heard["loudness"] > 0.005
    assert await voice.locator(".nk-wave i").count() > 20


async def _shows_text_as_text(page: Page) -> None:
    attack = "<img src=x onerror=window.hacked=1> {{ 7*7 }} <script>window.hacked=1</script>"
    await page.get_by_role("button", name="Ask Nekro").click()
    await say(page, attack)
    mine = page.locator(".nk-mine").last
    await expect(mine).to_contain_text(attack)
    await expect(mine.locator("img, script")).to_have_count(0)
    assert await page.evaluate("window.hacked") is None
    await page.get_by_role("button", name="Ask Nekro").click()


async def _is_stopped(page: Page) -> None:
    await say(page, "wait for me")
    await expect(page.locator(".nk-working")).to_contain_text("Nekro is working")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator(".nk-working")).to_have_count(0)


async def _lets_a_second_person_speak_in_both_tabs(context: BrowserContext, page: Page) -> None:
    other = await context.new_page()
    await other.goto(page.url)
    await expect(answers(other)).to_have_count(await answers(page).count())
    await page.locator(".nk-speaker > button").click()
    await page.get_by_placeholder("Add a speaker").fill("Mika")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Ask Nekro").click()
    await say(page, "Hi, I am Mika")
    await expect(page.locator(".nk-mine").last).to_contain_text("Hi, I am Mika")
    seen = other.locator(".nk-line:not(.nk-mine)").last
    await expect(seen).to_contain_text("Hi, I am Mika")
    await expect(seen.locator(".nk-who b")).to_have_text("Mika")
    await expect(page.locator(".nk-title small")).to_have_text("2 people and Nekro")
    await other.close()
    # A reply to the bot's message wakes the bot without a mention.
    before = await answers(page).count()
    last = answers(page).last
    await last.hover()
    await last.get_by_role("button", name="Reply").click()
    await say(page, "hello to you")
    await expect(page.locator(".nk-mine").last.locator(".nk-quote b")).to_have_text("Nekro")
    await expect(answers(page)).to_have_count(before + 1)


async def _takes_a_file_and_gives_it_back(page: Page) -> None:
    await page.locator("input[type=file]").set_input_files(
        files=[{"name": "notes <b>.txt", "mimeType": "text/plain", "buffer": b"one\ntwo\n"}]
    )
    await page.keyboard.press("Enter")
    card = page.locator(".nk-mine").last.locator(".nk-file")
    await expect(card).to_contain_text("notes <b>.txt")
    await expect(card).to_contain_text("8 B")
    await expect(card).to_have_attribute("href", MEDIA)
    async with page.expect_download() as download:
        await card.click()
    path = await (await download.value).path()
    assert path.read_bytes() == b"one\ntwo\n"


async def _comes_back_after_a_lost_connection(page: Page) -> None:
    await page.evaluate("window.socket.io.engine.close()")
    await expect(page.locator(".nk-offline")).to_be_visible()
    await say(page, "said while the line was down")
    await expect(page.locator(".nk-mine").last).to_contain_text("said while the line was down")
    await expect(page.locator(".nk-offline")).to_have_count(0)
    await page.reload()
    await expect(page.locator(".nk-mine").last).to_contain_text("said while the line was down")


async def _has_private_rooms(page: Page) -> None:
    await page.get_by_role("button", name="New room").click()
    await page.get_by_role("button", name="Private talk").click()
    await page.get_by_placeholder("Your name").fill("Sora")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Sora")
    await say(page, "hello")
    await expect(answers(page)).to_have_count(1)
    await page.get_by_role("navigation").get_by_text("Lobby").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Lobby")


async def _fits_a_phone(page: Page) -> None:
    await page.set_viewport_size({"width": 360, "height": 740})
    wide = await page.evaluate("document.scrollingElement.scrollWidth")
    assert wide <= 360
    lines = page.locator(".nk-lines")
    assert await lines.evaluate("(box) => box.scrollWidth <= box.clientWidth")
    await page.get_by_role("button", name="Open the list of rooms").click()
    await expect(page.get_by_role("navigation")).to_be_visible()


async def _keep_a_picture_of_it(page: Page) -> None:
    if wanted := os.environ.get("SCREENSHOT"):
        await page.evaluate("Promise.all([...document.images].map((image) => image.decode()))")
        await page.mouse.move(0, 0)
        await page.set_viewport_size({"width": 1280, "height": 1240})
        await page.screenshot(path=wanted)
        await page.set_viewport_size({"width": 1280, "height": 860})
