"""Checks the arguments of a call from a box, and converts them to the annotated types."""

import difflib
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from nekro_core.system.errors import NekroError
from nekro_core.tools.stub import signature_text
from nekro_core.tools.tool import Parameter, Tool

_MAX_FAULTS = 3
_MAX_SHOWN = 120
_MAX_DETAIL = 300


class ArgumentError(NekroError, ValueError):
    """The arguments of a call do not match the signature. The text names the argument, its value,
    what was expected, and the signature."""


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """The arguments for the handler, without the context."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def bind_arguments(
    tool: Tool, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> BoundArguments:
    """Assign values to parameters as Python does, and convert each value. Raises
    `ArgumentError`."""
    try:
        return _bound(tool.parameters, args, kwargs or {})
    except ArgumentError as error:
        name = tool.name if tool.name.isidentifier() else tool.python_name
        raise ArgumentError(f"{name}(): {error}. Signature: {signature_text(tool)}") from None


def _bound(
    parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BoundArguments:
    places = [each for each in parameters if not each.keyword_only]
    named = {each.name: each for each in parameters if not each.variadic}
    rest = next((each for each in places if each.variadic), None)
    rest_named = next((each for each in parameters if each.keyword_only and each.variadic), None)
    places = [each for each in places if not each.variadic]
    if len(args) > len(places) and rest is None:
        raise ArgumentError(f"takes {_count(len(places))} by position, got {len(args)}")
    given = list(zip(places, args, strict=False))
    taken = {parameter.name for parameter, _ in given}
    positional = [_converted(parameter, value) for parameter, value in given]
    if rest is not None:
        positional += [_converted(rest, value) for value in args[len(places) :]]
    by_name: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name in taken:
            raise ArgumentError(f"argument {name!r} was given twice, by position and by name")
        parameter = named.get(name) or rest_named
        if parameter is None:
            raise ArgumentError(f"there is no argument {name!r}{_suggestion(name, named)}")
        by_name[name] = _converted(parameter, value, name)
    missing = [each.name for each in named.values() if each.required and each.name not in taken]
    missing = [name for name in missing if name not in by_name]
    if missing:
        raise ArgumentError(f"missing {', '.join(map(repr, missing))}")
    # A positional-only parameter is also accepted by name, because the stub does not show the
    # difference to the model.
    for parameter in places[len(positional) :]:
        if parameter.name not in by_name:
            break
        positional.append(by_name.pop(parameter.name))
    return BoundArguments(tuple(positional), by_name)


def _converted(parameter: Parameter, value: Any, name: str = "") -> Any:
    if parameter.convert is None:
        return value
    try:
        return parameter.convert(value)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        detail = _detail(faults[:_MAX_FAULTS])
        expected, came = parameter.type_text, _came(value)
        raise ArgumentError(
            f"argument {name or parameter.name!r}: expected {expected}, got {came}{detail}"
        ) from None
    except RecursionError:
        raise ArgumentError(f"argument {parameter.name!r} is nested too deeply") from None


def _detail(faults: Sequence[Any]) -> str:
    inner = [
        f"at {'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults if fault["loc"]
    ]
    plain = [fault["msg"] for fault in faults if not fault["loc"]]
    words = "; ".join(dict.fromkeys(inner or plain))
    return f" ({words[:_MAX_DETAIL]})" if words else ""


def _came(value: Any) -> str:
    if value is None:
        return "None"
    shown = reprlib.repr(value) if not isinstance(value, str) else repr(value[:_MAX_SHOWN])
    return f"{type(value).__name__} {shown}"


def _count(places: int) -> str:
    return "no arguments" if not places else f"{places} argument{'s'[: places != 1]}"


def _suggestion(name: str, named: Mapping[str, Parameter]) -> str:
    close = difflib.get_close_matches(name, named, 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
