"""Checks the limits in a JSON Schema, such as ``minimum`` and ``pattern``, with pydantic."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeGuard

from pydantic import AfterValidator, Field

from nekro_core.system.bounded_pattern import LIMIT_S

NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
LENGTH_LIMITS = ("minLength", "maxLength", "minItems", "maxItems")
_LONGEST_PATTERN = 1000


def limited(annotation: Any, schema: Mapping[str, Any]) -> Any:
    """Add the limits of a schema to the type of its values. Limits for values of another type are
    left out."""
    kind = schema.get("type")
    checks: list[Any] = []
    if kind in ("integer", "number"):
        checks += _number_checks(schema, whole=kind == "integer")
    elif kind == "string":
        checks += _lengths(schema, "minLength", "maxLength")
        if check := _pattern_check(schema.get("pattern")):
            checks.append(AfterValidator(check))
    elif kind == "array":
        checks += _lengths(schema, "minItems", "maxItems")
        if schema.get("uniqueItems") is True:
            checks.append(AfterValidator(_without_doubles))
    choices = schema.get("enum")
    if choices:
        checks.append(AfterValidator(_one_of(choices)))
    if "const" in schema:
        checks.append(AfterValidator(_one_of([schema["const"]])))
    return Annotated[annotation, *checks] if checks else annotation


def limits_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits among the keys of a schema, without invalid limits."""
    names = (*NUMBER_LIMITS, *LENGTH_LIMITS)
    made = {name: schema[name] for name in names if is_limit(schema.get(name))}
    if isinstance(schema.get("pattern"), str):
        made["pattern"] = schema["pattern"]
    if "const" in schema and isinstance(schema["const"], bool | int | float | str | None):
        made["const"] = schema["const"]
    if schema.get("uniqueItems") is True:
        made["uniqueItems"] = True
    return made


def is_limit(value: Any) -> TypeGuard[int | float]:
    """Return True if a value may be a limit: a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number_checks(schema: Mapping[str, Any], *, whole: bool) -> list[Any]:
    checks: list[Any] = []
    if is_limit(least := schema.get("minimum")):
        checks.append(Field(ge=math.ceil(least) if whole else least))
    if is_limit(most := schema.get("maximum")):
        checks.append(Field(le=math.floor(most) if whole else most))
    # Pydantic refuses a fraction as a limit of whole numbers.
    if is_limit(below := schema.get("exclusiveMinimum")):
        checks.append(Field(gt=math.floor(below) if whole else below))
    if is_limit(above := schema.get("exclusiveMaximum")):
        checks.append(Field(lt=math.ceil(above) if whole else above))
    step = schema.get("multipleOf")
    if is_limit(step) and step > 0 and not (whole and step != int(step)):
        checks.append(Field(multiple_of=int(step) if whole else step))
    return checks


def _lengths(schema: Mapping[str, Any], least: str, most: str) -> list[Any]:
    checks: list[Any] = []
    if is_limit(shortest := schema.get(least)) and shortest >= 0:
        checks.append(Field(min_length=math.ceil(shortest)))
    if is_limit(longest := schema.get(most)) and longest >= 0:
        checks.append(Field(max_length=math.floor(longest)))
    return checks


def _pattern_check(pattern: Any) -> Callable[[str], str] | None:
    """Make a check with a regular expression and a time limit. Return None if the pattern is
    invalid.

    Pydantic's own patterns have no look-ahead, which authors use.
    """
    if not isinstance(pattern, str) or not pattern or len(pattern) > _LONGEST_PATTERN:
        return None
    import regex  # noqa: PLC0415 - it takes 0.1 s, and few tools need it

    try:
        compiled = regex.compile(pattern)
    except regex.error:
        return None

    def check(value: str) -> str:
        try:
            found = compiled.search(value, timeout=LIMIT_S)
        except TimeoutError:
            raise ValueError(f"The pattern {pattern!r} takes too long on this text") from None
        if found is None:
            raise ValueError(f"Text should match the pattern {pattern!r}")
        return value

    return check


def _one_of(choices: Any) -> Callable[[Any], Any]:
    allowed = list(choices)

    def check(value: Any) -> Any:
        if not any(_equal(value, each) for each in allowed):
            shown = ", ".join(map(repr, allowed[:20]))
            raise ValueError(f"Value should be one of: {shown}")
        return value

    return check


def _equal(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal. `True` does not equal 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _without_doubles(values: list[Any]) -> list[Any]:
    seen: list[Any] = []
    for each in values:
        if any(_equal(each, other) for other in seen):
            raise ValueError(f"Items should be unique, but {each!r} is there twice")
        seen.append(each)
    return values
