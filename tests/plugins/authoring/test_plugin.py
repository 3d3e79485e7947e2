"""Tests of the plugin object: its configuration, its stored values and its names."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field

from nekro_core.api.plugin import (
    ConfigBase,
    ConfigError,
    ExtraField,
    NekroPlugin,
    NotLoaded,
    SandboxMethodType,
)
from nekro_core.plugins.authoring.binding import loading
from tests.plugins.world import World


class Config(ConfigBase):
    CITY: str = Field(default="东京", title="City", description="Where.")
    COUNT: int = Field(default=3, ge=1)
    KEY: str = Field(default="", json_schema_extra=ExtraField(is_secret=True).model_dump())
    NESTED: dict[str, list[int]] = Field(default_factory=dict)


def made(world: World, **fields: Any) -> NekroPlugin:
    with loading(world.binding):
        return NekroPlugin(
            **{"name": "Weather", "module_name": "weather", "author": "ann", **fields}
        )


def config_path(world: World) -> Path:
    return world.data_dir / "plugin_data" / "ann.weather" / "config.yaml"


def test_the_names_and_values_of_method_types_are_fixed() -> None:
    assert {kind.name: kind.value for kind in SandboxMethodType} == {
        "TOOL": "tool",
        "AGENT": "agent",
        "BEHAVIOR": "behavior",
        "MULTIMODAL_AGENT": "multimodal_agent",
    }


@pytest.mark.parametrize(
    "fields", [{"author": "a b"}, {"module_name": "1a"}, {"module_name": "for"}]
)
def test_names_that_cannot_be_a_plugin_key_are_refused(
    world: World, fields: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"expected letters|word of Python"):
        made(world, **fields)


def test_mounting_returns_the_function_unchanged(world: World) -> None:
    plugin = made(world)

    async def function(_ctx: Any) -> str:
        return ""

    assert plugin.mount_sandbox_method(SandboxMethodType.AGENT, "f")(function) is function
    (method,) = plugin.sandbox_methods
    assert (method.method_type, method.name, method.func) == (
        SandboxMethodType.AGENT,
        "f",
        function,
    )
    with pytest.raises(ValueError, match="is not a valid"):
        plugin.mount_sandbox_method("nonsense", "g")  # type: ignore[arg-type]


def test_configuration_is_written_read_and_saved(world: World) -> None:
    plugin = made(world)
    assert plugin.mount_config()(Config) is Config
    assert yaml.safe_load(config_path(world).read_text()) == {
        "CITY": "东京",
        "COUNT": 3,
        "KEY": "",
        "NESTED": {},
    }
    assert config_path(world).stat().st_mode & 0o077 == 0
    config = plugin.get_config(Config)
    assert config is plugin.get_config()
    config.COUNT = 7
    plugin.save_config(config)
    again = made(world)
    again.mount_config()(Config)
    assert again.get_config(Config).COUNT == 7
    assert Config.get_field_title("CITY") == "City"
    assert Config.get_field_title("COUNT") == "COUNT"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CITY: [", ":1: no valid YAML"),
        ("CITY: a\nCOUNT: {\n", ":3: no valid YAML"),
        ("- a\n", "expected 'name: value' lines, got list"),
        ("COUNT: many\n", "COUNT: Input should be a valid integer"),
        ("COUNT: 0\n", "COUNT: Input should be greater than or equal to 1"),
        ("!!python/object/apply:os.system ['true']", "no valid YAML"),
    ],
)
def test_an_invalid_configuration_file_is_reported_and_not_changed(
    world: World, text: str, told: str
) -> None:
    path = config_path(world)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        made(world).mount_config()(Config)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)
    assert path.read_text() == text


def test_an_empty_configuration_file_gives_the_defaults(world: World) -> None:
    path = config_path(world)
    path.parent.mkdir(parents=True)
    path.write_text("")
    plugin = made(world)
    plugin.mount_config()(Config)
    assert plugin.get_config(Config).CITY == "东京"


def test_without_a_bot_a_plugin_has_default_settings_and_no_folder() -> None:
    plugin = NekroPlugin("Weather", "weather", author="ann")
    plugin.mount_config()(Config)
    assert plugin.get_config(Config).COUNT == 3
    with pytest.raises(NotLoaded, match=r"ann\.weather belongs to no bot"):
        plugin.get_plugin_data_dir()


async def test_a_value_is_stored_replaced_and_deleted(world: World) -> None:
    store = made(world).store
    assert await store.get(user_key="1", store_key="theme") is None
    assert await store.set(user_key="1", store_key="theme", value="dark") == 0
    assert await store.set(user_key="1", store_key="theme", value="light") == 1
    assert await store.get(user_key="1", store_key="theme") == "light"
    assert await store.get("", "1", "theme") == "light"
    assert await store.delete(user_key="1", store_key="theme") == 0
    assert await store.delete(user_key="1", store_key="theme") == 1
    with pytest.raises(TypeError, match=r"got dict: use json\.dumps"):
        await store.set(store_key="a", value={})  # type: ignore[arg-type]


def test_a_plugins_folder_contains_its_configuration(world: World) -> None:
    folder = made(world).get_plugin_data_dir()
    assert folder.is_dir()
    assert folder == config_path(world).parent
