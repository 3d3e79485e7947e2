"""The capability behind ``ctx.render``: draws a page of HTML, with Chromium if it is installed."""

import base64
import io
import mimetypes
import shutil
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from loguru import logger
from PIL import Image, ImageDraw, ImageFont

from nekro_core.chat import sound_html
from nekro_core.compat.maibot.capabilities.confined_browser import CannotConfine, confined_page
from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.delivery.errors import NotFetched
from nekro_core.media.sniff import HEAD, sniff

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_LONGEST_S = 60.0
_MOST_HTML = 4 * 1024 * 1024
_MOST_PIXELS = 4096
_WIDTH = 800
_LINE = 30
_MARGIN = 24


async def html2png(call: CapabilityCall) -> Answer:
    """``render.html2png``: draws HTML with Playwright and Chromium. If one of them is not
    installed, or Chromium cannot be confined, only the text is drawn."""
    html = call.text("html", needed=True)
    if len(html) > _MOST_HTML:
        raise CapabilityError(f"render.html2png: {len(html)} characters, at most {_MOST_HTML}")
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    limit_s = min((call.number("render_timeout_ms", 30_000, 60_000)) / 1000, _LONGEST_S)
    drawn: tuple[bytes, int, int] | None = None
    if program is not None:
        try:
            with anyio.fail_after(limit_s):
                async with call.bot.pages:
                    drawn = await _drawn(call, html, program)
        except TimeoutError:
            raise CapabilityError(f"render.html2png: it took over {limit_s:g} s") from None
    if drawn is None:
        drawn = await to_thread.run_sync(_draw_text, html)
    png, width, height = drawn
    return success(
        result={
            "image_base64": base64.b64encode(png).decode(),
            "base64": base64.b64encode(png).decode(),
            "mime_type": "image/png",
            "width": width,
            "height": height,
        }
    )


async def _drawn(call: CapabilityCall, html: str, program: str) -> tuple[bytes, int, int] | None:
    """Draw the page with Chromium. Returns None if Playwright is not installed, or if Chromium
    cannot be confined here.

    The page may load files from the network if the plugin allows it. The page can never load files
    of this machine.
    """
    args = call.args
    viewport = args.get("viewport") if isinstance(args.get("viewport"), Mapping) else {}
    assert isinstance(viewport, Mapping)
    size = {
        "width": _bounded(viewport.get("width"), 1280),
        "height": _bounded(viewport.get("height"), 720),
    }
    scale = args.get("device_scale_factor", 2.0)
    scale = min(max(float(scale), 0.5), 4.0) if isinstance(scale, int | float) else 2.0
    allowed = _fetch_route(call, network=args.get("allow_network") is True)
    try:
        from playwright.async_api import Error  # noqa: PLC0415 - optional
    except ImportError:
        return None
    try:
        async with confined_page(program, viewport=size, scale=scale) as page:
            await page.route("**/*", allowed)
            png = await _picture_of(call, page, html)
    except CannotConfine as error:
        logger.warning(
            "a page is drawn as plain text, because Chromium cannot confine itself here: {}. Allow "
            "user namespaces (sysctl kernel.unprivileged_userns_clone=1), or install the package "
            "chromium-sandbox",
            error,
        )
        return None
    except Error as error:
        raise CapabilityError(f"render.html2png: {str(error).partition(chr(10))[0]}") from None
    with Image.open(io.BytesIO(png)) as picture:
        return png, picture.width, picture.height


async def _picture_of(call: CapabilityCall, page: Any, html: str) -> bytes:
    args = call.args
    until = args.get("wait_until")
    await page.set_content(html, wait_until=until if until in _WAITS else "load")
    if selector := call.text("wait_for_selector"):
        await page.wait_for_selector(selector)
    if args.get("wait_for_timeout_ms"):
        pause = call.number("wait_for_timeout_ms", 1, 10_000)
        await page.wait_for_timeout(pause)
    clear = args.get("omit_background") is True
    if args.get("full_page") is True:
        return bytes(await page.screenshot(full_page=True, omit_background=clear))
    element = page.locator(call.text("selector") or "body").first
    return bytes(await element.screenshot(omit_background=clear))


def _fetch_route(call: CapabilityCall, *, network: bool) -> Callable[[Any], Awaitable[None]]:
    """Make the function that answers the requests of a page.

    Chromium itself could reach servers on this machine, and parts of the page may come from the
    model or a stranger. So Chromium loads nothing from the network: the bot's fetcher loads the
    requested files.
    """
    fetcher = call.bot.services.fetcher

    async def answer(route: Any) -> None:
        address = route.request.url
        if address.startswith(("data:", "about:")):
            await route.continue_()
        elif not network or fetcher is None or not address.startswith(("http://", "https://")):
            await route.abort()
        else:
            try:
                body = await fetcher.fetch(address)
            except NotFetched as error:
                logger.info("a page is drawn without {}: {}", address[:200], error)
                await route.abort()
                return
            kind = mimetypes.guess_type(urlsplit(address).path)[0] or sniff(body[:HEAD])[0]
            await route.fulfill(body=body, content_type=kind)

    return answer


_WAITS = ("load", "domcontentloaded", "networkidle", "commit")


def _bounded(value: Any, default: int) -> int:
    return min(max(int(value), 16), _MOST_PIXELS) if isinstance(value, int | float) else default


class _Words(HTMLParser):
    """Collects the text of a page, one line for each block."""

    _BLOCKS = frozenset({"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "table", "section"})
    _SILENT = frozenset({"script", "style", "head", "title"})

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See `HTMLParser`."""
        del attrs
        self._silent += tag in self._SILENT
        if tag in self._BLOCKS and self.lines[-1]:
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        """See `HTMLParser`."""
        self._silent = max(self._silent - (tag in self._SILENT), 0)
        if tag in self._BLOCKS and self.lines[-1]:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        """See `HTMLParser`."""
        if not self._silent:
            self.lines[-1] += " ".join(data.split())


def _draw_text(html: str) -> tuple[bytes, int, int]:
    """Draw the text of a page in black on white."""
    parser = _Words()
    parser.feed(sound_html(html))
    font = _font()
    lines = [cut for line in parser.lines if line for cut in _cut(line)] or ["(empty)"]
    lines = lines[: (_MOST_PIXELS - 2 * _MARGIN) // _LINE]
    size = (_WIDTH, 2 * _MARGIN + _LINE * len(lines))
    picture = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        draw.text((_MARGIN, _MARGIN + number * _LINE), line, fill="black", font=font)
    png = io.BytesIO()
    picture.save(png, "PNG")
    return png.getvalue(), *size


def _cut(line: str) -> list[str]:
    cut, width = [""], 0
    for character in line:
        wide = 20 if unicodedata.east_asian_width(character) in "WF" else 11
        if width + wide > _WIDTH - 2 * _MARGIN:
            cut.append("")
            width = 0
        cut[-1] += character
        width += wide
    return cut


def _font() -> Any:
    """The CJK font from the package `cvttf_NotoSansCJK_Regular`. If the package is not installed,
    Pillow's Latin font."""
    wheel = find_spec("cvttf_NotoSansCJK_Regular")
    if wheel is None or wheel.origin is None:
        return ImageFont.load_default(20)
    return ImageFont.truetype(str(next(Path(wheel.origin).parent.glob("*.otf"))), 20)


TABLE: Mapping[str, CapabilityEntry] = {
    "render.html2png": CapabilityEntry(
        html2png, "works with Playwright and a Chromium in its sandbox; else the page's words alone"
    ),
}
