"""The modules of a plugin import each other as ``plugins.FOLDER``. No other code can import them in
this way."""

import sys
from pathlib import Path

import pytest

from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
from tests.compat.maibot.plant import info_of, plant

PLUGIN = """
{imports}
from maibot_sdk import Command, MaiBotPlugin

class Flowers(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @Command("pick", pattern="^/{command}$")
    async def pick(self, stream_id, **kwargs):
        from plugins.{own}.store.shelf import later
        await self.ctx.send.text(f"{{{pick}}} {{later()}}", stream_id)
        return True, None, True

def create_plugin():
    return Flowers()
"""
SHELF = """
from plugins.{own}.names import NAME
import plugins.{own}.names as names

def later():
    return f"{{NAME}} {{names.NAME}}"
"""

WAYS = {
    "from a module": ("from plugins.{own}.names import NAME", "NAME"),
    "from the package": ("from plugins.{own} import names", "names.NAME"),
    "import as": ("import plugins.{own}.names as n", "n.NAME"),
    "import": ("import plugins.{own}.names", "plugins.{own}.names.NAME"),
    "the package": (
        "from plugins import {own}\nimport plugins.{own}.names as _",
        "{own}.names.NAME",
    ),
    "at run time": (
        "import importlib\nn = importlib.import_module('plugins.{own}.names')",
        "n.NAME",
    ),
}


def plant_flowers(data: Path, folder: str, own: str, way: str, flower: str) -> Path:
    imports, pick = (each.format(own=own) for each in WAYS[way])
    source = PLUGIN.format(imports=imports, pick=pick, own=own, command=f"pick_{own}")
    made = plant(data, source, plugin_id=f"ann.{folder}")
    (made / "names.py").write_text(f"NAME = {flower!r}\n")
    (made / "store").mkdir()
    (made / "store" / "__init__.py").write_text("")
    (made / "store" / "shelf.py").write_text(SHELF.format(own=own))
    return made


@pytest.mark.parametrize("way", WAYS)
async def test_a_plugin_finds_its_own_modules_under_its_folder(tmp_path: Path, way: str) -> None:
    plant_flowers(tmp_path, "roses", "roses", way, "rose")
    plant_flowers(tmp_path, "lilies", "lilies", way, "lily")
    before = sys.modules.get("plugins")
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat().say("/pick_roses") == ["rose rose rose"]
        assert await bot.chat().say("/pick_lilies") == ["lily lily lily"]
        assert sys.modules.get("plugins") is before
        assert not [each for each in sys.modules if each.startswith("plugins.roses")]
        finders = len(sys.meta_path)
        await bot.app.plugins.disable("local/roses")
        assert len(sys.meta_path) == finders - 1


async def test_a_plugin_may_be_installed_in_a_folder_with_another_name(tmp_path: Path) -> None:
    plant_flowers(tmp_path, "flowers-main", "flowers", "from a module", "rose")
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat().say("/pick_flowers") == ["rose rose rose"]


async def test_a_plugin_does_not_find_the_modules_of_another_plugin(tmp_path: Path) -> None:
    plant_flowers(tmp_path, "roses", "roses", "from a module", "rose")
    other = plant_flowers(tmp_path, "thief", "thief", "from a module", "none")
    (other / "plugin.py").write_text("from plugins.roses.names import NAME\n")
    async with Bot.open(tmp_path) as bot:
        info = info_of(bot, "thief")
        assert info.state is not PluginState.LOADED
        assert "plugins.roses" in str(info.problems[0])
        assert await bot.chat().say("/pick_roses") == ["rose rose rose"]
