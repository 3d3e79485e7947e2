"""A tool whose result has ``stop_after_execution`` ends the turn, even if the result has media."""

from pathlib import Path

from nekro_core.testing import Bot
from tests.agent.native import TOOLS_MODE, call, calls
from tests.compat.maibot.plant import plant
from tests.compat.maibot.test_capabilities import png

PAINTER = """
from maibot_sdk import MaiBotPlugin, Tool

class Painter(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @Tool("paint", core_tool=True, parameters={"what": {"type": "string"}})
    async def paint(self, what, stream_id, **kwargs):
        await self.ctx.send.image(PNG, stream_id)
        picture = {"type": "image", "data": PNG, "mime_type": "image/png"}
        items = [picture] if what == "picture" else [{"type": "text", "text": "painted"}]
        return {"content": "painted", "content_items": items, "stop_after_execution": True}

def create_plugin():
    return Painter()
"""


async def test_a_result_with_media_ends_the_turn(tmp_path: Path) -> None:
    plant(tmp_path, PAINTER.replace("PNG", repr(png())), plugin_id="ann.painter")
    async with Bot.open(tmp_path, settings={"nekro_agent": TOOLS_MODE}) as bot:
        for what in ("picture", "words"):
            chat = bot.chat(f"private_{what}")
            asked = len(bot.model.requests)
            await chat.ask("paint", reply=[calls(call("paint", what=what))])
            assert len(bot.model.requests) == asked + 1
            assert len(chat.sent) == 1
