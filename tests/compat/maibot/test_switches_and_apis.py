"""Plugins switch their own components on and off, and call other plugins' APIs by short names."""

from pathlib import Path

from nekro_core.plugins.host.listing import PluginState
from nekro_core.testing import Bot
from tests.compat.maibot.plant import info_of, plant

MODULAR = """
from maibot_sdk import API, Command, MaiBotPlugin, Tool
class Modular(MaiBotPlugin):
    async def on_load(self):
        self.answers = [
            await self.ctx.component.disable_component("poke", "TOOL"),
            await self.ctx.component.disable_component("ann.modular.draw", "TOOL"),
            await self.ctx.component.disable_component("hello", "COMMAND"),
            await self.ctx.component.disable_component("no_such", "TOOL"),
        ]
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    @Tool("poke", description="Poke.", core_tool=True)
    async def poke(self, **kwargs):
        return "poked"
    @Tool("draw", description="Draw.", core_tool=True)
    async def draw(self, **kwargs):
        return "drawn"
    @Tool("look", description="Look.", core_tool=True)
    async def look(self, **kwargs):
        return {"answers": self.answers}
    @Tool("wake", description="Wake poke.", core_tool=True)
    async def wake(self, **kwargs):
        return await self.ctx.component.enable_component("poke", "TOOL")
    @Command("hello", pattern="^/hello$")
    async def hello(self, stream_id="", **kwargs):
        await self.ctx.send.text("hello", stream_id)
        return True, "", True
def create_plugin():
    return Modular()
"""

RATES = """
from maibot_sdk import API, MaiBotPlugin
class Rates(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    @API("rates.of", description="A rate.", version="1", public=True)
    async def rate(self, currency, **kwargs):
        return f"{currency} of {self.ctx.plugin_id}"
    @API("rates.secret", description="Its own.")
    async def secret(self, **kwargs):
        return "secret"
def create_plugin():
    return Rates()
"""

ASKER = """
from maibot_sdk import MaiBotPlugin, Tool
class Asker(MaiBotPlugin):
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
    @Tool("ask", description="Ask.", core_tool=True, parameters={"name": {"type": "string"}})
    async def ask(self, name, **kwargs):
        return {"answer": await self.ctx.api.call(name, currency="JPY")}
    @Tool("known", description="List.", core_tool=True)
    async def known(self, **kwargs):
        listed = await self.ctx.api.list()
        found = await self.ctx.api.get("adapter.napcat.group.set_group_ban", version="1")
        nothing = await self.ctx.api.get("adapter.napcat.group.no_such_word")
        return {"names": [each["name"] for each in listed], "found": found, "nothing": nothing}
def create_plugin():
    return Asker()
"""


async def test_tools_that_a_plugin_switches_off_while_it_loads_are_not_offered(
    tmp_path: Path,
) -> None:
    plant(tmp_path, MODULAR, plugin_id="ann.modular")
    async with Bot.open(tmp_path) as bot:
        assert info_of(bot, "modular").state is PluginState.LOADED
        chat = bot.chat()
        done = (await chat.call("look"))["answers"]
        assert [each["success"] for each in done] == [True, True, True, False]
        assert "there is no TOOL 'no_such'" in done[3]["error"]
        offered = {each.name for each in bot.app.plugins.tools_for(chat.key).tools}
        assert {"look", "wake"} <= offered
        assert not {"poke", "draw"} & offered
        assert await chat.ask("/hello", reply="hi there") == ["hi there"]
        await chat.call("wake")
        assert await chat.call("poke") == "poked"


async def test_an_api_can_be_called_by_its_short_name_if_only_one_plugin_has_it(
    tmp_path: Path,
) -> None:
    plant(tmp_path, RATES, plugin_id="ann.rates")
    plant(tmp_path, ASKER, plugin_id="ann.asker")
    async with Bot.open(tmp_path) as bot:
        chat = bot.chat()

        async def asked(name: str) -> object:
            return (await chat.call("ask", name))["answer"]

        assert await asked("rates.of") == "JPY of ann.rates"
        assert await asked("ann.rates.rates.of") == "JPY of ann.rates"
        assert "rates.secret of ann.rates is not public" in str(await asked("rates.secret"))
        assert "there is no API 'rates'" in str(await asked("rates"))
        plant(tmp_path, RATES, plugin_id="bo.rates2")
        await bot.app.plugins.enable("local/rates2")
        told = str(await asked("rates.of"))
        assert "several plugins have 'rates.of'; say which: ann.rates.rates.of, bo." in told
        assert await asked("bo.rates2.rates.of") == "JPY of bo.rates2"


async def test_the_apis_of_the_onebot_adapter_are_listed_beside_those_of_plugins(
    tmp_path: Path,
) -> None:
    plant(tmp_path, RATES, plugin_id="ann.rates")
    plant(tmp_path, ASKER, plugin_id="ann.asker")
    async with Bot.open(tmp_path) as bot:
        known = await bot.chat().call("known")
        assert known["names"][0] == "rates.of"
        assert "rates.secret" not in known["names"]
        assert "adapter.snowluma.message.set_msg_emoji_like" in known["names"]
        assert known["found"]["plugin_id"] == "maibot-team.napcat-adapter"
        assert known["nothing"] is None
        names = ("system.get_login_info", "group.get_group_list", "group.set_group_name")
        found = [
            (await bot.chat().call("ask", f"adapter.napcat.{name}"))["answer"] for name in names
        ]
        assert found[:2] == [None, []]  # plugins use these two values without a check for errors
        assert "OneBot account at all is not connected" in found[2]["error"]
