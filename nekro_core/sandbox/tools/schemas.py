"""Writes the descriptions of the eight tools in the formats of different model APIs.

Models often do not get the ``default`` of a schema. So the description of each parameter has its
default too.
"""

import copy
import json
from collections.abc import Collection, Mapping
from typing import Any

from nekro_core.sandbox.tools.description import ADDED, DOCUMENT, MEANT, TOLD

TOOL_NAMES: tuple[str, ...] = tuple(tool["name"] for tool in DOCUMENT)
"""The names of the tools, in the order of the design document."""


def openai_tools(names: Collection[str] = TOOL_NAMES) -> list[dict[str, Any]]:
    """Return the tools as functions of OpenAI's Chat Completions API."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": description(tool),
                "parameters": input_schema(tool),
            },
        }
        for tool in DOCUMENT
        if tool["name"] in names
    ]


def anthropic_tools(names: Collection[str] = TOOL_NAMES) -> list[dict[str, Any]]:
    """Return the tools in the format of Anthropic's Messages API."""
    return _flat("input_schema", names)


def mcp_tools(names: Collection[str] = TOOL_NAMES) -> list[dict[str, Any]]:
    """Return the tools in the format of the Model Context Protocol's answer to ``tools/list``."""
    return _flat("inputSchema", names)


def description(tool: Mapping[str, Any]) -> str:
    """Return the document's description of a tool, with the sentences of `TOLD` added."""
    return f"{tool['description']} {TOLD[tool['name']]}"


def input_schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document's schema with descriptions of the parameters and with the parameters of
    `ADDED`. The schema allows no other parameters."""
    schema: dict[str, Any] = copy.deepcopy(dict(tool["inputSchema"]))
    properties = schema["properties"] | copy.deepcopy(dict(ADDED.get(tool["name"], {})))
    for name, each in properties.items():
        told = each.get("description") or MEANT.get(name, "")
        default = f"default {json.dumps(each['default'])}" if "default" in each else ""
        text = "; ".join(filter(None, (told, default)))
        if text:
            each["description"] = text
    return schema | {"properties": properties, "additionalProperties": False}


def _flat(key: str, names: Collection[str]) -> list[dict[str, Any]]:
    return [
        {"name": tool["name"], "description": description(tool), key: input_schema(tool)}
        for tool in DOCUMENT
        if tool["name"] in names
    ]
