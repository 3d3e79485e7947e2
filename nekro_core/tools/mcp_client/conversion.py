"""Turns the tools of an MCP server into tools of the bot. Texts of the server can contain secrets
of its configuration; these are removed."""

import json
import keyword
import re
import sys
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp_types import Tool as RemoteTool

from nekro_core.tools.mcp_client.configuration import McpServerConfig
from nekro_core.tools.names import is_free_name
from nekro_core.tools.outcome import ToolFailure
from nekro_core.tools.schema import converter
from nekro_core.tools.tool import REQUIRED, Parameter, Tool, ToolKind

Call = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool of the server by the name that the server uses."""

_MAX_TEXT = 4000
"""Maximum number of characters of a tool's description. A longer text is cut."""
_LEAST_TEXT = 80
"""A tool's parameters share `_MAX_TEXT` characters for their descriptions, but each may have at
least this many."""
_MAX_SCHEMA = 16_000
"""Maximum number of characters of a tool's schema. If it is longer, the parameters get no
schema."""
_MAX_NAME = 64
_MAX_PARAMETERS = 64
_MAX_CHOICES = 12
_MAX_DEPTH = 4
_PLAIN: Mapping[str, tuple[str, Any]] = {
    "string": ("str", str),
    "integer": ("int", int),
    "number": ("float", float),
    "boolean": ("bool", bool),
    "object": ("dict", dict[str, Any]),
    "array": ("list", list[Any]),
    "null": ("None", Any),
}


def module_of(name: str, taken: Collection[str] = ()) -> str:
    """Make the module name that a server's tools have in code. It is an identifier that hides no
    name of Python and is not in ``taken``, the modules of other servers."""
    module = _identifier(name, "server")
    if not is_free_name(module) or module in sys.stdlib_module_names:
        module = f"mcp_{module}"
    return _unique(module, taken)


def tools_of(
    remote: Sequence[RemoteTool], server: McpServerConfig, module: str, call: Call, timeout_s: float
) -> list[Tool]:
    """Convert the tools ``remote``, in the server's order. If two tools have the same name, only
    the first is used. A tool without a name is left out. ``call`` calls a tool of the server.

    The names of the tools always have the form ``module.name``, so that a server's tool cannot take
    the name of a plugin's tool.
    """
    found: dict[str, Tool] = {}
    taken: set[str] = set()
    for each in remote:
        if each.name and each.name not in found:
            clean = server.without_secrets(each.name)
            python_name = _unique(_identifier(clean, "tool"), taken)
            taken.add(python_name)
            found[each.name] = _tool(each, python_name, server, module, call, timeout_s)
    return list(found.values())


def _tool(
    remote: RemoteTool,
    python_name: str,
    server: McpServerConfig,
    module: str,
    call: Call,
    timeout_s: float,
) -> Tool:
    schema = _object(remote.input_schema)
    parameters, names = _parameters(schema, server)
    order = tuple(each.name for each in parameters)
    optional = {each.name for each in parameters if not each.required}
    name = remote.name

    async def handler(_ctx: object, *args: Any, **kwargs: Any) -> Any:
        bound = {**dict(zip(order, args, strict=False)), **kwargs}
        given = {
            names.get(key, key): value
            for key, value in bound.items()
            if value is not None or key not in optional
        }
        try:
            json.dumps(given)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolFailure(f"an argument cannot be written as JSON: {error}") from None
        return await call(name, given)

    # The secrets are removed before the text is cut. Otherwise a part of a secret could remain at
    # its end.
    told = server.without_secrets(remote.description or remote.title or "")
    told = _printable(_bounded(told, _MAX_TEXT))
    first, _, rest = told.strip().partition("\n")
    return Tool(
        name=f"{module}.{python_name}",
        python_name=python_name,
        module=module,
        owner=f"mcp.{module}",
        kind=ToolKind.TOOL,
        handler=handler,
        description=first or python_name,
        summary=first or python_name,
        details=rest.strip(),
        parameters=parameters,
        visibility=server.visibility,
        where=f"MCP server {server.name}",
        timeout_s=timeout_s,
        needs_chat=False,
        for_small_models=False,
    )


