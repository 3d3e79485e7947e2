"""A real browser shows the Markdown of a model on the chat page.

``SCREENSHOTS=docs/images`` saves pictures of the page, wide and narrow, light and dark.
"""

import os
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from tests.e2e.bot_process import running_bot
from tests.e2e.test_browser_page import ARGUMENTS, CHROMIUM, SLOW_MS, BotPage
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.jail]

REPLY = """## Weather in Bremen

It stays **mild**, as the [forecast](https://example.org/bremen) says:

| Day | Morning | Evening | What to expect |
|:----|--------:|--------:|----------------|
| Fri | 11 °C   | 14 °C   | sun, a little wind from the west |
| 土曜 | 9 °C    | 12 °C   | rain in the afternoon |

1. Take `rain.txt` with you
2. Look again on *Sunday*
   - early
   - late

```js
function feelsLike(celsius, wind) {
  // A rule of thumb.
  return 13.12 + 0.6215 * celsius - 11.37 * wind ** 0.16;
}
```

> Who asks the sky gets wet.

The mean is $\\bar{t} = \\frac{1}{n}\\sum_{i=1}^{n} t_i$.

<img src=x onerror="document.title='broken in'">
"""
LOOKS = {
    "wide-light": {"width": 1280, "height": 1250, "scheme": "light"},
    "wide-dark": {"width": 1280, "height": 1250, "scheme": "dark"},
    "narrow-light": {"width": 390, "height": 1350, "scheme": "light"},
    "narrow-dark": {"width": 390, "height": 1350, "scheme": "dark"},
}


async def test_markdown_is_shown_as_markup(tmp_path: Path) -> None:
    async with ScriptedModelServer([REPLY]) as model:
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
        }
        async with running_bot(tmp_path, **settings) as bot, async_playwright() as playwright:
            chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            for name, look in LOOKS.items():
                context = await chromium.new_context(
                    viewport={"width": int(str(look["width"])), "height": int(str(look["height"]))},
                    color_scheme="dark" if look["scheme"] == "dark" else "light",
                )
                context.set_default_timeout(SLOW_MS)
                page = await context.new_page()
                await page.goto(await BotPage(bot.address, bot.token).link())
                if name == "wide-light":
                    await page.get_by_role("textbox").fill("How is the weather?")
                    await page.get_by_role("textbox").press("Enter")
                said = page.locator(".nk-markdown")
                await expect(said.get_by_role("table")).to_be_visible(timeout=SLOW_MS)
                await expect(said.get_by_role("heading")).to_have_text("Weather in Bremen")
                link = said.get_by_role("link", name="forecast")
                await expect(link).to_have_attribute("href", "https://example.org/bremen")
                await expect(said.locator("pre .kd").first).to_have_text("function")
                await expect(said.locator("math mfrac")).to_be_visible()
                await expect(said.locator("img")).to_have_count(0)
                assert await page.title() != "broken in"
                page_width = await page.evaluate("document.documentElement.scrollWidth")
                assert page_width <= int(str(look["width"])), "the page is wider than the window"
                if folder := os.environ.get("SCREENSHOTS"):
                    await page.screenshot(path=Path(folder) / f"markdown-{name}.png")
                await context.close()
            await chromium.close()
