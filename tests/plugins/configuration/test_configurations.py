"""The configuration of a plugin is shown as a form and changed while the bot runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nekro_core.plugins.authoring.config import ConfigError
from nekro_core.plugins.configuration.configurations import (
    ConfigurationChanged,
    NoConfiguration,
    PluginConfigurations,
)
from nekro_core.plugins.forms.configuration import FormRefused
from nekro_core.plugins.forms.fields import FieldKind, FormField
from nekro_core.plugins.host.listing import UnknownPlugin
from nekro_core.plugins.host.registry import PluginRegistry
from tests.plugins.world import World, plugin_source

pytestmark = pytest.mark.anyio

CONFIG = """
from typing import Dict, List, Literal, Optional
from pydantic import BaseModel, Field, SecretStr, field_validator
from nekro_core.api.plugin import ConfigBase, ExtraField

loads = globals().setdefault("loads", [])

class Source(BaseModel):
    name: str = "main"
    API_KEY: str = ""

@plugin.mount_config()
class Config(ConfigBase):
    TOKEN: str = Field(default="", title="Token",
        json_schema_extra=ExtraField(
            i18n_title={"zh-CN": "令牌"}, placeholder="sk-..."
        ).model_dump())
    HIDDEN_TOO: SecretStr = Field(default=SecretStr("first"))
    GREETING: str = Field(default="hi", description="The first words.", max_length=20)
    TEXT: str = Field(default="", json_schema_extra=ExtraField(is_textarea=True).model_dump())
    UNIT: Literal["C", "F"] = "C"
    SEASONS: List[Literal["spring", "autumn"]] = ["spring"]
    COUNT: int = Field(default=3, ge=1, le=9)
    SHARE: Optional[float] = Field(default=None, gt=0, lt=1)
    LOUD: bool = False
    NAMES: List[str] = ["a"]
    ALIASES: Dict[str, int] = {"x": 1}
    SOURCES: List[Source] = [Source(), Source(name="spare")]
    GROUP: str = Field(default="default", json_schema_extra=ExtraField(
        ref_model_groups=True, required=True
    ).model_dump())
    PORT: int = Field(default=1, json_schema_extra=ExtraField(is_need_restart=True).model_dump())

    @field_validator("GREETING")
    @classmethod
    def polite(cls, value):
        if value == "rude":
            raise ValueError("be polite")
        return value

config = plugin.get_config(Config)
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "data")
    world.write("cup.py", plugin_source("cup", "shake", more=CONFIG))
    world.write("bare.py", plugin_source("bare", "stay"))
    return world


@pytest.fixture
async def registry(world: World) -> AsyncIterator[PluginRegistry]:
    async with world.bot(look_s=60.0) as registry:
        yield registry


def named(fields: tuple[FormField, ...]) -> dict[str, FormField]:
    return {each.name: each for each in fields}


def file_of(world: World) -> Path:
    return world.data_dir / "plugin_data" / "ann.cup" / "config.yaml"


async def test_each_kind_of_field_is_described(registry: PluginRegistry) -> None:
    form = await PluginConfigurations(registry).form("ann.cup")
    fields = named(form.fields)
    assert {name: each.kind.value for name, each in fields.items()} == {
        "TOKEN": "secret", "HIDDEN_TOO": "secret", "GREETING": "text", "TEXT": "multiline",
        "UNIT": "choice", "SEASONS": "choice", "COUNT": "number", "SHARE": "number",
        "LOUD": "bool", "NAMES": "list", "ALIASES": "table", "SOURCES": "list",
        "GROUP": "text", "PORT": "number",
    }  # fmt: skip
    token = fields["TOKEN"]
    assert (token.title_in("zh-CN"), token.title_in("en-US")) == ("令牌", "Token")
    assert token.placeholder == "sk-..."
    assert (fields["GREETING"].help, fields["GREETING"].most) == ("The first words.", 20)
    assert (fields["UNIT"].choices, fields["UNIT"].several) == (("C", "F"), False)
    assert (fields["SEASONS"].choices, fields["SEASONS"].several) == (("spring", "autumn"), True)
    count = fields["COUNT"]
    assert (count.whole, count.least, count.most, count.default) == (True, 1, 9, 3)
    share = fields["SHARE"]
    assert (share.nullable, share.whole, share.above, share.below) == (True, False, 0, 1)
    sources, aliases = fields["SOURCES"].item, fields["ALIASES"].item
    assert sources
    assert [(each.name, each.kind) for each in sources.fields] == [
        ("name", FieldKind.TEXT),
        ("API_KEY", FieldKind.SECRET),
    ]
    assert aliases
    assert (aliases.kind, aliases.whole) == (FieldKind.NUMBER, True)
    assert (fields["GROUP"].names_a, fields["GROUP"].required) == ("model_group", True)
    assert fields["PORT"].needs_reload
    assert form.values["TOKEN"] == ""
    assert form.values["HIDDEN_TOO"] == {"$secret": "HIDDEN_TOO"}
    assert form.values["COUNT"] == 3


