"""Facades are the modules that have the names of nekro-agent's modules. Plugins can import them
while a bot runs, and not afterwards."""

import importlib
import sys

import pytest

from nekro_core.api import message, plugin, schemas
from nekro_core.compat.nekro_agent.facades import FACADES
from nekro_core.compat.nekro_agent.imports import install_facades
from nekro_core.compat.nekro_agent.refused import REFUSED


def facades() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "nekro_agent"]


def test_classes_of_nekro_agent_are_those_of_nekro_core_or_subclasses_of_them() -> None:
    with install_facades():
        theirs = importlib.import_module("nekro_agent.api.plugin")
        assert theirs.ConfigBase is plugin.ConfigBase
        assert theirs is not plugin
        assert plugin.__spec__.name == "nekro_core.api.plugin"
        base = importlib.import_module("nekro_agent.services.plugin.base")
        assert theirs.NekroPlugin is base.NekroPlugin
        assert issubclass(base.NekroPlugin, plugin.NekroPlugin)
        legacy = importlib.import_module("nekro_agent.api.schemas").AgentCtx
        assert issubclass(legacy, schemas.AgentCtx)
        assert importlib.import_module("nekro_agent.schemas.agent_ctx").AgentCtx is legacy


def test_a_module_can_be_imported_from_its_package() -> None:
    with install_facades():
        from nekro_agent.api import message as theirs  # noqa: PLC0415 - this form is tested

        assert theirs.send_text is message.send_text


@pytest.mark.parametrize("name", FACADES)
def test_each_facade_can_be_imported_before_all_others(name: str) -> None:
    with install_facades():
        assert importlib.import_module(name).__name__ == name
    assert facades() == []


def test_the_error_for_a_missing_name_of_a_module_lists_its_names() -> None:
    with install_facades(), pytest.raises(ImportError, match=r"'Nonsense'.*NekroPlugin"):
        from nekro_agent.api.plugin import Nonsense  # noqa: F401, PLC0415 - this form is tested


def test_the_error_for_a_missing_name_of_a_package_has_that_name() -> None:
    with install_facades(), pytest.raises(ImportError, match="'nonsense'"):
        from nekro_agent.api import nonsense  # noqa: F401, PLC0415 - this form is tested


def test_names_of_other_facades_can_be_imported_from_a_facade_too() -> None:
    with install_facades():
        from nekro_agent.services.plugin.base import (  # noqa: PLC0415 - this form is tested
            AgentCtx,
            DBChatMessage,
        )

        assert AgentCtx is importlib.import_module("nekro_agent.api.schemas").AgentCtx
        models = importlib.import_module("nekro_agent.models.db_chat_message")
        assert DBChatMessage is models.DBChatMessage


@pytest.mark.parametrize("entry", REFUSED)
def test_the_error_for_a_refused_name_says_what_to_use_instead(entry: str) -> None:
    module, _, name = entry.partition(":")
    lines = [f"from {module} import {name or 'anything'}"]
    if not name:
        lines += [f"import {module}", f"from {module}.core.bot import get_bot"]
    for line in lines:
        with install_facades(), pytest.raises(ImportError) as refused:
            exec(line)
        assert REFUSED[entry] in str(refused.value)


def test_a_plugin_can_ask_whether_a_module_has_a_name() -> None:
    with install_facades():
        core = importlib.import_module("nekro_agent.api.core")
        assert hasattr(core, "get_qdrant_client")
        assert not hasattr(core, "get_weather")
        assert getattr(core, "get_weather", None) is None
        with pytest.raises(AttributeError, match="'get_weather' here, and no other module has it"):
            _ = core.get_weather
        agent = importlib.import_module("nekro_agent.services.agent.run_agent")
        assert not hasattr(agent, "run_agent")
        assert not hasattr(importlib.import_module("nekro_agent.adapters"), "discord")


def test_a_refused_module_cannot_be_imported_from_its_package() -> None:
    with install_facades(), pytest.raises(ImportError, match="forward_message"):
        from nekro_agent.adapters import discord  # noqa: F401, PLC0415 - this form is tested


def test_the_error_for_a_missing_module_lists_the_modules_of_its_package() -> None:
    with install_facades(), pytest.raises(ImportError, match="there is nekro_agent") as refused:
        from nekro_agent.api.nonsense import Nonsense  # noqa: F401, PLC0415 - this form is tested
    assert "nekro_agent.api.core, " in str(refused.value)
    assert "onebot_util" not in str(refused.value), (
        "the list must not have modules of other packages"
    )


def test_the_error_for_a_missing_package_lists_the_modules() -> None:
    with install_facades(), pytest.raises(ModuleNotFoundError, match=r"nekro_agent\.models"):
        importlib.import_module("nekro_agent.nonsense")


def test_an_unlisted_module_has_the_names_of_all_facades() -> None:
    with install_facades():
        theirs = importlib.import_module("nekro_agent.services.plugin.of_another_version")
        assert issubclass(theirs.NekroPlugin, plugin.NekroPlugin)
        with pytest.raises(AttributeError, match="no other module has 'Nonsense'"):
            _ = theirs.Nonsense
        with pytest.raises(ImportError, match="no other module has 'Nonsense'"):
            from nekro_agent.services.plugin.of_another_version import (  # noqa: PLC0415
                Nonsense,  # noqa: F401
            )


@pytest.mark.parametrize("name", ["config", "logger"])
def test_a_module_does_not_hide_an_object_of_the_same_name(name: str) -> None:
    with install_facades():
        core = importlib.import_module("nekro_agent.core")
        inner = importlib.import_module(f"nekro_agent.core.{name}")
        assert getattr(core, name) is getattr(inner, name)


def test_no_facade_is_left_after_the_context_has_ended() -> None:
    finders = list(sys.meta_path)
    with install_facades():
        importlib.import_module("nekro_agent.api.core")
    assert facades() == []
    assert sys.meta_path == finders
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nekro_agent")


def test_the_facades_of_two_bots_stay_until_both_have_ended() -> None:
    with install_facades():
        with install_facades():
            first = importlib.import_module("nekro_agent.api.plugin")
        assert importlib.import_module("nekro_agent.api.plugin") is first
        importlib.import_module("nekro_agent.api.signal")
    assert facades() == []


@pytest.mark.parametrize(
    "name",
    ["core", "i18n", "message", "plugin", "recurring_timer", "schemas", "signal", "timer"],
)
def test_a_facade_offers_every_name_of_our_module_of_the_same_name(name: str) -> None:
    ours = importlib.import_module(f"nekro_core.api.{name}")
    with install_facades():
        theirs = importlib.import_module(f"nekro_agent.api.{name}")
        assert not [each for each in ours.__all__ if not hasattr(theirs, each)]
