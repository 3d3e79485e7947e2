"""Turns types into JSON Schema, converters and text, and a tool into the schema of a function in
the Chat Completions API."""

import types
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.warnings import ArbitraryTypeWarning

from nekro_core.system.errors import NekroError
from nekro_core.tools.tool import Tool

# The model may write a number where a text is expected, such as an id without quotes. The number is
# accepted and becomes a text.
_LENIENT = ConfigDict(coerce_numbers_to_str=True, arbitrary_types_allowed=True)
_PATH_FORMATS = ("path", "file-path", "directory-path")
"""Pydantic's formats of `Path`, `FilePath` and `DirectoryPath`."""


class UnsupportedType(NekroError, TypeError):
    """There is no conversion of arguments to an annotation."""


def converter(annotation: Any) -> Callable[[Any], Any]:
    """Make a function that converts a value from a box to the type. Raises `UnsupportedType`."""
    return _adapter(annotation).validate_python


def type_schema(annotation: Any) -> dict[str, Any]:
    """Get the JSON Schema of a type. A type without a schema gets the empty schema, which allows
    any value."""
    try:
        return _adapter(annotation).json_schema()
    except (PydanticInvalidForJsonSchema, UnsupportedType):
        return {}


def names_host_path(schema: Any) -> bool:
    """Return True if a value of this schema contains a `pathlib` path at any level."""
    if isinstance(schema, Mapping):
        if schema.get("format") in _PATH_FORMATS:
            return True
        return any(map(names_host_path, schema.values()))
    return isinstance(schema, list) and any(map(names_host_path, schema))


def function_schema(tool: Tool, name: str = "") -> dict[str, Any]:
    """Make the schema of a tool as a function of the Chat Completions API. ``name`` is the
    function's name; empty for the tool's Python name. Each dot in it becomes ``__``. Variadic
    parameters are left out, because the API does not know them."""
    parameters = [each for each in tool.parameters if not each.variadic]
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for each in parameters:
        schema = dict(each.schema)
        definitions |= schema.pop("$defs", {})
        if each.description:
            schema["description"] = each.description
        if not each.required and _is_plain(each.default):
            schema["default"] = each.default
        properties[each.name] = schema
    schema = {
        "type": "object",
        "properties": properties,
        "required": [each.name for each in parameters if each.required],
        "additionalProperties": False,
    }
    if definitions:
        schema["$defs"] = definitions
    shown = (name or tool.python_name).replace(".", "__")
    told = "\n\n".join(filter(None, (tool.summary or tool.description, tool.details)))
    return {
        "type": "function",
        "function": {"name": shown, "description": told, "parameters": schema},
    }


def type_text(annotation: Any) -> str:
    """Write a type as an author would: ``list[str]``, ``str | None``, ``Literal['a']``."""
    if annotation is Any:
        return "Any"
    if annotation is None or annotation is types.NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return type_text(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(type_text, arguments))
    if origin is not None and arguments:
        name = getattr(annotation, "__name__", "") or getattr(origin, "__name__", str(origin))
        return f"{name}[{', '.join(_argument_text(each) for each in arguments)}]"
    if isinstance(annotation, type):
        return annotation.__qualname__.rpartition(".")[2]
    return str(annotation).replace("typing.", "")


def _argument_text(argument: Any) -> str:
    if isinstance(argument, list):
        return f"[{', '.join(map(type_text, argument))}]"
    return type_text(argument)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    with warnings.catch_warnings():
        # For an annotation that is not a type, Pydantic only warns, and then checks no values. So
        # the warning is made an error here.
        warnings.simplefilter("error", ArbitraryTypeWarning)
        try:
            return _lenient_adapter(annotation)
        except (
            PydanticUserError,
            PydanticSchemaGenerationError,
            ArbitraryTypeWarning,
            NameError,
            TypeError,
            ValueError,
        ) as error:
            reason = str(error).partition("\n")[0]
            raise UnsupportedType(f"{type_text(annotation)}: {reason}") from None


def _lenient_adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation, config=_LENIENT)
    except PydanticUserError as error:
        # Pydantic's classes, dataclasses and TypedDicts have a configuration of their own, and
        # Pydantic accepts no other configuration for them.
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(annotation)


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
