"""Checks whether points match filters. The filters may be objects of `models` or of Qdrant's
client."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nekro_core.store.vectors import PointId
from nekro_core.system.errors import NekroError

_DEEPEST = 16


class InvalidFilter(NekroError, ValueError):
    """This store does not support a condition. The text names the condition."""


def matches_filter(
    condition: Any, point: PointId, payload: Mapping[str, Any], depth: int = 0
) -> bool:
    """Return True if a filter or condition is true for a point. Raises `InvalidFilter`."""
    if condition is None:
        return True
    if depth > _DEEPEST:
        raise InvalidFilter(f"the filter is nested more than {_DEEPEST} levels deep")
    if any(hasattr(condition, name) for name in ("must", "should", "must_not")):
        return _filter(condition, point, payload, depth)
    if (ids := getattr(condition, "has_id", None)) is not None:
        return point in chosen_ids(ids)
    if hasattr(condition, "key"):
        return _field(condition, payload)
    for name in ("is_empty", "is_null"):
        if (field := getattr(condition, name, None)) is not None:
            values = [*_values(payload, field.key)]
            return (not _has_value(values)) if name == "is_empty" else None in values
    raise InvalidFilter(f"this store does not support {type(condition).__name__}")


def chosen_ids(ids: Iterable[Any]) -> frozenset[PointId]:
    """Convert ids to the form in which points are stored. The number 7 and the text ``7`` are
    different ids. A UUID becomes a text."""
    return frozenset(each if isinstance(each, int) else str(each) for each in ids)


def _filter(given: Any, point: PointId, payload: Mapping[str, Any], depth: int) -> bool:
    def matches(condition: Any) -> bool:
        return matches_filter(condition, point, payload, depth + 1)

    should = _as_list(getattr(given, "should", None))
    return (
        all(matches(each) for each in _as_list(getattr(given, "must", None)))
        and (not should or any(matches(each) for each in should))
        and not any(matches(each) for each in _as_list(getattr(given, "must_not", None)))
    )


def _as_list(conditions: Any) -> Sequence[Any]:
    if conditions is None:
        return ()
    return conditions if isinstance(conditions, list | tuple) else (conditions,)


def _field(condition: Any, payload: Mapping[str, Any]) -> bool:
    values = [*_values(payload, condition.key)]
    match = getattr(condition, "match", None)
    between = getattr(condition, "range", None)
    empty = getattr(condition, "is_empty", None)
    null = getattr(condition, "is_null", None)
    if match is None and between is None and empty is None and null is None:
        raise InvalidFilter(
            f"the condition on {condition.key!r} has no part that this store supports"
        )
    return (
        (match is None or _matches(match, values))
        and (between is None or any(_within(between, value) for value in values))
        and (empty is None or empty != _has_value(values))
        and (null is None or null == (None in values))
    )


def _has_value(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values)


def _matches(match: Any, values: Sequence[Any]) -> bool:
    if hasattr(match, "value"):
        return any(_same(value, match.value) for value in values)
    if hasattr(match, "any"):
        return any(_same(value, each) for value in values for each in match.any)
    for name in ("except_", "except"):
        if hasattr(match, name):
            unwanted = getattr(match, name)
            return any(not any(_same(value, each) for each in unwanted) for value in values)
    if hasattr(match, "text"):
        words = str(match.text).casefold().split()
        texts = [value.casefold() for value in values if isinstance(value, str)]
        return any(all(word in text for word in words) for text in texts)
    raise InvalidFilter(f"this store does not support the match {type(match).__name__}")


def _same(value: Any, wanted: Any) -> bool:
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _within(between: Any, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    number = float(value)
    return (
        (getattr(between, "gt", None) is None or number > between.gt)
        and (getattr(between, "gte", None) is None or number >= between.gte)
        and (getattr(between, "lt", None) is None or number < between.lt)
        and (getattr(between, "lte", None) is None or number <= between.lte)
    )


def _values(payload: Any, key: str) -> Iterator[Any]:
    """Yield the values at a dotted key of a payload. If a value is a list, yield each of its
    items."""
    name, _, rest = key.partition(".")
    if not isinstance(payload, Mapping) or name.removesuffix("[]") not in payload:
        return
    value = payload[name.removesuffix("[]")]
    for each in value if isinstance(value, list) else [value]:
        if rest:
            yield from _values(each, rest)
        else:
            yield each
