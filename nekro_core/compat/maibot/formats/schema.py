"""Converts the parameters of a MaiBot tool to JSON Schema and to `Parameter` values.

Plugins write parameters as a list of `ToolParameterInfo` or of dicts, as a JSON Schema object, or
as the older map from names to properties. If one parameter is invalid, the other parameters can
still be used.
"""

import unicodedata
from collections.abc import Container, Mapping, Sequence
from keyword import iskeyword
from typing import Any, Literal, NotRequired, Required, Union

from pydantic import ConfigDict
from typing_extensions import TypedDict

from nekro_core.compat.maibot.formats.constraints import limited, limits_of
from nekro_core.compat.maibot.formats.schema_refs import inlined, without_null
from nekro_core.tools.schema import UnsupportedType, converter, type_text
from nekro_core.tools.tool import REQUIRED, Parameter

HOST_NAMES = frozenset({"stream_id", "chat_id", "group_id", "user_id", "platform", "message"})
"""Arguments that the host fills in. They are left out of the schemas, so the model cannot set
them."""

_TYPES = {
    "string": "string",
    "str": "string",
    "text": "string",
    "integer": "integer",
    "int": "integer",
    "number": "number",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "list": "array",
    "object": "object",
    "dict": "object",
    "null": "null",
}
_PYTHON: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
}
_DEEPEST = 16
"""How many nested levels of objects and lists are checked. On deeper levels any value is valid."""
_MOST_CHOICES = 200


def object_schema(parameters: Any) -> dict[str, Any]:
    """Convert a tool's parameters to an object schema. They may have any of the forms that the
    module's docstring lists. Never raises.

    The schema always has ``properties`` and ``required``. An unknown type becomes a string. If a
    list has no schema for its items, any items are valid.
    """
    if isinstance(parameters, Mapping):
        if parameters.get("type") == "object" or "properties" in parameters:
            return _object(inlined(parameters), 0)
        names = [str(name) for name, each in parameters.items() if _is_required(each)]
        shown = {str(name): each for name, each in parameters.items() if isinstance(each, Mapping)}
        return _object({"properties": shown, "required": names}, 0)
    if isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes):
        listed = [each for each in parameters if isinstance(each, Mapping) and each.get("name")]
        shown = {str(each["name"]): _of_listed(each) for each in listed}
        names = [str(each["name"]) for each in listed if each.get("required", True)]
        return _object({"properties": shown, "required": names}, 0)
    return {"type": "object", "properties": {}, "required": []}


def without_host_names(schema: Mapping[str, Any], kept: frozenset[str] = frozenset()) -> Any:
    """Remove from a schema the arguments that the host fills in, except those in ``kept``."""
    hidden = HOST_NAMES - kept
    return {
        **schema,
        "properties": {k: v for k, v in schema["properties"].items() if k not in hidden},
        "required": [name for name in schema["required"] if name not in hidden],
    }


def parameters_of(schema: Mapping[str, Any]) -> tuple[tuple[Parameter, ...], dict[str, str]]:
    """Convert a schema to parameters, required parameters first. Also returns a map from the Python
    names of the parameters to the plugin's names.

    The two names differ if the plugin's name is not a Python identifier. The parameters get no
    descriptions, because the tool's details contain the descriptions.
    """
    parameters: list[Parameter] = []
    names: dict[str, str] = {}
    for name, each in schema["properties"].items():
        own = python_name(name, names)
        names[own] = name
        required = name in schema["required"]
        annotation = _annotation(each, 0)
        default = each.get("default")
        parameters.append(
            Parameter(
                name=own,
                annotation=annotation,
                type_text="" if annotation is Any else type_text(annotation),
                schema=each,
                # If the schema of an optional parameter has no default, the stub shows `...`, and
                # the default of the handler applies.
                default=REQUIRED if required else (... if default is None else default),
                convert=_converter(annotation if required else _or_none(annotation)),
            )
        )
    parameters.sort(key=lambda each: not each.required)
    return tuple(parameters), names