async def test_values_are_used_at_once_and_comments_stay(
    registry: PluginRegistry, world: World
) -> None:
    text = file_of(world).read_text()
    text = text.replace("COUNT: 3", "# how many\nCOUNT: 3  # at most 9").replace(
        "GREETING: hi", "GREETING: 'hi'  # mine"
    )
    file_of(world).write_text(text + "UNKNOWN: kept\n")
    configurations = PluginConfigurations(registry)
    form = await configurations.form("ann.cup")
    config = registry.loaded("ann.cup").get_config()
    sent = {"COUNT": 5, "TOKEN": "s3cret", "UNIT": "F", "TEXT": "one\ntwo\n", "NAMES": ["yes", "b"]}
    change = await configurations.write("ann.cup", sent, expected=form.revision)
    assert (config.COUNT, config.TOKEN, config.UNIT, config.NAMES) == (
        5, "s3cret", "F", ["yes", "b"],
    )  # fmt: skip
    assert registry.loaded("ann.cup").get_config() is config
    assert {each.place: (each.old, each.new) for each in change.changes} == {
        "COUNT": (3, 5),
        "TOKEN": ("not set", "set"),
        "UNIT": ("C", "F"),
        "TEXT": ("", "one\ntwo\n"),
        "NAMES": (["a"], ["yes", "b"]),
    }
    assert not change.reloaded
    written = file_of(world).read_text()
    assert "# how many\nCOUNT: 5" in written
    assert "# at most 9" in written
    assert "GREETING: 'hi'  # mine" in written
    assert "UNKNOWN: kept" in written
    assert yaml.safe_load(written)["NAMES"] == ["yes", "b"]
    assert file_of(world).stat().st_mode & 0o077 == 0
    again = await configurations.form("ann.cup")
    assert again.revision == change.revision
    same = await configurations.write("ann.cup", again.values, expected=again.revision)
    assert same.changes == ()
    assert file_of(world).read_text() == written


async def test_a_secret_that_a_form_does_not_change_is_kept_also_when_items_move(
    registry: PluginRegistry, world: World
) -> None:
    configurations = PluginConfigurations(registry)
    form = await configurations.form("ann.cup")
    sources = [{"name": "one", "API_KEY": "k1"}, {"name": "two", "API_KEY": "k2"}]
    await configurations.write("ann.cup", {"SOURCES": sources}, expected=form.revision)
    form = await configurations.form("ann.cup")
    shown = form.values["SOURCES"]
    assert shown[1] == {"name": "two", "API_KEY": {"$secret": "SOURCES.1.API_KEY"}}
    assert "k1" not in repr(form)
    assert "k2" not in repr(form)
    change = await configurations.write(
        "ann.cup",
        {"SOURCES": [shown[1], {"name": "new", "API_KEY": "k3"}]},
        expected=form.revision,
    )
    stored = yaml.safe_load(file_of(world).read_text())
    assert [each["API_KEY"] for each in stored["SOURCES"]] == ["k2", "k3"]
    assert stored["HIDDEN_TOO"] == "first"
    assert "k2" not in repr(change)
    for sent, told in (
        ({"GREETING": {"$secret": "HIDDEN_TOO"}}, "GREETING: a secret cannot be copied into"),
        ({"TOKEN": {"$secret": "SOURCES.7.API_KEY"}}, "there is no secret at SOURCES.7.API_KEY"),
        ({"TOKEN": {"$secret": "GREETING"}}, "there is no secret at GREETING"),
    ):
        with pytest.raises(FormRefused, match=told):
            await configurations.write("ann.cup", sent, expected=change.revision)


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        ({"COUNT": 10}, "COUNT"),
        ({"COUNT": "many"}, "COUNT"),
        ({"GREETING": "rude"}, "GREETING"),
        ({"SOURCES": [{"name": []}]}, "SOURCES.0.name"),
        ({"UNIT": "K"}, "UNIT"),
        ({"ALIASES": {"x": "y"}}, "ALIASES.x"),
        ({"GREETING": "x" * 21, "SHARE": 3}, "SHARE"),
        ({"LOUD": None}, "LOUD"),
    ],
)
async def test_a_wrong_value_in_a_form_gets_the_same_error_as_in_the_file(
    registry: PluginRegistry, world: World, sent: dict[str, Any], place: str
) -> None:
    configurations = PluginConfigurations(registry)
    form = await configurations.form("ann.cup")
    before = file_of(world).read_bytes()
    with pytest.raises(FormRefused) as refused:
        await configurations.write("ann.cup", sent, expected=form.revision)
    assert file_of(world).read_bytes() == before
    assert place in refused.value.problems
    by_hand = world.data_dir / "by_hand.yaml"
    by_hand.write_text(yaml.safe_dump({**yaml.safe_load(before), **sent}))
    with pytest.raises(ConfigError) as of_file:
        registry.loaded("ann.cup").config_class.load_config(by_hand)
    assert str(refused.value) in str(of_file.value)


