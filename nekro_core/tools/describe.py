"""Builds a `Tool` from a function's signature, types and docstring, when the plugin is loaded.

A function that cannot be a tool is refused. A function that could be documented better is accepted
with a warning. Both messages name the file and the line, and say what to write.
"""

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docstring_parser
from docstring_parser.common import Docstring, DocstringExample, DocstringRaises

from nekro_core.tools.examples import example_code, worked_examples
from nekro_core.tools.problem import PluginProblem, ProblemSeverity
from nekro_core.tools.schema import (
    UnsupportedType,
    converter,
    names_host_path,
    type_schema,
    type_text,
)
from nekro_core.tools.tool import REQUIRED, Parameter, Tool, ToolKind, Visibility

Handler = Callable[..., Awaitable[Any]]

_CONTEXT_NAMES = ("_ctx", "ctx")
_CONTEXT_TYPE = "AgentCtx"
_DATA_TYPES = frozenset({"str", "int", "float", "bool", "bytes", "list", "dict", "List", "Dict"})
_MAX_KEYS = 12


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool, and the problems that its author should correct. ``tool`` is None if the function was
    refused."""

    tool: Tool | None
    problems: tuple[PluginProblem, ...] = ()


def describe(
    function: Handler,
    kind: ToolKind,
    *,
    name: str,
    module: str,
    owner: str,
    description: str = "",
    visibility: Visibility = Visibility.VISIBLE,
    timeout_s: float = 120.0,
    needs_chat: bool = True,
    confirms: bool = False,
    for_small_models: bool = True,
    lenient: bool = False,
    examples: str = "",
) -> ToolDescription:
    """Describe a handler ``async def function(_ctx: AgentCtx, ...)``. For a faulty handler no error
    is raised; its faults are in the returned problems.

    With ``lenient``, the first parameter is the context whatever its name is, unless its annotation
    is a type of data. A result that the tool's kind does not allow becomes text with ``str()``. If
    the return annotation shows that this will happen, there is a warning. ``examples`` are worked
    examples in addition to those in the docstring. The other arguments are fields of `Tool`.
    """
    where = place_of(function)
    python_name = _python_name(function)
    refusal = _refusal(function, python_name, where, lenient=lenient)
    if refusal is not None:
        return ToolDescription(None, (refusal,))
    context, *rest = inspect.signature(function).parameters.values()
    hints, problems = _annotations(function, python_name, where)
    document = _document(function)
    told = {each.arg_name.lstrip("*"): each.description or "" for each in document.params}
    parameters = []
    for each in rest:
        parameter, found = _parameter(each, hints.get(each.name, Any), told.get(each.name, ""))
        if names_host_path(parameter.schema):
            return ToolDescription(None, (_host_path(python_name, each.name, where),))
        parameters.append(parameter)
        problems += [_warning(f"{python_name}: {text}", where, remedy) for text, remedy in found]
    problems += _missing(python_name, where, context, rest, hints, document)
    if lenient and kind.gives_text and hints.get("return", str) is not str:
        text = f"{python_name} returns {type_text(hints['return'])}: the AI gets str() of it"
        problems.append(_warning(text, where, f"return str, as a tool of kind {kind.value} must"))
    example = "\n\n".join(_examples(document))
    result = document.returns
    tool = Tool(
        name=name,
        python_name=python_name,
        module=module,
        owner=owner,
        kind=kind,
        handler=function,
        description=description,
        summary=document.short_description or description,
        details=(document.long_description or "").strip(),
        parameters=tuple(parameters),
        returns_type=type_text(hints["return"]) if "return" in hints else "",
        returns=_result_text(result.type_name, result.description) if result else "",
        raises=tuple(_raises(document)),
        example=example,
        examples=worked_examples(example),
        more_examples=examples,
        visibility=visibility,
        where=where,
        timeout_s=timeout_s,
        needs_chat=needs_chat,
        confirms=confirms,
        for_small_models=for_small_models,
        converts_result=lenient,
    )
    return ToolDescription(tool, tuple(problems))


def place_of(function: object) -> str:
    """Get ``file:line`` of a function's definition, or its module if the line is not known."""
    plain = inspect.unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    if code is None:
        return getattr(function, "__module__", "") or repr(function)
    return f"{Path(code.co_filename)}:{code.co_firstlineno}"


def _python_name(function: object) -> str:
    """Get the name of a function, of the function in a `functools.partial`, or of a callable
    object's class."""
    inner = getattr(function, "func", function)
    return getattr(function, "__name__", "") or getattr(inner, "__name__", type(inner).__name__)


def _refusal(function: object, name: str, where: str, *, lenient: bool) -> PluginProblem | None:
    def error(message: str, remedy: str) -> PluginProblem:
        return PluginProblem(
            severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
        )

    wanted = f"async def {name}(_ctx: {_CONTEXT_TYPE}, ...)"
    if not callable(function):
        return error(f"{name} is no function", f"write {wanted}")
    call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)):
        return error(f"{name} is not async", f"write {wanted}")
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError) as problem:
        return error(f"{name} has no signature: {problem}", f"write {wanted}")
    if first is None or not (_is_context(first) or (lenient and _may_be_context(first))):
        came = "it has no parameters" if first is None else f"its first parameter is {first.name!r}"
        return error(f"{name} does not take the context: {came}", f"write {wanted}")
    return None


