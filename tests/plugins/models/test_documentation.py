"""The plugin on the documentation page about timers, models and vectors works as the page says."""

import re
from pathlib import Path

from nekro_core.testing.bot import Bot

PAGE = Path(__file__).parents[3] / "docs" / "timers-and-models.md"


async def test_the_notebook_plugin_on_the_page_works(tmp_path: Path) -> None:
    (source,) = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "notebook.py").write_text(source, encoding="utf-8")
    async with Bot.open(tmp_path / "data", tmp_path / "notebook.py") as bot:
        assert bot.info.problems == ()
        chat = bot.chat()
        assert await chat.call("note", "water the plants", remind_in_hours=2) == "kept"
        assert await chat.call("note", "buy green tea") == "kept"
        assert await bot.chat("group_1").call("note", "green tea for the group") == "kept"
        assert await chat.call("find_note", "tea") == ["buy green tea", "water the plants"]
        bot.foresee(reply="It rained, and then it did not.")
        assert await chat.call("sum_up", "a long story") == "It rained, and then it did not."
        assert "In one sentence: a long story" in bot.prompt
        bot.foresee(reply="The plants!")
        bot.clock.advance(2 * 3600 + 1)
        assert await chat.gets(1) == ["The plants!"]
        assert "is due: water the plants" in bot.prompt
