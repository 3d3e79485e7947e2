"""Says the type of a setting in a few words, from the JSON schema of its value."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

TYPE_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "secret": "secret text",
        "one_of": "one of {values}",
        "or": " or ",
        "unset": "{type}, or unset",
        "boolean": "true or false",
        "integer": "whole number",
        "number": "number",
        "from": " from {bound}",
        "above": " above {bound}",
        "to": " to {bound}",
        "below": " below {bound}",
        "list": "list of: {type}",
        "table": "table",
        "table_of": "table of: {type}",
        "path": "path",
        "text": "text",
        "any": "any value",
    }
)
"""The words in English. The catalogue has them in each language (``settings.type_...``), for the
console."""
_BOUNDS = (
    ("from", "minimum"),
    ("above", "exclusiveMinimum"),
    ("to", "maximum"),
    ("below", "exclusiveMaximum"),
)


def type_in_words(
    schema: Mapping[str, Any], *, secret: bool = False, words: Mapping[str, str] = TYPE_WORDS
) -> str:
    """Return the type of a value in a few words.

    Args:
        schema: The JSON schema of the value, without references.
        secret: Whether the value must not be shown.
        words: The words, by the names of `TYPE_WORDS`.
    """
    if secret:
        return words["secret"]
    if "enum" in schema:
        values = ", ".join(str(each) or '""' for each in schema["enum"])
        return words["one_of"].format(values=values)
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return _one_of_types(schema["anyOf"], words)
    return _plain_type(schema, words)


def _one_of_types(schemas: Sequence[Mapping[str, Any]], words: Mapping[str, str]) -> str:
    kinds = (type_in_words(each, words=words) for each in schemas if each.get("type") != "null")
    type_ = words["or"].join(dict.fromkeys(kinds))
    nothing = any(each.get("type") == "null" for each in schemas)
    return words["unset"].format(type=type_) if nothing else type_


def _plain_type(schema: Mapping[str, Any], words: Mapping[str, str]) -> str:
    match schema.get("type"):
        case "boolean":
            return words["boolean"]
        case "integer" | "number" as kind:
            return words[kind] + _bounds(schema, words)
        case "array":
            return words["list"].format(type=type_in_words(schema.get("items", {}), words=words))
        case "object":
            inner = schema.get("additionalProperties")
            if not isinstance(inner, Mapping):
                return words["table"]
            return words["table_of"].format(type=type_in_words(inner, words=words))
        case "string":
            return words["path" if schema.get("format") == "path" else "text"]
    return words["any"]


def _bounds(schema: Mapping[str, Any], words: Mapping[str, str]) -> str:
    return "".join(
        words[name].format(bound=f"{schema[key]:g}")
        for name, key in _BOUNDS
        if schema.get(key) is not None
    )
