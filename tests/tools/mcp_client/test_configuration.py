"""``mcp.json`` is read in its usual form, and errors say what is wrong with other forms."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.tools.mcp_client.configuration import (
    McpConfig,
    McpConfigError,
    read_configuration,
)
from nekro_core.tools.mcp_client.conversion import module_of
from nekro_core.tools.tool import Visibility

ENVIRONMENT = {"GITHUB_TOKEN": "ghp_0123456789", "HOME": "/home/lin"}


def read(**servers: Any) -> McpConfig:
    return read_configuration(json.dumps({"mcpServers": servers}), ENVIRONMENT)


def test_the_usual_form_of_mcp_json_is_read() -> None:
    found = read(
        github={
            "command": "npx",
            "args": ["-y", "server-github", "${HOME}/code"],
            "env": {"TOKEN": "${GITHUB_TOKEN}", "PORT": 8080},
            "autoApprove": ["whatever others understand"],
        },
        docs={
            "type": "streamable-http",
            "url": "https://lin:password1@docs.example.com/mcp?key=0123456789",
            "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"},
            "visibility": "visible",
            "timeout": 20,
        },
        older={"type": "sse", "url": "https://old.example.com/sse"},
        old={"command": "x", "disabled": True},
    )
    assert found.wrong == {}
    github, docs, older = found.servers
    assert (older.sse, docs.sse) == (True, False)
    assert github.args == ("-y", "server-github", "/home/lin/code")
    assert github.env == {"TOKEN": "ghp_0123456789", "PORT": "8080"}
    assert github.visibility is Visibility.DEFERRED
    assert github.without_secrets("ghp_0123456789 in /home/lin") == "[secret] in /home/lin"
    assert docs.place == "https://docs.example.com/mcp"
    assert docs.headers == {"Authorization": "Bearer ghp_0123456789"}
    assert docs.secrets == {"ghp_0123456789", "Bearer ghp_0123456789", "password1", "0123456789"}
    assert (docs.visibility, docs.timeout_s) == (Visibility.VISIBLE, 20)
    for secret in ("ghp_", "password1"):
        assert secret not in repr(found)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("npx", "expected an object, got str"),
        ({}, "either 'command' or 'url'"),
        ({"command": "a", "url": "http://b"}, "either 'command' or 'url'"),
        ({"command": ["npx"]}, "command: expected a text, got list"),
        ({"command": "a", "args": "b"}, "args: expected a list of texts, got str"),
        ({"command": "a", "args": [1]}, "args: expected a text, got int"),
        ({"command": "a", "env": ["b"]}, "env: expected an object of texts, got list"),
        ({"command": "a", "env": {"B": "${NO_SUCH_THING}"}}, "has no NO_SUCH_THING"),
        ({"command": "a", "cwd": "b\0"}, "NUL"),
        ({"url": "ftp://a"}, "expected http(s)://"),
        ({"url": "http://a", "type": "ws"}, "expected 'http' (streamable HTTP) or 'sse'"),
        ({"command": "a", "type": "http"}, "expected 'stdio'"),
        ({"command": "a", "timeout": -1}, "timeout: expected seconds"),
        ({"command": "a", "visibility": "maybe"}, "expected 'visible', 'deferred' or 'hidden'"),
    ],
)
def test_a_wrong_entry_is_reported_and_the_others_are_used(entry: Any, told: str) -> None:
    found = read(bad=entry, good={"command": "x"})
    assert told in found.wrong["bad"]
    assert [server.name for server in found.servers] == ["good"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"mcpServers": []}', "[" * 100_000])
def test_a_wrong_file_is_an_error(text: str) -> None:
    with pytest.raises(McpConfigError):
        read_configuration(text, {})


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("github", "github"),
        ("my-server", "my_server"),
        ("time", "mcp_time"),  # Python has a module of this name
        ("print", "mcp_print"),
        ("class", "class_"),
        ("1st", "server_1st"),
        ("天気", "天気"),
        ("@scope/pkg", "scope_pkg"),
    ],
)
def test_the_module_name_of_a_server_never_equals_a_python_name(name: str, module: str) -> None:
    assert module_of(name) == module
    assert module_of(name, {module}) == f"{module}_2"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(["command", "args", "env", "cwd", "url", "headers", "type", "timeout"])


@settings(max_examples=30)
@given(st.dictionaries(KEYS, JSON))
def test_any_entry_is_read_or_refused(entry: dict[str, Any]) -> None:
    found = read(any=entry)
    assert len(found.servers) + len(found.wrong) == 1
