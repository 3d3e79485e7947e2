"""Settings are read as NoneBot reads them. An error names a setting as the operator wrote it."""

import sys
from pathlib import Path

import pytest

from nekro_core.app.logs import RedactingStream
from nekro_core.app.settings import Settings
from nekro_core.app.settings_sources import SettingsError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ENVIRONMENT", raising=False)
    return tmp_path


def test_the_defaults_work_without_any_setting(folder: Path) -> None:
    settings = Settings.load(folder)
    assert str(settings.host) == "127.0.0.1"
    assert not settings.nekro_llm.configured
    assert settings.database_url == "sqlite://data/nekro.sqlite3"


def test_files_and_environment_are_read_in_nonebots_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text("ENVIRONMENT=dev\nPORT=1001\nNEKRO_TRIGGER__DEBOUNCE_S=0.5\n")
    (folder / ".env.dev").write_text("PORT=1002\nNEKRO_AGENT__PERSONA=calm\n")
    monkeypatch.setenv("NEKRO_AGENT__PERSONA", "lively")
    settings = Settings.load(folder)
    assert settings.port == 1002
    assert settings.nekro_trigger.debounce_s == 0.5
    assert settings.nekro_agent.persona == "lively"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("NEKRO_AGNT__PERSONA=x", "did you mean NEKRO_AGENT"),
        ("NEKRO_AGENT__PERSNA=x", "NEKRO_AGENT__PERSNA"),
        ("NEKRO_TRIGGER__DEBOUNCE_S=soon", "NEKRO_TRIGGER__DEBOUNCE_S"),
        ("PORT=99999", "PORT"),
        ("NEKRO_LLM__BASE_URL=api.example.com", "NEKRO_LLM__BASE_URL"),
        ("NEKRO_LLM__BASE_URL=http://127.0.0.1:1/v1", "model"),
    ],
)
def test_a_wrong_name_or_value_of_a_setting_is_named_in_the_error(
    folder: Path, line: str, says: str
) -> None:
    (folder / ".env").write_text(line + "\n")
    with pytest.raises(SettingsError, match=says):
        Settings.load(folder)


def test_an_error_about_another_setting_does_not_show_the_api_key(folder: Path) -> None:
    (folder / ".env").write_text("NEKRO_LLM__API_KEY=sk-very-secret\nNEKRO_LLM__MODEL=m\n")
    with pytest.raises(SettingsError) as error:
        Settings.load(folder)
    assert "sk-very-secret" not in str(error.value)


def test_a_log_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    redactor = RedactingStream(sys.stdout)
    redactor.add_secrets(["abcdefgh-long-token", "abcdefgh", "key"])
    redactor.write("token abcdefgh-long-token, again abcdefgh; the word key stays\n")
    assert capsys.readouterr().out == "token ***, again ***; the word key stays\n"


def test_an_empty_data_folder_setting_means_the_default_folder(folder: Path) -> None:
    (folder / ".env").write_text("NEKRO_DATA_DIR=\n")
    assert Settings.load(folder).nekro_data_dir == Path("data")


@pytest.mark.parametrize(
    "line",
    ["NEKRO_AGENT__MODE=tools", 'NEKRO_AGENT__MODES={"web-private_lin": "tools"}'],
)
def test_tool_mode_is_refused_for_the_embedded_model(folder: Path, line: str) -> None:
    (folder / ".env").write_text(line)
    with pytest.raises(SettingsError, match="name an endpoint"):
        Settings.load(folder)
    (folder / ".env").write_text(
        f"{line}\nNEKRO_LLM__BASE_URL=http://127.0.0.1:9/v1\nNEKRO_LLM__MODEL=m"
    )
    assert "tools" in str(Settings.load(folder).nekro_agent)


@pytest.mark.parametrize(
    ("lines", "people", "prefixes"),
    [
        ("", {"web:*"}, ("/", "／")),
        (
            'SUPERUSERS=["10001", "telegram:7", "kaiheila:9"]',
            {"web:*", "onebot_v11:10001", "onebot_v12:10001", "telegram:7", "kook:9"},
            ("/", "／"),
        ),
        ('SUPERUSERS=["*", "telegram:*", ""]', {"web:*"}, ("/", "／")),
        ("SUPERUSERS=[10001]", {"web:*", "onebot_v11:10001", "onebot_v12:10001"}, ("/", "／")),
        ('COMMAND_START=["!", "/"]', {"web:*"}, ("!", "/", "／")),
        ('COMMAND_START=["", "."]', {"web:*"}, (".",)),
        ('COMMAND_START=[""]', {"web:*"}, ("/", "／")),
        ('COMMAND_START=["!"]\nNEKRO_COMMAND__PREFIXES=["#"]', {"web:*"}, ("#",)),
        (
            'SUPERUSERS=["onebot:1"]\nNEKRO_COMMAND__SUPER_USERS=["qq:2"]',
            {"qq:2", "onebot_v11:1", "onebot_v12:1"},
            ("/", "／"),
        ),
    ],
)
def test_settings_under_nonebots_names_are_read(
    folder: Path, lines: str, people: set[str], prefixes: tuple[str, ...]
) -> None:
    (folder / ".env").write_text(lines + "\n")
    commands = Settings.load(folder).commands
    assert commands.super_users == people
    assert commands.prefixes == prefixes
