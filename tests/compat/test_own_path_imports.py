"""Several plugins of one bot, for Nekro Agent and for MaiBot, put their own folders on
``sys.path``. Each plugin imports its own modules."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nekro_core.plugins.host.links import link_plugin
from nekro_core.testing import Bot
from tests.compat.maibot.plant import plant

MAIBOT = """
import json
import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
if str(_FOLDER) not in sys.path:
    sys.path.insert(0, str(_FOLDER))
sys.path.append(str(_FOLDER / "src"))

from maibot_sdk import MaiBotPlugin, Tool
import libs.title as title
from libs.title import TITLE
from inner.words import WORDS


class Titles(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass

    @Tool("NAME_title", core_tool=True, description="Say the title.", parameters=[])
    async def say(self, **kwargs):
        import libs
        from libs import more

        assert libs.more is more and title.TITLE == TITLE and json.dumps
        return {"content": TITLE + more.MORE + WORDS}


def create_plugin():
    return Titles()
"""
NEKRO = """
import os, sys

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "src"))

from titles import plugin  # noqa
"""
NEKRO_MODULE = """
from nekro_agent.api.plugin import NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from libs.title import TITLE
from inner.words import WORDS

plugin = NekroPlugin("NAME", "NAME", "Titles.", "1.0.0", "ann", "")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "NAME_title", "Say the title.")
async def NAME_title(_ctx: AgentCtx) -> dict:
    import libs.more

    return {"content": TITLE + libs.more.MORE + WORDS}
"""


def write_modules(folder: Path, name: str) -> None:
    (folder / "libs").mkdir()
    (folder / "libs" / "title.py").write_text(f"from libs.more import MORE\nTITLE = '{name}'\n")
    (folder / "libs" / "more.py").write_text(f"MORE = ' {name}'\n")
    (folder / "src" / "inner").mkdir(parents=True)
    (folder / "src" / "inner" / "words.py").write_text(f"WORDS = ' words of {name}'\n")
    # A module of the plugin does not replace a module of the standard library.
    (folder / "json.py").write_text("raise ImportError('this is no json')\n")


def maibot_plugin(data: Path, name: str) -> None:
    write_modules(plant(data, MAIBOT.replace("NAME", name), plugin_id=f"ann.{name}"), name)


def nekro_plugin(data: Path, name: str) -> None:
    folder = data / "plugins" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(NEKRO)
    (folder / "titles.py").write_text(NEKRO_MODULE.replace("NAME", name))
    write_modules(folder, name)


@pytest.mark.parametrize("write", [maibot_plugin, nekro_plugin])
async def test_if_several_plugins_have_a_module_of_one_name_each_imports_its_own(
    tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    for name in ("roses", "lilies"):
        write(tmp_path, name)
    before = [*sys.path]
    async with Bot.open(tmp_path) as bot:
        for name in ("roses", "lilies"):
            assert await bot.call(f"{name}_title") == {"content": f"{name} {name} words of {name}"}
        assert not {"libs", "inner", "titles"} & {*sys.modules}
        await bot.app.plugins.disable("local/roses")
        assert await bot.call("lilies_title") == {"content": "lilies lilies words of lilies"}
    assert sys.path == before


async def test_a_plugin_behind_a_symbolic_link_finds_its_own_modules(tmp_path: Path) -> None:
    maibot_plugin(tmp_path / "work", "roses")
    data = tmp_path / "data"
    link_plugin(tmp_path / "work" / "plugins" / "roses", data)
    before = [*sys.path]
    async with Bot.open(data) as bot:
        assert await bot.call("roses_title") == {"content": "roses roses words of roses"}
        assert not {"libs", "inner"} & {*sys.modules}
    assert sys.path == before