def _parameters(
    schema: Mapping[str, Any], server: McpServerConfig
) -> tuple[tuple[Parameter, ...], Mapping[str, str]]:
    """Make the Python parameters, and a map from their names to the server's names. Required
    parameters come first. The map keeps names that contain a secret, because the server needs them.
    Only the server gets these names."""
    properties = _object(schema.get("properties"))
    wanted = schema.get("required")
    required = set(map(str, wanted)) if isinstance(wanted, list) else set()
    shared = {key: server.cleaned(schema[key]) for key in ("$defs", "definitions") if key in schema}
    made: list[Parameter] = []
    names: dict[str, str] = {}
    taken = list(properties.items())[:_MAX_PARAMETERS]
    for own, told in taken:
        clean = server.without_secrets(own)
        name = _unique(_identifier(clean, "argument"), names)
        names[name] = own
        each = _parameter(name, clean, _cleaned(_object(told), server), shared, own in required)
        most = max(_MAX_TEXT // len(taken), _LEAST_TEXT)
        made.append(replace(each, description=_printable(_bounded(each.description, most))))
    if sum(len(json.dumps(each.schema)) for each in made) > _MAX_SCHEMA:
        made = [replace(each, schema={}) for each in made]
    made.sort(key=lambda each: not each.required)
    return tuple(made), names


def _cleaned(told: Mapping[str, Any], server: McpServerConfig) -> dict[str, Any]:
    """Return a parameter's schema without secrets. A default that contains a secret is left out. If
    the server gets no value, it uses its default anyway."""
    clean: dict[str, Any] = server.cleaned(dict(told))
    if "default" in told and clean.get("default") != told["default"]:
        del clean["default"]
    return clean


def _parameter(
    name: str, own: str, told: Mapping[str, Any], shared: Mapping[str, Any], required: bool
) -> Parameter:
    text, annotation = _type(told)
    default = told.get("default")
    schema = {key: value for key, value in told.items() if key != "description"}
    if "$ref" in json.dumps(schema):
        schema |= shared
    described = str(told.get("description") or "")
    if name != own:
        described = f"{described} ({own!r} to the server)".strip()
    return Parameter(
        name=name,
        annotation=annotation,
        type_text=text if required or text in ("", "Any") or "None" in text else f"{text} | None",
        schema=schema,
        description=described,
        default=REQUIRED if required else default,
        convert=_convert(annotation, required=required),
    )


def _convert(annotation: Any, *, required: bool) -> Callable[[Any], Any] | None:
    if annotation is Any:
        return None
    return converter(annotation if required else annotation | None)


def _type(schema: Mapping[str, Any], depth: int = 0) -> tuple[str, Any]:
    """Get the Python type of a JSON Schema: the text for the model, and the annotation that the bot
    checks. The annotation may be less strict, since the server checks the rest."""
    if depth > _MAX_DEPTH:
        return "Any", Any
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and len(choices) <= _MAX_CHOICES:
        return f"Literal[{', '.join(map(repr, choices))}]", Any
    several = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list) and several:
        texts = dict.fromkeys(_type(_object(each), depth + 1)[0] for each in several[:_MAX_CHOICES])
        return " | ".join(texts), Any
    kind = schema.get("type")
    if isinstance(kind, list):
        known = [_PLAIN[each][0] for each in kind if isinstance(each, str) and each in _PLAIN]
        return " | ".join(known) or "Any", Any
    if kind == "array":
        inner = _type(_object(schema.get("items")), depth + 1)[0]
        return ("list" if inner == "Any" else f"list[{inner}]"), list[Any]
    return _PLAIN.get(kind, ("Any", Any)) if isinstance(kind, str) else ("Any", Any)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _identifier(name: str, instead: str) -> str:
    # Python normalizes names in code to NFKC, so a name in another form could not be called.
    clean = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", name)).strip("_")[:_MAX_NAME]
    for fitting in (clean, f"{instead}_{clean}"):
        if fitting.isidentifier():
            return f"{fitting}_" if keyword.iskeyword(fitting) else fitting
    return instead


def _unique(name: str, taken: Collection[str]) -> str:
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique


def _printable(text: str) -> str:
    return "".join(each for each in text if each.isprintable() or each in "\n\t")


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
