"""A server that knows a secret cannot show it to the model in a description, a name or a result."""

import base64

import pytest
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent
from mcp_types import Tool as RemoteTool

from nekro_core.tools.mcp_client.configuration import McpServerConfig
from nekro_core.tools.mcp_client.conversion import tools_of
from nekro_core.tools.mcp_client.results import outcome_of_result
from nekro_core.tools.outcome import ToolReturnMedia
from nekro_core.tools.schema import function_schema
from nekro_core.tools.stub import stub
from nekro_core.tools.tool import Tool

SECRET = "a-token-that-nobody-may-see"
SERVER = McpServerConfig(name="far", command="x", secrets=frozenset({SECRET}))


async def no_call(name, arguments) -> None:
    raise AssertionError("no tool is called here")


def converted(properties: dict, description: str = "Does it.", name: str = "do") -> Tool:
    schema = {"type": "object", "properties": properties, "required": ["word"]}
    remote = RemoteTool(name=name, description=description, input_schema=schema)
    return tools_of([remote], SERVER, "far", no_call, 10)[0]


def shown(tool: Tool) -> str:
    """All texts of a tool that a model or a log can see."""
    return f"{tool!r} {stub(tool)} {function_schema(tool)} {tool.description} {tool.details}"


@pytest.mark.parametrize(
    "told",
    [
        {"type": "string", "description": f"The word. Use {SECRET}."},
        {"type": "string", "default": SECRET},
        {"type": "string", "enum": ["a", SECRET]},
        {"type": "string", "examples": [SECRET]},
        {"type": "object", "properties": {SECRET: {"title": SECRET}}},
        {"anyOf": [{"type": "string", "pattern": SECRET}, {"type": "null"}]},
    ],
)
def test_the_parameters_of_a_tool_hold_no_secret(told) -> None:
    assert SECRET not in shown(converted({"word": told}))
    assert SECRET not in shown(converted({"word": {}, "other": told}))


def test_the_name_of_a_parameter_holds_no_secret() -> None:
    tool = converted({"word": {}, f"{SECRET}!": {"type": "string"}})
    assert SECRET not in shown(tool)
    assert SECRET.replace("-", "_") not in shown(tool)


def test_a_secret_at_the_place_where_a_long_text_is_cut_leaves_no_part() -> None:
    for length in range(3960, 4000, 3):
        tool = converted({"word": {}}, description="x" * length + SECRET)
        assert SECRET[:8] not in shown(tool)
        tool = converted({"word": {"description": "x" * length + SECRET}})
        assert SECRET[:8] not in shown(tool)


def test_a_default_value_with_a_secret_is_not_shown() -> None:
    tool = converted({"word": {}, "other": {"type": "string", "default": SECRET}})
    (other,) = [each for each in tool.parameters if each.name == "other"]
    assert other.default is None


def test_the_name_and_the_type_of_a_medium_hold_no_secret() -> None:
    data = base64.b64encode(b"abc").decode()
    blob = BlobResourceContents(
        uri=f"https://far.example/file?token={SECRET}", mime_type=f"x/{SECRET}", blob=data
    )
    picture = ImageContent(type="image", mime_type=f"{SECRET}/png", data="no base64!")
    result = CallToolResult(content=[EmbeddedResource(type="resource", resource=blob), picture])
    outcome = outcome_of_result(result, SERVER)
    assert isinstance(outcome, ToolReturnMedia)
    assert SECRET not in repr(outcome)
    assert "far.example" in outcome.media[0].name
