"""The configurations of MaiBot plugins are shown as forms and changed while the bot runs."""

import shutil
import tomllib
from pathlib import Path

import pytest

from nekro_core.plugins.configuration.configurations import PluginConfigurations
from nekro_core.plugins.forms.configuration import FormRefused
from nekro_core.plugins.forms.fields import FormField
from nekro_core.testing import Bot
from tests.compat.maibot.plant import plant
from tests.console.drawn_form import sent_untouched

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the SDK warns about older plugins
]

TESTS = Path(__file__).parent


def _code(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("*.py"))


EVERY = sorted(
    each.parent
    for folder in (TESTS / "wild", TESTS / "plugins", TESTS / "fresh")
    for each in folder.rglob("_manifest.json")
    if each.parent.name != "money_talk"  # this plugin needs another plugin
    and (each.with_name("config.toml").exists() or "onfig_model" in _code(each.parent))
)
SOURCE = '''
from maibot_sdk import Command, Field, MaiBotPlugin, PluginConfigBase

class PluginSection(PluginConfigBase):
    enabled: bool = Field(default=True)
    config_version: str = Field(default="2.0.0")

class Style(PluginConfigBase):
    """How it paints."""
    __ui_label__ = "Stil"
    __ui_i18n__ = {"en": {"title": "Style"}}
    city: str = Field(default="Berlin", json_schema_extra={"label": "Stadt", "hint": "Where",
        "i18n": {"en_US": {"label": "City"}}})
    size: int = Field(default=3, ge=1, le=9)

class Config(PluginConfigBase):
    plugin: PluginSection = Field(default_factory=PluginSection)
    style: Style = Field(default_factory=Style)

class Painter(MaiBotPlugin):
    config_model = Config
    told = []
    async def on_load(self): pass
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version):
        self.told.append((scope, config_data["style"]["size"], version))

def create_plugin():
    return Painter()
'''


def at(fields: tuple[FormField, ...], *names: str) -> FormField:
    (found,) = [each for each in fields if each.name == names[0]]
    return at(found.fields, *names[1:]) if len(names) > 1 else found


async def test_a_change_reaches_the_plugin_at_once_and_comments_stay(tmp_path: Path) -> None:
    folder = plant(tmp_path / "source", SOURCE)
    (folder / "config.toml").write_text(
        '# mine\n[plugin]\nenabled = true\nconfig_version = "2.0.0"\n\n'
        '[style]\ncity = "Ulm" # the city\nsize = 2\n'
    )
    async with Bot.open(tmp_path / "data", folder) as bot:
        configurations = PluginConfigurations(bot.app.plugins)
        form = await configurations.form(bot.info.key)
        style = at(form.fields, "style")
        assert (style.title_in("en"), style.title_in("zh-CN")) == ("Style", "Stil")
        city = at(form.fields, "style", "city")
        assert (city.title_in("en-US"), city.help) == ("City", "Where")
        assert (at(form.fields, "style", "size").least, city.kind) == (1, "text")
        assert at(form.fields, "plugin", "enabled").hidden
        assert form.values["style"] == {"city": "Ulm", "size": 2}
        change = await configurations.write(
            bot.info.key, {"style": {"size": 7}}, expected=form.revision
        )
        assert [(each.place, each.old, each.new) for each in change.changes] == [
            ("style.size", 2, 7)
        ]
        instance = _instance(bot)
        assert instance.told == [("self", 7, "2.0.0")]  # type: ignore[attr-defined]
        text = (folder / "config.toml").read_text()
        assert "# mine" in text
        assert 'city = "Ulm" # the city' in text
        assert tomllib.loads(text)["style"] == {"city": "Ulm", "size": 7}
        with pytest.raises(FormRefused) as refused:
            await configurations.write(
                bot.info.key, {"style": {"size": 70}}, expected=change.revision
            )
        assert refused.value.problems == {"style.size": "Input should be less than or equal to 9"}
        assert (folder / "config.toml").read_text() == text


def _instance(bot: Bot) -> object:
    configuration = bot.app.plugins.loaded(bot.info.key).configuration
    return configuration._plugin.instance  # type: ignore[union-attr]


async def test_the_form_of_a_complex_plugin_has_its_lists_tables_and_secrets(
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(TESTS / "wild" / "plugins" / "wardrobe", tmp_path / "wardrobe")
    async with Bot.open(tmp_path / "data", folder) as bot:
        configurations = PluginConfigurations(bot.app.plugins)
        form = await configurations.form(bot.info.key)
        kinds = {
            f"{section.name}.{each.name}": each.kind.value
            for section in form.fields
            for each in section.fields
        }
        assert kinds["weather.api_key"] == "secret"
        assert kinds["weather.aliases"] == "table"
        assert kinds["weather.timeout"] == "number"
        (garments,) = [name for name in kinds if name.endswith(".garments")]
        section = garments.partition(".")[0]
        item = at(form.fields, section, "garments").item
        assert item
        assert [each.kind.value for each in item.fields] == ["text", "number", "choice"]
        sent = {
            "weather": {"api_key": "k", "aliases": {"魔都": "上海"}, "timeout": 2.5},
            section: {"garments": [{"name": "围巾", "warmth": 4, "seasons": ["冬"]}]},
        }
        await configurations.write(bot.info.key, sent, expected=form.revision)
        form = await configurations.form(bot.info.key)
        assert form.values["weather"]["api_key"] == {"$secret": "weather.api_key"}
        stored = tomllib.loads((folder / "config.toml").read_text())
        assert stored["weather"]["api_key"] == "k"
        assert stored["weather"]["timeout"] == 2.5
        assert stored[section]["garments"][0]["name"] == "围巾"
        await configurations.write(
            bot.info.key, {"weather": {"timeout": None}}, expected=form.revision
        )
        stored = tomllib.loads((folder / "config.toml").read_text())
        assert "timeout" not in stored["weather"]
        assert stored["weather"]["api_key"] == "k"


async def test_a_plugin_from_before_the_sdk_has_a_form(tmp_path: Path) -> None:
    folder = shutil.copytree(TESTS / "wild" / "plugins" / "old_fortune", tmp_path / "old_fortune")
    async with Bot.open(tmp_path / "data", folder) as bot:
        configurations = PluginConfigurations(bot.app.plugins)
        form = await configurations.form(bot.info.key)
        most = next(
            each for section in form.fields for each in section.fields if each.name == "max_chars"
        )
        assert (most.whole, most.least, most.most, most.help) == (True, 1, 50, "最长多少字")


@pytest.mark.parametrize("plugin", EVERY, ids=lambda path: path.name)
async def test_a_form_that_is_saved_unchanged_is_accepted(plugin: Path, tmp_path: Path) -> None:
    """If a form is written back as it was shown, nothing changes."""
    folder = shutil.copytree(plugin, tmp_path / plugin.name)
    async with Bot.open(tmp_path / "data", folder) as bot:
        configurations = PluginConfigurations(bot.app.plugins)
        form = await configurations.form(bot.info.key)
        assert form.problem == ""
        sent = sent_untouched(form.fields, form.values)
        assert sent is not None
        change = await configurations.write(bot.info.key, sent, expected=form.revision)
        assert change.changes == ()
        assert change.revision == form.revision