def _of_listed(each: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a `ToolParameterInfo` that is given as a dict."""
    kind = _type(each.get("param_type", each.get("type")))
    schema: dict[str, Any] = {"type": kind, "description": str(each.get("description") or "")}
    if choices := each.get("enum_values") or each.get("enum"):
        schema["enum"] = choices
    if each.get("default") is not None:
        schema["default"] = each["default"]
    if kind == "array" and (items := each.get("items_schema", each.get("items"))) is not None:
        schema["items"] = items
    if kind == "object":
        schema["properties"] = each.get("properties") or {}
        schema["required"] = each.get("required_properties") or []
        if each.get("additional_properties") is not None:
            schema["additionalProperties"] = each["additional_properties"]
    return schema


def _object(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    raw = schema.get("properties")
    raw = raw if isinstance(raw, Mapping) else {}
    properties = {
        str(name): _property(each, depth + 1)
        for name, each in raw.items()
        if isinstance(each, Mapping)
    }
    wanted = schema.get("required")
    listed = [str(name) for name in wanted] if isinstance(wanted, list | tuple) else []
    listed += [str(name) for name, each in raw.items() if _is_required(each)]
    required = [name for name in dict.fromkeys(listed) if name in properties]
    return {"type": "object", "properties": properties, "required": required}


def _property(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        return {}
    schema = without_null(schema)
    if schema.get("anyOf"):
        alternatives = [_property(each, depth + 1) for each in schema["anyOf"]]
        return {"anyOf": alternatives, "description": str(schema.get("description") or "")}
    several = schema.get("type")
    if isinstance(several, list | tuple):  # a type such as ["string", "null"] becomes "string"
        named = [each for each in several if _type(each) != "null"]
        schema = {**schema, "type": named[0] if named else "string"}
    kind = _type(schema.get("type"))
    made: dict[str, Any] = {"type": kind}
    if schema.get("description") is not None:
        made["description"] = str(schema["description"])
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and choices:
        made["enum"] = [each for each in choices if _is_plain(each)] or None
        if made["enum"] is None or len(made["enum"]) != len(choices):
            del made["enum"]
    if schema.get("default") is not None:
        made["default"] = schema["default"]
    made |= limits_of(schema)
    if kind == "array":
        items = schema.get("items")
        made["items"] = _property(items, depth + 1) if isinstance(items, Mapping) and items else {}
    if kind == "object":
        inner = _object(schema, depth)
        made |= {"properties": inner["properties"], "required": inner["required"]}
        if isinstance(extra := schema.get("additionalProperties"), bool):
            made["additionalProperties"] = extra
        elif isinstance(extra, Mapping):
            made["additionalProperties"] = _property(extra, depth + 1)
    return made


def _type(value: Any) -> str:
    plain = str(getattr(value, "value", value) or "").strip().lower()
    return _TYPES.get(plain, "string")


def _is_required(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("required") is True


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _annotation(schema: Mapping[str, Any], depth: int) -> Any:
    if not schema or depth > _DEEPEST:
        return Any
    choices = schema.get("enum")
    # A float cannot be in a Literal.
    if choices and len(choices) <= _MOST_CHOICES and not any(isinstance(e, float) for e in choices):
        return Literal[tuple(choices)]
    if alternatives := schema.get("anyOf"):
        return Union[tuple(_annotation(each, depth + 1) for each in alternatives)]  # noqa: UP007
    return limited(_type_of(schema, depth), schema)


def _type_of(schema: Mapping[str, Any], depth: int) -> Any:
    match schema.get("type"):
        case "array":
            items = _annotation(schema.get("items") or {}, depth + 1)
            return list[items]  # type: ignore[valid-type] # made at run time
        case "object":
            return _object_type(schema, depth)
        case kind:
            return _PYTHON.get(str(kind), Any)


def _object_type(schema: Mapping[str, Any], depth: int) -> Any:
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    if not properties:
        return dict[str, Any]
    required = schema.get("required") or ()
    fields = {}
    for name, each in properties.items():
        inner = _annotation(each, depth + 1)
        fields[name] = Required[inner] if name in required else NotRequired[inner]
    make: Any = TypedDict
    made = make("dict", fields)  # this form allows keys that are not identifiers
    made.__pydantic_config__ = ConfigDict(extra="forbid" if extra is False else "allow")
    return made


def _or_none(annotation: Any) -> Any:
    return Any if annotation is Any else annotation | None


def _converter(annotation: Any) -> Any:
    try:
        return converter(annotation)
    except UnsupportedType:
        return None


def python_name(name: str, taken: Container[str], prefix: str = "p") -> str:
    """Convert a plugin's name to a similar Python identifier that is not in ``taken``."""
    normal = unicodedata.normalize("NFKC", name)  # Python normalizes names in this way
    clean = "".join(each if f"a{each}".isidentifier() else "_" for each in normal) or "_"
    if not clean.isidentifier() or clean.startswith("_ctx"):
        clean = f"{prefix}_{clean}"
    if iskeyword(clean):
        clean = f"{clean}_"
    unique, number = clean, 2
    while unique in taken:
        unique, number = f"{clean}_{number}", number + 1
    return unique
