"""Makes the screenshots of the console in ``docs/images/console``: ``make pictures``.

``python -m tests.console.pictures [--only NAME ...] [--into FOLDER] [--language LANGUAGE]
[--serve]``. A screenshot is written only if it differs visibly from the existing file, so a second
run changes few files. ``--serve`` only starts the bot and prints a link to its page."""

import argparse
import io
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio
from PIL import Image, ImageChops
from playwright.async_api import Browser, async_playwright

from tests.console.pictures.bot import Operator, bot_with_a_life
from tests.console.pictures.story import READING, TRAIL
from tests.console.test_browser_pages import ARGUMENTS, CHROMIUM, NARROW

FOLDER = Path(__file__).parents[3] / "docs" / "images" / "console"
WIDE = (1280, 860)
_COLOURS = 128
"""A picture has at most this many colours, which makes the file small. `MAXCOVERAGE` keeps rare
colours, such as the red of a small sign."""
_DIFFERENT = 24
"""If two values of a pixel differ by less than this, they look the same."""
_CHANGED_PART = 0.012
"""A picture is written again if a larger part of its pixels looks different. Times and figures that
change each day are a smaller part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a page.

    Attributes:
        name: The name of its file, without the ending.
        path: The page's address after ``/ui/console/``.
        size: The size of the window.
        theme: ``light`` or ``dark``.
        shows: The selector of an element that is scrolled to the top.
        opens: The selector of a button that is clicked first.
    """

    name: str
    path: str = ""
    size: tuple[int, int] = WIDE
    theme: str = "light"
    shows: str = ""
    opens: str = ""


def pictures(turn_id: int) -> tuple[Picture, ...]:
    """Every picture that is made. ``turn_id`` is a turn with several steps."""
    listed = (
        *("statistics", "chats", "turns", "undelivered", "requests", "timers", "models"),
        *("personas", "platforms", "plugins", "mcp", "network", "settings", "people", "account"),
        *("backups", "logs", "audit", "about"),
    )
    trail, reading = f"chats/onebot_v11-group_{TRAIL}", f"chats/onebot_v11-group_{READING}"
    return (
        Picture(name="home"),
        *(Picture(name=each, path=each) for each in listed),
        Picture(name="chat", path=trail),
        Picture(name="roles", path="models", shows=".nc-section"),
        Picture(name="memory", path="memory", opens=f"article:has-text('group_{TRAIL}') .q-btn"),
        Picture(name="turn", path=f"turns/{turn_id}"),
        Picture(name="prompt", path=f"turns/{turn_id}", shows=".nc-turn-shares"),
        Picture(name="plugin", path="plugins/amelie.weather"),
        Picture(name="statistics-dark", path="statistics", theme="dark"),
        Picture(name="turn-dark", path=f"turns/{turn_id}", theme="dark"),
        Picture(name="home-telephone", size=NARROW),
        Picture(name="chat-telephone", path=reading, size=NARROW, theme="dark"),
    )


async def take(
    browser: Browser, operator: Operator, each: tuple[Picture, ...], into: Path, language: str
) -> None:
    """Take and save the screenshots."""
    for theme in ("light", "dark"):
        for size in (WIDE, NARROW):
            chosen = [p for p in each if (p.theme, p.size) == (theme, size)]
            if not chosen:
                continue
            context = await browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if theme == "dark" else "light",
                locale=language,
                reduced_motion="reduce",
            )
            context.set_default_timeout(30_000)
            page = await context.new_page()
            link = await operator.link()
            await page.goto(link)
            await page.wait_for_load_state("networkidle")
            address = "/".join(link.split("/")[:3])
            for picture in chosen:
                await page.goto(f"{address}/ui/console/{picture.path}")
                await page.wait_for_selector(".nc-main")
                await page.wait_for_load_state("networkidle")
                if picture.opens:
                    await page.locator(picture.opens).first.click()
                    await page.wait_for_load_state("networkidle")
                if picture.shows:
                    await page.locator(picture.shows).first.evaluate(
                        "e => { e.scrollIntoView(); window.scrollBy(0, -220); }"
                    )
                await page.mouse.move(size[0] - 5, size[1] - 5)
                # in this time the charts are drawn and the last animation ends
                await anyio.sleep(1.2)
                state = save(into / f"{picture.name}.png", await page.screenshot())
                print(f"{picture.name}: {state}", flush=True)
            await context.close()


def save(path: Path, png: bytes) -> str:
    """Write the picture, unless the existing file looks the same. Return what was done."""
    fresh = Image.open(io.BytesIO(png)).convert("RGB")
    if path.exists():
        with Image.open(path) as old:
            if changed_part(old.convert("RGB"), fresh) < _CHANGED_PART:
                return "unchanged"
    path.parent.mkdir(parents=True, exist_ok=True)
    small = fresh.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    return f"written, {path.stat().st_size // 1000} kB"


def changed_part(old: Image.Image, new: Image.Image) -> float:
    """The part of the pixels that look different, between 0 and 1."""
    if old.size != new.size:
        return 1.0
    difference = ImageChops.difference(old, new).convert("L").point(lambda v: v > _DIFFERENT)
    counts = difference.histogram()
    return 1 - counts[0] / sum(counts)


async def main() -> None:
    """Start the bot and save the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.console.pictures")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--into", type=Path, default=FOLDER)
    parser.add_argument("--language", default="en-US")
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    # The pictures show the folder's name. A link gives the folder the same name each time.
    shown = Path(tempfile.gettempdir()) / "mei"
    shown.unlink(missing_ok=True)
    shown.symlink_to(folder)
    async with bot_with_a_life(shown) as (bot, operator):
        if given.serve:
            print(await operator.link(), bot.token, flush=True)
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
                async for _ in received:
                    return
        turns = await operator.ask("turns.list", limit=10)
        turn_id = next(each["turn_id"] for each in turns if "furthest" in each["asked"])
        each = tuple(p for p in pictures(turn_id) if not given.only or p.name in given.only)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            await take(browser, operator, each, given.into, given.language)
            await browser.close()


if __name__ == "__main__":
    anyio.run(main)
