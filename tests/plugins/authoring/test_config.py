"""Tests of a plugin's configuration: YAML and JSON files, hints for forms, and changes while the
plugin runs."""

import os
from pathlib import Path

import anyio
import pytest
from pydantic import Field

from nekro_core.api.plugin import ConfigBase, ConfigError, ExtraField
from nekro_core.plugins.host.registry import PluginRegistry
from tests.plugins.world import World, plugin_source


class Weather(ConfigBase):
    """A configuration with a field of each kind."""

    CITY: str = Field(default="Nara", title="City", description="Where.")
    KEYS: list[str] = Field(default_factory=list)
    SECRET: str = Field(
        default="",
        json_schema_extra=ExtraField(is_secret=True, placeholder="sk-...").model_dump(),
    )
    ODD: int = Field(default=1, json_schema_extra={"is_secret": 5})


@pytest.mark.parametrize("name", ["config.yaml", "config.yml", "config.json"])
def test_a_configuration_is_written_and_read_as_yaml_and_json(tmp_path: Path, name: str) -> None:
    path = tmp_path / "deep" / name
    config = Weather(CITY="东京", KEYS=["a"])
    config.dump_config(path)
    assert "东京" in path.read_text(encoding="utf-8")
    again = Weather.load_config(path)
    assert again == config
    again.CITY = "Ōsaka"
    again.dump_config(path)
    assert Weather.load_config(path).CITY == "Ōsaka"
    assert Weather.load_config(tmp_path / "none.json") == Weather() == Weather.load_config()


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("c.json", "{", "c.json: no valid JSON: Expecting property name"),
        ("c.json", "[1]", "expected 'name: value' lines, got list"),
        ("c.yaml", "CITY: [", "c.yaml:1: no valid YAML"),
        ("c.yaml", "KEYS: 5", "KEYS: Input should be a valid list"),
    ],
)
def test_an_invalid_configuration_file_is_refused(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        Weather.load_config(tmp_path / name)
    assert told in str(caught.value)


def test_the_hints_and_the_names_of_fields_are_read() -> None:
    assert Weather.get_field_title("CITY") == "City"
    assert Weather.get_field_title("KEYS") == "KEYS"
    assert Weather.get_field_extra("SECRET").is_secret
    assert Weather.get_field_placeholder("SECRET") == "sk-..."
    assert Weather.get_field_extra("ODD") == Weather.get_field_extra("nothing") == ExtraField()
    assert Weather.get_config_key() == "Weather"
    Weather.set_config_key("weather")
    assert Weather.get_config_key() == "weather"


PLUGIN = """
from pydantic import Field
from nekro_core.api.plugin import ConfigBase, ExtraField

@plugin.mount_config()
class Config(ConfigBase):
    CITY: str = "Nara"
    TOKEN: str = Field("t0", json_schema_extra=ExtraField(load_to_sysenv=True).model_dump())
    COUNT: int = Field(3, json_schema_extra=ExtraField(load_sysenv_as="P1_COUNT").model_dump())

config: Config = plugin.get_config(Config)

@plugin.mount_prompt_inject_method("p")
async def prompt(_ctx):
    return config.CITY
"""


async def city(world: World, registry: PluginRegistry) -> str:
    (injection,) = await registry.prompt_injections(world.ctx())
    return injection.text


async def until(world: World, registry: PluginRegistry, wanted: str) -> None:
    with anyio.fail_after(30):
        while await city(world, registry) != wanted:
            await anyio.sleep(0.01)


async def test_an_edited_file_takes_effect_without_a_restart(world: World) -> None:
    world.write("a.py", plugin_source("a", more=PLUGIN))
    path = world.data_dir / "plugin_data" / "ann.a" / "config.yaml"
    async with world.bot(look_s=0.01) as registry:
        assert await city(world, registry) == "Nara"
        path.write_text("CITY: Kobe\n")
        await until(world, registry, "Kobe")
        path.write_text("CITY: [broken\n")
        await anyio.sleep(0.05)
        assert await city(world, registry) == "Kobe"
        path.write_text("CITY: Uji\nTOKEN: t1\n")
        await until(world, registry, "Uji")
        assert os.environ["TOKEN"] == "t1"


async def test_environment_variables_are_set_while_the_plugin_is_loaded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "the operator's")
    world.write("a.py", plugin_source("a", more=PLUGIN))
    async with world.bot() as registry:
        assert (os.environ["TOKEN"], os.environ["P1_COUNT"]) == ("t0", "3")
        await registry.disable("ann.a")
        assert os.environ["TOKEN"] == "the operator's"
        assert "P1_COUNT" not in os.environ
