"""``nekro get`` and ``nekro set`` read and write the settings files without a running bot."""

from pathlib import Path

import pytest

from tests.cli.nekro import nekro


def test_a_setting_is_written_and_read(folder: Path) -> None:
    done = nekro(folder, "set", "agent.language", "ja", "agent.names", '["Mei", "梅"]')
    assert done.status == 0, done.err
    assert done.out == 'agent.language = "ja"\nagent.names = ["Mei", "梅"]\n'
    got = nekro(folder, "get", "agent.names")
    assert got.out.startswith('["Mei", "梅"]\n  Names that people call the bot.')
    assert "from settings.toml" in got.out
    assert nekro(folder, "get", "NEKRO_AGENT__LANGUAGE").out.startswith('"ja"\n')
    done = nekro(folder, "set", "agent.language", "--unset")
    assert done.out == "agent.language: removed, the default applies\n"
    assert "from settings.toml" not in nekro(folder, "get", "agent.language").out


def test_all_settings_and_those_of_a_table_are_listed(folder: Path) -> None:
    listed = nekro(folder, "get").out
    assert "port = 0    # locked by PORT in .env\n" in listed
    assert "agent.turn.max_steps = 10\n" in listed
    assert "llm.api_key = (not set)\n" in listed
    table = nekro(folder, "get", "agent.turn").out
    assert all(line.startswith("agent.turn.") for line in table.splitlines())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["agent.turn.max_steps", "many"], "agent.turn.max_steps: Input should be a valid integer"),
        (["agent.namez", "Mei"], "did you mean agent.names?"),
        (["agent.names"], "agent.names: "),
        (["agent.language", "en", "agent.names"], "agent.names has no value"),
        ([], "expected a name and a value"),
        (["llm.base_url", "http://x/v1"], "name the model too"),
        (["port", "8099"], "PORT in .env gives the value"),
        (["data_dir", "x"], "NEKRO_DATA_DIR"),
        (["--from-env", "agent.names"], "no .env file has it"),
        (["--from-env", "NEKRO_DATA_DIR"], "stays in .env"),
    ],
)
def test_an_invalid_value_is_refused_and_not_written(
    folder: Path, words: list[str], says: str
) -> None:
    done = nekro(folder, "set", *words)
    assert done.status == 2
    assert says in done.err
    assert not (folder / "data" / "settings.toml").exists()


def test_a_secret_is_read_from_stdin_and_not_shown(folder: Path) -> None:
    done = nekro(folder, "set", "llm.api_key", typed="sk-1234567890\n")
    assert done.out == "llm.api_key: written\n"
    for shown in (nekro(folder, "get", "llm.api_key"), nekro(folder, "get")):
        assert "sk-1234567890" not in shown.out + shown.err
    assert nekro(folder, "get", "llm.api_key").out.startswith("(set)\n")
    assert (folder / "data" / "secrets.toml").stat().st_mode & 0o077 == 0


def test_dotenv_is_moved_to_the_settings_file_with_the_same_effect(folder: Path) -> None:
    (folder / ".env").write_text(
        "# ours\nPORT=0\nNEKRO_LLM__BASE_URL=http://x/v1\nNEKRO_LLM__MODEL='a model'\n"
        'export ONEBOT_ACCESS_TOKEN=secret-token\nNEKRO_AGENT__NAMES=["Mei"]\nNEKRO_DATA_DIR=data\n'
    )
    before = _values(nekro(folder, "get").out)
    done = nekro(folder, "set", "--from-env")
    assert done.status == 0, done.err
    assert "secret-token" not in done.out
    assert _values(nekro(folder, "get").out) == before
    left = (folder / ".env").read_text()
    assert left.startswith("# ours\n# PORT is port in data/settings.toml now\n")
    assert [line for line in left.splitlines() if not line.startswith("#")] == [
        "NEKRO_DATA_DIR=data"
    ]


def test_a_broken_file_is_reported_and_not_overwritten(folder: Path) -> None:
    (folder / "data").mkdir()
    path = folder / "data" / "settings.toml"
    path.write_text("[agent]\nnames = [\n")
    done = nekro(folder, "set", "agent.language", "ja")
    assert done.status == 2
    assert "data/settings.toml, line 2: not TOML" in done.err
    assert path.read_text() == "[agent]\nnames = [\n"


def test_the_command_restart_says_that_no_bot_runs(folder: Path) -> None:
    done = nekro(folder, "restart")
    assert done.status == 1
    assert "no bot runs with the data folder data" in done.err


def _values(listed: str) -> list[str]:
    return [line.partition("    # ")[0] for line in listed.splitlines()]
