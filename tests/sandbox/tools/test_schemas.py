"""The schemas of the tools equal the schemas in the design document (``agent_tool_api.txt``), in
three formats."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nekro_core.sandbox.tools import TOOL_NAMES, anthropic_tools, mcp_tools, openai_tools
from nekro_core.sandbox.tools.description import ADDED, DOCUMENT
from nekro_core.sandbox.tools.inputs import read_input
from nekro_core.sandbox.tools.result import SandboxToolError

PAGE = (Path(__file__).parent / "agent_tool_api.txt").read_text(encoding="utf-8")


def printed() -> list[dict[str, Any]]:
    """The schemas as the document prints them."""
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def test_the_schemas_equal_those_of_the_document() -> None:
    assert [dict(tool) for tool in DOCUMENT] == printed()
    assert list(TOOL_NAMES) == [tool["name"] for tool in printed()]
    assert len(TOOL_NAMES) == 8


def test_offered_schemas_add_only_texts_and_refuse_unknown_fields() -> None:
    for offered, original in zip(mcp_tools(), printed(), strict=True):
        assert offered["description"].startswith(original["description"])
        schema = offered["inputSchema"]
        assert schema.pop("additionalProperties") is False
        properties = schema["properties"]
        for name in ADDED.get(offered["name"], {}):
            del properties[name]
        wanted = original["inputSchema"]
        for name, each in properties.items():
            text = each.pop("description", "")
            told = wanted["properties"][name].pop("description", "")
            assert text.startswith(told)
        assert schema == wanted


def test_every_default_is_in_its_description() -> None:
    for tool in mcp_tools():
        for name, each in tool["inputSchema"]["properties"].items():
            assert each["description"], (tool["name"], name)
            if "default" in each:
                assert f"default {json.dumps(each['default'])}" in each["description"]


def test_the_three_formats_have_the_same_content() -> None:
    for mcp, anthropic, openai in zip(mcp_tools(), anthropic_tools(), openai_tools(), strict=True):
        assert set(mcp) == {"name", "description", "inputSchema"}
        assert anthropic == {
            "name": mcp["name"],
            "description": mcp["description"],
            "input_schema": mcp["inputSchema"],
        }
        assert openai == {
            "type": "function",
            "function": {
                "name": mcp["name"],
                "description": mcp["description"],
                "parameters": mcp["inputSchema"],
            },
        }
    assert [tool["name"] for tool in mcp_tools({"glob", "shell"})] == ["shell", "glob"]


def test_changing_a_returned_schema_changes_no_other_copy() -> None:
    mcp_tools()[0]["inputSchema"]["properties"]["command"]["type"] = "number"
    assert mcp_tools()[0]["inputSchema"]["properties"]["command"]["type"] == "string"
    assert [dict(tool) for tool in DOCUMENT] == printed()


def test_missing_arguments_get_their_defaults() -> None:
    given = read_input("shell", {"command": "ls"})
    assert given.values == {
        "sandbox": "default",
        "command": "ls",
        "timeout_ms": 30000,
        "working_dir": "/home/user",
    }
    assert given.given == {"command"}
    assert read_input("sandbox_create", {"sandbox": "x"}).values["image"] == "node:22"


@pytest.mark.parametrize(
    ("tool", "given", "code", "message"),
    [
        ("nope", {}, "unknown_tool", "Unknown tool: nope"),
        ("shell", None, "invalid_input", "expected an object with the tool's inputs, got None"),
        ("shell", ["ls"], "invalid_input", "got ['ls']"),
        ("shell", {}, "invalid_input", "shell needs command"),
        ("transfer", {"from_path": "a"}, "invalid_input", "needs from_sandbox, to_sandbox"),
        ("shell", {"cmd": "ls"}, "invalid_input", "no input 'cmd'"),
        ("shell", {"comand": "ls"}, "invalid_input", "did you mean 'command'?"),
        ("shell", {"command": None}, "invalid_input", "command: expected a string, got None"),
        ("shell", {"command": ["ls"]}, "invalid_input", "command: expected a string"),
        ("shell", {"command": "\ud800"}, "invalid_input", "surrogate"),
        ("shell", {"command": "ls", "timeout_ms": "5"}, "invalid_input", "expected a number"),
        ("shell", {"command": "ls", "timeout_ms": True}, "invalid_input", "expected a number"),
        ("shell", {"command": "ls", "timeout_ms": 1e999}, "invalid_input", "expected a number"),
        ("shell", {"command": "ls", 5: 6}, "invalid_input", "no input 5"),
        ("read_file", {"path": 5}, "invalid_input", "path: expected a string, got 5"),
        ("write_file", {"path": "a", "content": "", "append": 1}, "invalid_input", "true or false"),
        (
            "write_file",
            {"path": "a", "content": "", "encoding": "latin-1"},
            "invalid_input",
            "expected utf-8 or base64, got 'latin-1'",
        ),
    ],
)
def test_input_that_does_not_fit_is_refused(
    tool: str, given: object, code: str, message: str
) -> None:
    with pytest.raises(SandboxToolError) as refused:
        read_input(tool, given)
    assert refused.value.code == code
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [(-1, 0, 9), (10, 0, 9), (1.5, 0, 9), (-0.5, 0, 9), (2**80, 0, 2**53)],
)
def test_numbers_outside_their_limits_are_refused(value: float, least: int, most: int) -> None:
    given = read_input("read_file", {"path": "a", "offset": value})
    with pytest.raises(SandboxToolError, match=f"from {least} to {most}"):
        given.whole("offset", least=least, most=most)


def test_a_whole_number_may_be_written_as_a_float() -> None:
    given = read_input("browse", {"port": 8000.0})
    assert given.whole("port", least=1, most=65535) == 8000


@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "above 0"), (-5, "above 0"), (10**7, "above the most that there is, 600000")],
)
def test_durations_outside_their_limits_are_refused(value: float, message: str) -> None:
    given = read_input("shell", {"command": "ls", "timeout_ms": value})
    with pytest.raises(SandboxToolError, match=message):
        given.seconds("timeout_ms", most=600)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "invalid_input"),
        ("a\0b", "invalid_input"),
        ("x" * 5000, "invalid_input"),
        ("/etc/passwd", "path_escape"),
        ("../../etc/passwd", "path_escape"),
        ("/home/user/../../etc/passwd", "path_escape"),
        ("/home/userx", "path_escape"),
        ("/proc/self/root/etc/passwd", "path_escape"),
        ("/", "path_escape"),
    ],
)
def test_paths_that_lead_out_of_the_box_are_refused(path: str, code: str) -> None:
    with pytest.raises(SandboxToolError) as refused:
        read_input("read_file", {"path": path}).file_path("path")
    assert refused.value.code == code


@pytest.mark.parametrize(
    "path", ["a", "./a", "a/../b", "/home/user", "/tmp/a", "/app/uploads/a", "$(id)", "-rf", "*"]
)
def test_valid_paths_stay_unchanged(path: str) -> None:
    assert read_input("read_file", {"path": path}).file_path("path") == path
