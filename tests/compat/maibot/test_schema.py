"""Each way to declare parameters gives the same JSON schema and the same description of
parameters."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maibot_sdk import Tool
from maibot_sdk.components import collect_components
from maibot_sdk.types import ToolParameterInfo, ToolParamType

from nekro_core.compat.maibot.formats.schema import object_schema, parameters_of, without_host_names
from nekro_core.compat.maibot.plugin.components import components_of
from nekro_core.compat.maibot.tools import authors_text, details_block
from nekro_core.tools.arguments import ArgumentError, bind_arguments
from nekro_core.tools.tool import Tool as OurTool
from nekro_core.tools.tool import ToolKind

LISTED = [
    ToolParameterInfo(name="query", description="query text"),
    ToolParameterInfo(
        name="limit", param_type="integer", description="max", required=False, default=5
    ),
    ToolParameterInfo(name="kind", required=False, enum_values=["a", "b"]),
    ToolParameterInfo(
        name="tags",
        param_type="array",
        description="t",
        required=False,
        items_schema={"type": "string"},
    ),
    ToolParameterInfo(
        name="geo",
        param_type="object",
        description="g",
        required=False,
        properties={"lat": {"type": "number"}},
        required_properties=["lat"],
        additional_properties=False,
    ),
    ToolParameterInfo(name="r", param_type=ToolParamType.FLOAT, description="f", required=False),
    ToolParameterInfo(name="user_id", description="never shown"),
]
TEXT = """Parameter details:
- query: string, required. query text
- limit: integer, optional. max. Default: 5
- kind: string, optional. One of: a, b
- tags: array, optional. t
- geo: object, optional. g
- r: number, optional. f"""


def metadata_of(**declared: Any) -> dict[str, Any]:
    class Plugin:
        @Tool("search", detailed_description="Extra text.", **declared)
        async def search(self, **kwargs: Any) -> None: ...

    (component,), problems = components_of(collect_components(Plugin()), "")
    assert not problems
    return dict(component.metadata)


def our_tool(schema: dict[str, Any]) -> OurTool:
    parameters, _ = parameters_of(schema)

    async def handler() -> None: ...

    return OurTool(
        name="t",
        python_name="t",
        module="m",
        owner="o",
        kind=ToolKind.TOOL,
        handler=handler,
        parameters=parameters,
    )


def test_parameters_as_a_list_become_a_schema() -> None:
    metadata = metadata_of(parameters=LISTED)
    schema = without_host_names(object_schema(metadata["parameters"]))
    assert schema["required"] == ["query"]
    assert schema["properties"]["geo"] == {
        "type": "object",
        "description": "g",
        "properties": {"lat": {"type": "number"}},
        "required": ["lat"],
        "additionalProperties": False,
    }
    assert schema["properties"]["r"]["type"] == "number"
    assert details_block(schema) == TEXT
    assert authors_text(metadata) == "Extra text."


def test_the_schema_equals_the_example_of_the_specification() -> None:
    """The example is copied from MaiBot's specification, character by character."""
    properties = without_host_names(object_schema(metadata_of(parameters=LISTED)["parameters"]))
    assert json.dumps(properties["properties"]) == json.dumps(
        {
            "query": {"type": "string", "description": "query text"},
            "limit": {"type": "integer", "description": "max", "default": 5},
            "kind": {"type": "string", "description": "", "enum": ["a", "b"]},
            "tags": {"type": "array", "description": "t", "items": {"type": "string"}},
            "geo": {
                "type": "object",
                "description": "g",
                "properties": {"lat": {"type": "number"}},
                "required": ["lat"],
                "additionalProperties": False,
            },
            "r": {"type": "number", "description": "f"},
        }
    )


def test_parameters_as_a_dict_become_a_schema() -> None:
    old = {"query": {"type": "string", "required": True}, "n": {"type": "float"}, "bad": 3}
    whole = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    assert object_schema(old)["required"] == ["query"]
    assert list(object_schema(old)["properties"]) == ["query", "n"]
    assert object_schema(whole)["properties"]["query"]["type"] == "string"
    for form in (old, whole):
        assert authors_text(metadata_of(parameters=form)) == "Extra text."
    assert object_schema(None) == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "missing 'query'"),
        ({"query": "x", "limit": "many"}, "expected int"),
        ({"query": "x", "kind": "c"}, "expected Literal"),
        ({"query": "x", "geo": {"lat": 1, "lon": 2}}, "expected dict"),
        ({"query": "x", "user_id": "root"}, "no argument 'user_id'"),
    ],
)
def test_arguments_that_do_not_fit_the_schema_are_refused(given: dict[str, Any], told: str) -> None:
    schema = without_host_names(object_schema(metadata_of(parameters=LISTED)["parameters"]))
    with pytest.raises(ArgumentError, match=told):
        bind_arguments(our_tool(schema), (), given)


def test_arguments_are_converted() -> None:
    schema = without_host_names(object_schema(metadata_of(parameters=LISTED)["parameters"]))
    given = {"query": 7, "limit": "3", "tags": ["a"], "geo": {"lat": "1.5"}, "kind": None}
    bound = bind_arguments(our_tool(schema), (), given)
    assert bound.args[:2] == ("7", 3)
    assert {"lat": 1.5} in bound.args or bound.kwargs["geo"] == {"lat": 1.5}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)
names = st.text(max_size=6) | st.sampled_from(["query", "class", "a-b", "_ctx", "名", "user_id"])
keys = st.sampled_from(
    ["type", "description", "enum", "default", "required", "items", "properties", "param_type"]
)
properties = st.dictionaries(names, st.dictionaries(keys, json_values, max_size=5), max_size=5)


@settings(max_examples=60)
@given(st.one_of(properties, st.lists(json_values, max_size=4), json_values))
def test_any_value_becomes_a_valid_schema(parameters: Any) -> None:
    schema = object_schema(parameters)
    assert schema["type"] == "object"
    assert set(schema["required"]) <= set(schema["properties"])
    assert all(isinstance(each, dict) and "type" in each for each in schema["properties"].values())
    made, known = parameters_of(without_host_names(schema))
    assert all(each.name.isidentifier() for each in made)
    assert set(known.values()) == set(without_host_names(schema)["properties"])
    block = details_block(schema)
    assert not schema["properties"] or block.startswith("Parameter details:\n- ")
