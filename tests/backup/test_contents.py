"""The tests check which files of the data folder a backup contains, and how secrets are removed
from settings files."""

import json
from pathlib import Path

import pytest
import tomlkit
import yaml

from nekro_core.backup.config_secrets import is_configuration, without_secrets
from nekro_core.backup.contents import CONTENTS, Part, find_files, part_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("nekro.sqlite3", Part.DATABASE),
        ("nekro.sqlite3-wal", Part.LEFT_OUT),
        ("nekro.sqlite3.new", Part.LEFT_OUT),
        ("secrets/web_access_token", Part.SECRET),
        ("secrets/erased", Part.DATA),
        ("matrix/token.json", Part.SECRET),
        ("adapter_data/slack/threads.json", Part.DATA),
        ("secrets/slack/token.json", Part.SECRET),
        ("conduct.toml", Part.DATA),
        (".conduct.toml.new", Part.LEFT_OUT),
        ("plugin_data/ann.weather/backups/old.txt", Part.DATA),
        ("plugin_data/ann.weather/.state.json.new", Part.LEFT_OUT),
        ("backups/nekro-20260101-000000.zip", Part.LEFT_OUT),
        ("models/a.gguf", Part.LEFT_OUT),
        ("something_of_a_plugin/file", Part.DATA),
    ],
)
def test_each_file_belongs_to_a_part_of_the_backup(path: str, part: Part) -> None:
    assert part_of(path) is part


def test_the_guide_has_the_table_of_these_parts() -> None:
    guide = (ROOT / "docs" / "operating-reference.md").read_text()
    rows = [
        f"| `data/{content.pattern}` | {content.part.value} | {content.what} |"
        for content in CONTENTS
    ]
    missing = [row for row in rows if row not in guide]
    assert missing == []


def test_files_that_vanish_and_links_do_not_stop_the_search(tmp_path: Path) -> None:
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / "a.png").write_text("")
    (tmp_path / "uploads" / "link").symlink_to(tmp_path)
    left_out: list[str] = []
    assert [each.path for each in find_files(tmp_path, left_out)] == ["uploads/a.png"]
    assert left_out == ["uploads/link: is a link"]
    assert [*find_files(tmp_path / "missing", left_out)] == []


SERVERS = {
    "mcpServers": {
        "search": {
            "command": "npx",
            "args": ["-y", "search"],
            "env": {"SEARCH": "abc"},
            "headers": {"X": "y"},
        }
    }
}


def test_configuration_files_lose_their_secrets_and_keep_the_rest() -> None:
    plain = without_secrets("mcp.json", json.dumps(SERVERS).encode())
    assert plain is not None
    (server,) = json.loads(plain)["mcpServers"].values()
    assert server["env"] == {"SEARCH": ""}
    assert server["headers"] == {"X": ""}
    assert server["args"] == ["-y", "search"]

    text = '# my note\ncity = "Delft"\nAPI_KEY = "k-1"\n[more]\ntokens = ["t-1", "t-2"]\n'
    plain = without_secrets("plugin_data/a/config.toml", text.encode())
    assert plain is not None
    assert b"# my note" in plain
    assert tomlkit.parse(plain.decode()).unwrap() == {
        "city": "Delft",
        "API_KEY": "",
        "more": {"tokens": ["", ""]},
    }
    text = "keywords: [one, two]\nmax_tokens: 100\naccess_token: t-1\n"
    plain = without_secrets("plugin_data/a/config.yaml", text.encode())
    assert plain is not None
    assert yaml.safe_load(plain) == {
        "keywords": ["one", "two"],
        "max_tokens": 100,
        "access_token": "",
    }


def test_a_file_without_secrets_is_copied_unchanged() -> None:
    data = b"# a comment\ncity: Delft # here\n"
    assert without_secrets("config.yaml", data) is data


@pytest.mark.parametrize("data", [b"\xff\xfe", b"{", b"a: [", b"= 1"])
def test_a_file_that_cannot_be_parsed_counts_as_secret(data: bytes) -> None:
    for name in ("config.json", "config.toml"):
        assert without_secrets(name, data) is None


def test_only_configuration_files_are_searched_for_secrets() -> None:
    assert is_configuration("plugin_data/a/config.yaml")
    assert is_configuration("mcp.json")
    assert not is_configuration("plugin_data/a/notes.json")
