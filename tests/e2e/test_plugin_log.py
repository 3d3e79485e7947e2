"""Log lines of plugins show the name of the plugin, not of a module. The plugins are written for
nekro_core, for Nekro Agent and for MaiBot."""

from pathlib import Path

import pytest

from tests.compat.maibot.plant import plant
from tests.e2e.whole_bot import whole_bot

pytestmark = pytest.mark.long

NATIVE = """
import logging
from loguru import logger
from nekro_core.api.plugin import NekroPlugin
plugin = NekroPlugin("Tea", "tea", "Makes tea.", "1.0.0", "ann", "")
class Spilt(Exception): pass
@plugin.mount_init_method()
async def begin():
    logger.info("the kettle is on")
    logging.getLogger(__name__).warning("the cup is hot")
    try:
        raise Spilt("on the table")
    except Spilt:
        logger.exception("it went wrong")
"""
OLDER = """
from nonebot import on_command
from nonebot.matcher import Matcher
from nekro_agent.api.core import logger
from nekro_agent.services.plugin.base import NekroPlugin
plugin = NekroPlugin("Dice", "dice_cup", "Rolls.", "1.0.0", "ann", "")
roll = on_command("r", priority=5, block=True)
@roll.handle()
async def handle(matcher: Matcher):
    await matcher.finish("six")
@plugin.mount_init_method()
async def begin():
    logger.info("the dice are here")
"""
MAIBOT = """
from maibot_sdk import MaiBotPlugin
class Voice(MaiBotPlugin):
    async def on_load(self):
        self.ctx.logger.info("the voice is clear")
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
def create_plugin():
    return Voice()
"""
BROKEN = "from . import no_such_module\n"


async def test_lines_of_plugins_name_the_plugin(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "plugins"
    folder.mkdir(parents=True)
    (folder / "tea.py").write_text(NATIVE)
    (folder / "dice_cup.py").write_text(OLDER)
    (folder / "broken").mkdir()
    (folder / "broken" / "__init__.py").write_text(BROKEN)
    plant(tmp_path / "data", MAIBOT, plugin_id="ann.tts-voice")
    async with whole_bot(tmp_path) as whole:
        group = whole.group()
        await whole.peer.say_in_group(group, 10001, "/r")
        assert await whole.answers(group) == ["six"]
        lines = whole.bot.log.splitlines()

    def teller(words: str) -> str:
        """The name in the log line that contains these words."""
        return next(line.partition(" | ")[0] for line in lines if words in line).split()[-1]

    assert teller("the kettle is on") == "local/tea"
    assert teller("the cup is hot") == "local/tea"
    assert teller("the dice are here") == "local/dice_cup"
    assert teller("the voice is clear") == "local/tts-voice"
    log = "\n".join(lines)
    assert "local/tea.Spilt: on the table" in log
    assert "cannot import name 'no_such_module' from 'local/broken'" in log
    assert "module=local/dice_cup" in log  # this line of NoneBot is about the plugin's matcher
    assert "nekro_local_" not in log
