"""The page of settings says in each language what a setting does and which values it has."""

import re
from pathlib import Path

import pytest

from nekro_core.app.settings import Settings
from nekro_core.app.settings_catalogue import declared_settings, setting_infos
from nekro_core.chat.catalogue import LANGUAGES
from nekro_core.console.setting_texts import help_of, translations, type_of
from nekro_core.console.texts import console_texts
from nekro_core.system.setting_info import SettingInfo
from nekro_core.system.setting_type import TYPE_WORDS

TRANSLATED = [language for language in LANGUAGES if language != "en"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a new bot with a second model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEKRO_DATA_DIR", str(tmp_path))
    (tmp_path / "settings.toml").write_text(
        '[models.clever]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
    )
    return Settings.load()


def info(settings: Settings, name: str) -> SettingInfo:
    return next(each for each in setting_infos(settings) if each.name == name)


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_description_is_translated_and_keeps_the_words_between_backticks(
    settings: Settings, language: str
) -> None:
    described = {each.name: each.description for each in declared_settings(settings)}
    own = {name for name, text in described.items() if text and not name.startswith("models.")}
    texts = translations(language)
    assert own == texts.keys()
    for name in own:
        code = set(re.findall(r"`[^`]+`", described[name]))
        assert set(re.findall(r"`[^`]+`", texts[name])) == code, name


def test_the_english_names_of_types_equal_those_in_the_code() -> None:
    english = console_texts().keys("en")
    assert {name: english[f"settings.type_{name}"] for name in TYPE_WORDS} == TYPE_WORDS


def test_settings_of_a_named_model_have_the_descriptions_of_those_of_the_default_model(
    settings: Settings,
) -> None:
    named, default = info(settings, "models.clever.model"), info(settings, "llm.model")
    assert help_of(named, "zh") == help_of(default, "zh") != default.description
    assert help_of(named, "en") == default.description


def test_a_type_is_described_in_the_language_of_the_page(settings: Settings) -> None:
    port = info(settings, "port")
    assert type_of(port, "en") == port.type
    assert type_of(port, "zh") == "整数，最小 0，最大 65535"
    assert type_of(info(settings, "agent.mode"), "ja") == "選択肢：code, tools"
    assert type_of(info(settings, "agent.names"), "zh") == "列表，每项：文本"
    assert type_of(info(settings, "llm.api_key"), "ja") == "秘密の文字列"
