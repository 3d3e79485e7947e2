"""Settings are read as NoneBot reads them. An error names a setting as the operator wrote it."""

import sys
from pathlib import Path

import pytest

from nekro_core.app.logs import RedactingStream
from nekro_core.app.settings import Settings, adapter_settings
from nekro_core.app.settings_sources import SettingsError
from nekro_core.system.live_settings import LiveSettings


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
        ("NEKRO_LLM__PROTOCOL=grpc", "NEKRO_LLM__PROTOCOL"),
        ('NEKRO_ROLES__CHAT=["fast"]', "there is no model 'fast'; known are default, embedded"),
        ('NEKRO_ROLES__QUICK=["a/b"]', "no name of a model"),
        ('NEKRO_ROLES__DRAW=["default"]', "name a group of NEKRO_MODELS"),
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


@pytest.mark.parametrize("text", ['["Mei", "梅"]', "Mei"])
def test_a_setting_that_is_a_list_with_a_least_length_is_read_as_json(
    folder: Path, text: str
) -> None:
    (folder / ".env").write_text(f"NEKRO_AGENT__NAMES={text}\n")
    if text == "Mei":
        with pytest.raises(SettingsError, match="NEKRO_AGENT__NAMES: not readable as JSON"):
            Settings.load(folder)
    else:
        assert Settings.load(folder).nekro_agent.names == ("Mei", "梅")


def write_settings(folder: Path, text: str) -> None:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "settings.toml").write_text(text)


def test_settings_toml_in_the_data_folder_is_weaker_than_all_other_sources(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(
        folder,
        'port = 1000\nsuperusers = [10001]\n[agent]\npersona = "file"\nlanguage = "ja"\n'
        '[agent.modes]\n"web-private_a" = "code"\n[adapters]\nonebot_access_token = "t"\n',
    )
    (folder / "data" / "secrets.toml").write_text('[llm]\napi_key = "sk-of-the-file"\n')
    (folder / ".env").write_text("PORT=1001\nNEKRO_AGENT__PERSONA=dotenv\n")
    monkeypatch.setenv("NEKRO_AGENT__MODES", '{"web-private_b": "code"}')
    settings = Settings.load(folder)
    assert settings.port == 1001
    assert settings.superusers == {"10001"}
    assert settings.nekro_agent.persona == "dotenv"
    assert settings.nekro_agent.language == "ja"
    assert settings.nekro_agent.modes == {"web-private_b": "code"}, (
        "tables of two sources are not merged"
    )
    assert settings.nekro_llm.api_key.get_secret_value() == "sk-of-the-file"
    assert "sk-of-the-file" in settings.secrets()
    assert adapter_settings(settings)["onebot_access_token"] == "t"


def test_the_settings_file_is_read_from_the_data_folder_that_dotenv_names(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "settings.toml").write_text("port = 1000\n")
    (folder / ".env").write_text("NEKRO_DATA_DIR=elsewhere\n")
    assert Settings.load(folder).port == 1000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[agent.turn]\nmax_steps = "many"\n', "line 2: agent.turn.max_steps: .*valid integer"),
        ("[agent.turn]\n\nmax_stepz = 4\n", r"line 3: agent.turn.max_stepz: did you mean .*steps"),
        ("# c\n[agnt]\na = 1\n", r"line 2: agnt: did you mean agent\?"),
        ("nekro_agent = 1\n", "line 1: nekro_agent: did you mean|line 1: nekro_agent: no such"),
        ('data_dir = "x"\n', "line 1: data_dir: .*NEKRO_DATA_DIR"),
        ("port = 1\n[agent\n", "line 2: not TOML"),
        ('[llm]\nbase_url = "http://x/v1"\n', "line 1: llm: base_url is set but model is not"),
        ("port = 99999\n", "line 1: port: .*65535"),
        ("llm = 3\n", "line 1: llm: "),
        ("adapters = 3\n", "line 1: adapters: expected a table"),
        ('[models.draw]\nbase_url = "x"\nmodel = "m"\n', "line 2: models.draw.base_url: "),
    ],
)
def test_an_error_in_settings_toml_is_reported_with_line_and_setting(
    folder: Path, text: str, says: str
) -> None:
    write_settings(folder, text)
    with pytest.raises(SettingsError, match=f"settings.toml, {says}"):
        Settings.load(folder)


def test_a_settings_toml_that_is_not_text_is_reported_with_its_line(folder: Path) -> None:
    write_settings(folder, "")
    (folder / "data" / "settings.toml").write_bytes(b"port = 1\n# \xff\n")
    with pytest.raises(SettingsError, match="line 2: not UTF-8"):
        Settings.load(folder)


def test_a_wrong_secret_is_not_shown(folder: Path) -> None:
    write_settings(folder, "")
    (folder / "data" / "secrets.toml").write_text('[llm]\napi_key = "sk-\u00e9-secret"\n')
    with pytest.raises(SettingsError, match=r"secrets.toml, line 2: llm\.api_key") as error:
        Settings.load(folder)
    assert "-secret" not in str(error.value)


def test_two_bots_in_one_process_share_no_section(folder: Path) -> None:
    """A section object is changed in place, so a shared object would change for both bots."""
    first, second = Settings.load(folder), Settings.load(folder)
    for name in Settings.model_fields:
        if isinstance(getattr(first, name), LiveSettings):
            assert getattr(first, name) is not getattr(second, name), name
    assert first.nekro_agent.turn is not second.nekro_agent.turn
    assert first.nekro_delivery.media is not second.nekro_delivery.media
