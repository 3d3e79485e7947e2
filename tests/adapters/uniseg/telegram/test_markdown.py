"""Markdown becomes a text with entities. Telegram counts the offsets of entities in UTF-16 code
units."""

import random

from nekro_core.api.chat import Mention, Text
from tests.adapters.uniseg.stock import Bench
from tests.adapters.uniseg.telegram.running import GROUP
from tests.peers.telegram import TelegramPeer


async def test_styles_become_entities_behind_a_mention(bot: Bench, peer: TelegramPeer) -> None:
    source = " 😀 **Go** to [it](https://example.org)\n```python\nx = 1\n```"
    receipt = await bot.send(GROUP, Mention("7", "Lin"), Text(source, markdown=True))
    assert receipt.ok
    params = peer.calls[-1].params
    text, entities = params["text"], params["entities"]
    assert text == "Lin 😀 Go to it\nx = 1"
    wide = text.encode("utf-16-le")
    shown = {
        each["type"]: wide[each["offset"] * 2 : (each["offset"] + each["length"]) * 2].decode(
            "utf-16-le"
        )
        for each in entities
    }
    assert shown == {"text_mention": "Lin", "bold": "Go", "text_link": "it", "pre": "x = 1"}
    assert entities[2]["url"] == "https://example.org"
    assert entities[3]["language"] == "python"


async def test_the_text_of_a_plugin_has_no_entities(bot: Bench, peer: TelegramPeer) -> None:
    assert (await bot.send(GROUP, Text("**not mine**"))).ok
    assert peer.calls[-1].params["text"] == "**not mine**"
    assert not peer.calls[-1].params.get("entities")


async def test_entities_are_never_empty_and_always_inside_of_the_text(
    bot: Bench, peer: TelegramPeer
) -> None:
    # Importing the adapter needs NoneBot, which the fixtures have begun.
    from adapters.uniseg.platforms.telegram.writing import (  # noqa: PLC0415
        text_and_entities,
        units,
    )

    chance = random.Random(7)
    marked = 0
    for _ in range(2_000):
        source = "".join(chance.choices("**`#>[](a😀 \n|-$1.", k=chance.randint(1, 60)))
        text, entities = text_and_entities((Text(source, markdown=True),), {})
        marked += bool(entities)
        for each in entities:
            assert each["length"] > 0
            assert each["offset"] >= 0
            assert each["offset"] + each["length"] <= units(text)
    assert marked > 100