async def test_an_unknown_field_is_refused(registry: PluginRegistry) -> None:
    configurations = PluginConfigurations(registry)
    form = await configurations.form("ann.cup")
    with pytest.raises(FormRefused, match="NOTHING: there is no such field; there are TOKEN, "):
        await configurations.write("ann.cup", {"NOTHING": 1}, expected=form.revision)


async def test_the_second_of_two_forms_is_refused_and_the_changed_fields_are_named(
    registry: PluginRegistry, world: World
) -> None:
    configurations = PluginConfigurations(registry)
    first = await configurations.form("ann.cup")
    await configurations.write("ann.cup", {"COUNT": 4}, expected=first.revision)
    with pytest.raises(ConfigurationChanged, match="was read: COUNT") as refused:
        await configurations.write("ann.cup", {"COUNT": 8}, expected=first.revision)
    assert refused.value.changed == ("COUNT",)
    now = await configurations.form("ann.cup")
    assert refused.value.revision == now.revision
    file_of(world).write_text(file_of(world).read_text().replace("LOUD: false", "LOUD: true"))
    with pytest.raises(ConfigurationChanged) as by_hand:
        await configurations.write("ann.cup", {"COUNT": 8}, expected=now.revision)
    assert by_hand.value.changed == ("LOUD",)
    with pytest.raises(ConfigurationChanged, match=r"was read\."):
        await configurations.write("ann.cup", {"COUNT": 8}, expected="")


async def test_a_change_of_a_field_that_needs_a_reload_reloads_the_plugin(
    registry: PluginRegistry,
) -> None:
    configurations = PluginConfigurations(registry)
    form = await configurations.form("ann.cup")
    before, other = registry.loaded("ann.cup"), registry.loaded("ann.bare")
    change = await configurations.write("ann.cup", {"PORT": 2}, expected=form.revision)
    assert change.reloaded
    assert registry.loaded("ann.cup") is not before
    assert registry.loaded("ann.cup").get_config().PORT == 2
    assert registry.loaded("ann.bare") is other


async def test_a_broken_file_is_reported_and_can_be_corrected_in_the_form(
    registry: PluginRegistry, world: World
) -> None:
    file_of(world).write_text("COUNT: [\n")
    configurations = PluginConfigurations(registry)
    form = await configurations.form("ann.cup")
    assert "no valid YAML" in form.problem
    assert form.values["COUNT"] == 3
    await configurations.write("ann.cup", {"COUNT": 7}, expected=form.revision)
    assert (await configurations.form("ann.cup")).problem == ""
    assert registry.loaded("ann.cup").get_config().COUNT == 7


async def test_a_plugin_without_a_configuration_has_no_form(registry: PluginRegistry) -> None:
    configurations = PluginConfigurations(registry)
    assert configurations.has_form("ann.cup")
    assert not configurations.has_form("ann.bare")
    assert not configurations.has_form("ann.nobody")
    with pytest.raises(NoConfiguration, match=r"ann\.bare has no configuration"):
        await configurations.form("ann.bare")
    await registry.disable("ann.cup")
    with pytest.raises(UnknownPlugin, match="is not loaded"):
        await configurations.form("ann.cup")
