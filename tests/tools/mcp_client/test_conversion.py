"""Any tool of an untrusted MCP server becomes a tool that can be shown and called."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool as RemoteTool

from nekro_core.tools.arguments import bind_arguments
from nekro_core.tools.mcp_client.configuration import McpServerConfig
from nekro_core.tools.mcp_client.conversion import tools_of
from nekro_core.tools.schema import function_schema
from nekro_core.tools.stub import signature_text, stub
from nekro_core.tools.tool import Tool

SERVER = McpServerConfig(name="far", command="x")
TEXTS = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", "x"])
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS | st.lists(KINDS, max_size=2) | JSON,
        "enum": st.lists(JSON, max_size=3) | JSON,
        "anyOf": st.lists(JSON, max_size=2),
        "items": JSON,
        "default": JSON,
        "description": JSON,
        "$ref": st.just("#/$defs/a"),
    },
)


def described(*remote: RemoteTool, call: Any = None) -> list[Tool]:
    return tools_of(remote, SERVER, "far", call, 10)


def remote(name: str, schema: Mapping[str, Any], description: str = "") -> RemoteTool:
    return RemoteTool(name=name, description=description, input_schema=dict(schema))


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=12),
    st.dictionaries(st.text(max_size=8), SCHEMAS | JSON, max_size=4),
    st.lists(TEXTS, max_size=3) | JSON,
    st.text(max_size=40),
)
def test_any_remote_tool_has_a_stub_and_a_schema(
    name: str, properties: dict[str, Any], required: Any, description: str
) -> None:
    schema = {"type": "object", "properties": properties, "required": required, "$defs": {"a": {}}}
    for tool in described(remote(name, schema, description)):
        ast.parse(stub(tool))
        json.dumps(function_schema(tool))
        assert tool.python_name.isidentifier()
        assert len(tool.parameters) == len(properties)


async def test_arguments_are_sent_under_the_servers_own_names() -> None:
    got: list[tuple[str, Mapping[str, Any]]] = []

    async def call(name: str, arguments: Mapping[str, Any]) -> None:
        got.append((name, arguments))

    text = {"type": "string"}
    schema = {
        "properties": {"from": text, "a-b": text, "a b": text, "max": {"type": "integer"}},
        "required": ["a-b"],
    }
    (tool,) = described(remote("do/it", schema), call=call)
    expected = "do_it(a_b: str, from_: str | None = None, a_b_2: str | None = None, max: int | None"
    assert signature_text(tool).startswith(expected)
    bound = bind_arguments(tool, ["x"], {"from_": "y", "max": None})
    await tool.handler(None, *bound.args, **bound.kwargs)
    assert got == [("do/it", {"a-b": "x", "from": "y"})]


def test_a_very_large_schema_is_left_out() -> None:
    big = {"properties": {"a": {"enum": ["x" * 100] * 1000}, "b": {"description": "y" * 9000}}}
    (tool,) = described(remote("big", big, "z" * 9000))
    assert [each.schema for each in tool.parameters] == [{}, {}]
    assert len(stub(tool)) < 9000


def test_the_first_of_two_tools_with_one_name_is_used() -> None:
    tools = described(remote("a", {}, "First."), remote("a", {}, "Second."), remote("a ", {}))
    assert [(tool.python_name, tool.summary) for tool in tools] == [("a", "First."), ("a_2", "a_2")]
