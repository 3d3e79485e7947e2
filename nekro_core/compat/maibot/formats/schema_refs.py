"""Replaces references in a JSON Schema, and merges alternatives with null.

The schemas of pydantic's ``model_json_schema()``, which plugins pass as parameters, have both.
"""

from collections.abc import Mapping
from typing import Any

_DEEPEST = 16
_MOST_PARTS = 5000


def inlined(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace each ``$ref`` to a definition in the schema by that definition.

    Some references become an empty schema, which allows any value: a reference that cannot be
    found, that is nested deeper than 16 levels, or that makes the schema larger than 5,000 parts.
    """
    if not any(key in schema for key in ("$defs", "definitions")):
        return schema
    return _Inliner(schema).schema(schema, 0)


def without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge ``allOf``, and an ``anyOf`` or ``oneOf`` that has one alternative beside null, into the
    schema. Every parameter that is not required may be null here anyway."""
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        if not isinstance(parts, list):
            continue
        real = [each for each in parts if isinstance(each, Mapping) and each.get("type") != "null"]
        rest = {name: value for name, value in schema.items() if name != key}
        if key == "allOf":
            merged: dict[str, Any] = {}
            for each in real:
                merged |= each
            return without_null({**merged, **rest})
        if len(real) == 1:
            return without_null({**real[0], **rest})
        return {**rest, "anyOf": real}
    return schema


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._parts = 0

    def schema(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        self._parts += 1
        if depth > _DEEPEST or self._parts > _MOST_PARTS:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return self.schema({**self._found(reference), **rest}, depth + 1)
        return {
            key: self._value(value, depth)
            for key, value in schema.items()
            if key not in ("$defs", "definitions")
        }

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self.schema(value, depth + 1)
        if isinstance(value, list):
            return [self._value(each, depth) for each in value]
        return value

    def _found(self, reference: str) -> Mapping[str, Any]:
        place: Any = self._root
        for part in reference.removeprefix("#/").split("/"):
            place = place.get(part) if isinstance(place, Mapping) else None
        return place if isinstance(place, Mapping) else {}
