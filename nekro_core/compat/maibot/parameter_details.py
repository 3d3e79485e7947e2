"""What the model reads of a MaiBot tool's parameters: one block, at the end of the description.

The SDK has put a block of its own, in Chinese, before the author's text when the tool was declared.
It is made here again from the parameters and taken away where it stands exactly so.
"""

from collections.abc import Mapping
from typing import Any

from maibot_sdk.types import ToolComponentInfo, build_tool_detailed_description
from pydantic import ValidationError

HEADING = "Parameter details:"


def details_block(schema: Mapping[str, Any]) -> str:
    """``Parameter details:`` and a line for each parameter; nothing where there is none.

    The form is the one that MaiBot's documentation of tools gives.
    """
    lines = [
        _line(name, each, required=name in schema["required"])
        for name, each in schema["properties"].items()
    ]
    return "\n".join([HEADING, *lines]) if lines else ""


def authors_text(metadata: Mapping[str, Any]) -> str:
    """The detailed description as its author wrote it."""
    text = str(metadata.get("detailed_description") or "").strip()
    try:
        info = ToolComponentInfo.model_validate(
            {
                "name": "tool",
                "parameters": metadata.get("parameters") or [],
                "parameters_raw": metadata.get("parameters_raw") or {},
            }
        )
    except ValidationError:
        return text  # parameters written by hand: then no block was made of them either
    block = build_tool_detailed_description(info.get_parameters_schema())
    if block and (text == block or text.startswith(f"{block}\n\n")):
        return text[len(block) :].strip()
    return text


def _line(name: str, schema: Mapping[str, Any], *, required: bool) -> str:
    kind = schema.get("type") or "any"
    parts = [str(schema.get("description") or "").strip()]
    if choices := schema.get("enum"):
        parts.append(f"One of: {', '.join(map(str, choices))}")
    if schema.get("default") is not None:
        parts.append(f"Default: {schema['default']}")
    told = ""
    for part in filter(None, parts):
        stop = "" if not told or told.endswith((".", "。", "!", "?", "！", "？")) else "."
        told = f"{told}{stop} {part}"
    return f"- {name}: {kind}, {'required' if required else 'optional'}.{told}"