def _is_context(parameter: inspect.Parameter) -> bool:
    if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        return False
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameter.name in _CONTEXT_NAMES or text.rpartition(".")[2] == _CONTEXT_TYPE


def _may_be_context(parameter: inspect.Parameter) -> bool:
    positional = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return parameter.kind in positional and text.partition("[")[0] not in _DATA_TYPES


def _annotations(
    function: Handler, name: str, where: str
) -> tuple[dict[str, Any], list[PluginProblem]]:
    """Get the type of each parameter by its name. A type that cannot be resolved is left out, with
    a warning."""
    plain = inspect.unwrap(function)
    try:
        return typing.get_type_hints(plain, include_extras=True), []
    except Exception:  # noqa: BLE001 - evaluating an annotation runs the author's code
        hints: dict[str, Any] = {}
    problems = []
    for parameter, annotation in getattr(plain, "__annotations__", {}).items():
        holder = type("_Holder", (), {"__annotations__": {parameter: annotation}})
        try:
            scope = getattr(plain, "__globals__", {})
            hints |= typing.get_type_hints(holder, scope, include_extras=True)
        except Exception as error:  # noqa: BLE001 - as above
            if parameter not in _CONTEXT_NAMES:
                text = f"{name}: the annotation of {parameter!r} cannot be resolved: {error}"
                problems.append(_warning(text, where, "import the type at the module's top level"))
    return hints, problems


def _parameter(
    parameter: inspect.Parameter, annotation: Any, description: str
) -> tuple[Parameter, list[tuple[str, str]]]:
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    if default is None and annotation is not Any:
        annotation = _optional(annotation)
    problems: list[tuple[str, str]] = []
    try:
        convert = converter(annotation)
    except UnsupportedType as error:
        convert = None
        problems.append((f"{parameter.name!r} cannot be checked: {error}", "use a type of data"))
    schema = type_schema(annotation)
    keyword = parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
    found = Parameter(
        name=parameter.name,
        annotation=annotation,
        type_text="" if annotation is Any else type_text(annotation),
        schema=schema,
        description="\n".join(filter(None, (description, _keys(schema)))),
        default=default,
        keyword_only=keyword,
        variadic=parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD),
        convert=convert,
    )
    return found, problems


def _optional(annotation: Any) -> Any:
    try:
        return annotation | None
    except TypeError:  # not a type: `converter` reports it
        return annotation


def _keys(schema: dict[str, Any]) -> str:
    """Describe the keys of the dict that the model's code passes for a class of the plugin. Code in
    a box cannot import the class."""
    if "properties" not in schema:
        return ""
    keys = list(schema["properties"].items())
    required = schema.get("required", ())
    shown = [
        f"{key}{'' if key in required else '?'}: {value.get('type', 'any')}"
        for key, value in keys[:_MAX_KEYS]
    ]
    return f"A dict with {', '.join(shown)}{', ...' if len(keys) > _MAX_KEYS else ''}."


def _document(function: Handler) -> Docstring:
    text = inspect.getdoc(function) or ""
    try:
        return docstring_parser.parse(text)
    except docstring_parser.ParseError:
        document = Docstring()
        first, _, rest = text.partition("\n")
        document.short_description, document.long_description = first, rest.strip()
        return document


def _examples(document: Docstring) -> Iterator[str]:
    for each in document.meta:
        if isinstance(each, DocstringExample):
            parts = (each.snippet, each.description)
            yield example_code("\n".join(part for part in parts if part))


def _raises(document: Docstring) -> Iterator[str]:
    for each in document.meta:
        if isinstance(each, DocstringRaises):
            yield _result_text(each.type_name, each.description)


def _result_text(type_name: str | None, description: str | None) -> str:
    return ": ".join(filter(None, (type_name, (description or "").strip())))


def _missing(
    name: str,
    where: str,
    context: inspect.Parameter,
    rest: list[inspect.Parameter],
    hints: dict[str, Any],
    document: Docstring,
) -> Iterator[PluginProblem]:
    bare = [each.name for each in rest if each.annotation is each.empty]
    if bare:
        text = f"{name}: no annotation for {', '.join(bare)}, so any value is taken"
        yield _warning(text, where, f"write for example {bare[0]}: str")
    if context.annotation is context.empty:
        text = f"{name}: {context.name} has no annotation"
        yield _warning(text, where, f"write {context.name}: {_CONTEXT_TYPE}")
    if "return" not in hints:
        yield _warning(f"{name}: no return type", where, "write for example -> str")
    if not document.short_description:
        remedy = "say in a docstring what it does, its Args, Returns and an Example"
        yield _warning(f"{name}: no docstring, the model sees only its description", where, remedy)


def _host_path(name: str, parameter: str, where: str) -> PluginProblem:
    """Make the problem of a `Path` parameter. The context's methods take a `Path` as a file of the
    host, so the model must not pass a `Path`."""
    return PluginProblem(
        severity=ProblemSeverity.ERROR,
        message=f"{name}: {parameter!r} would be a path of the host, written by the model",
        where=where,
        remedy=f"write {parameter}: str, and hand it to _ctx, which looks for it in the box",
    )


def _warning(message: str, where: str, remedy: str) -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.WARNING, message=message, where=where, remedy=remedy
    )
