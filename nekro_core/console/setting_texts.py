"""Says what a setting does, and its type, in the language of the page. The English descriptions are
in the code of the settings; the folder ``setting_help`` has their translations."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from nekro_core.console.texts import console_texts
from nekro_core.system.setting_info import SettingInfo
from nekro_core.system.setting_type import TYPE_WORDS, type_in_words


def help_of(info: SettingInfo, language: str) -> str:
    """Return what a setting does. If there is no translation, return the description in English."""
    return translations(language).get(_key(info.name), info.description)


def type_of(info: SettingInfo, language: str) -> str:
    """Return the type of a setting in a few words."""
    return type_in_words(info.schema, secret=info.secret, words=_type_words(language))


@cache
def translations(language: str) -> Mapping[str, str]:
    """Return a mapping from the settings' names to their translated descriptions. It is empty for
    English."""
    file = files(__package__) / "setting_help" / f"{language}.toml"
    if not file.is_file():
        return {}
    return tomllib.loads(file.read_text("utf-8"))


def _key(name: str) -> str:
    """Return the name of the setting that has the description. The settings of a named model have
    the descriptions of the default model's settings."""
    parts = name.split(".")
    return f"llm.{parts[2]}" if parts[0] == "models" and len(parts) == 3 else name


@cache
def _type_words(language: str) -> Mapping[str, str]:
    texts = console_texts().keys(language)
    return {name: texts[f"settings.type_{name}"] for name in TYPE_WORDS}
