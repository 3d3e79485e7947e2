"""The conditions of a query. Plugins write them as ``filter(send_timestamp__gte=...)``.

A condition is written in SQL if all its fields have columns and SQL can express its lookups.
Otherwise the condition is checked on each row that was read.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from nekro_core.compat.nekro_agent.rows.errors import QueryError
from nekro_core.store.queries import Column, Sign, WhereClause


class ColumnCondition(Protocol):
    """A function that writes a condition on one field in SQL."""

    def __call__(self, lookup: str, value: Any) -> WhereClause | None:
        """Return the clause for a lookup with a value; None if SQL cannot express it."""


@dataclass(frozen=True, slots=True)
class FieldLookup:
    """A condition on one field: a lookup such as ``gte``, and its value."""

    field: str
    lookup: str
    value: Any

    def holds(self, row: Any) -> bool:
        """Return True if the condition is true for a row."""
        try:
            return LOOKUPS[self.lookup](getattr(row, self.field), self.value)
        except TypeError:  # a comparison with None, or of a text with a number, is never true
            return False

    def where(self, columns: Mapping[str, ColumnCondition]) -> WhereClause | None:
        """The condition in SQL; None if a part of it cannot be written in SQL."""
        column = columns.get(self.field)
        return column(self.lookup, self.value) if column else None


@dataclass(frozen=True, slots=True)
class ConditionGroup:
    """Several conditions. All of them must be true; with ``any_of``, at least one of them.
    ``negated`` inverts the result."""

    parts: tuple["FieldLookup | ConditionGroup", ...]
    any_of: bool = False
    negated: bool = False

    def holds(self, row: Any) -> bool:
        """Return True if the condition is true for a row."""
        combine = any if self.any_of and self.parts else all
        return combine(part.holds(row) for part in self.parts) is not self.negated

    def where(self, columns: Mapping[str, ColumnCondition]) -> WhereClause | None:
        """The condition in SQL; None if a part of it cannot be written in SQL."""
        clauses = [part.where(columns) for part in self.parts]
        known = [clause for clause in clauses if clause is not None and clause.sql]
        if len(known) < len(clauses):
            return None
        return WhereClause.join(known, any_of=self.any_of, negated=self.negated)


Condition = FieldLookup | ConditionGroup


def conditions_of(
    fields: Mapping[str, object], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Condition, ...]:
    """Convert the arguments of ``filter`` to conditions: Tortoise's ``Q`` objects and
    ``field__lookup=value``.

    Raises `QueryError`.
    """
    return (
        *(_of_q(fields, each) for each in args),
        *(_leaf(fields, name, value) for name, value in kwargs.items()),
    )


def _of_q(fields: Mapping[str, object], q: Any) -> ConditionGroup:
    try:
        children, filters = tuple(q.children), dict(q.filters)
        joined, negated = q.join_type, bool(getattr(q, "_is_negated", False))
    except AttributeError:
        raise QueryError(f"{q!r}: expected field=value or tortoise.expressions.Q") from None
    parts: tuple[Condition, ...] = (
        *(_of_q(fields, child) for child in children),
        *(_leaf(fields, name, value) for name, value in filters.items()),
    )
    return ConditionGroup(parts, any_of=joined == "OR", negated=negated)


def _leaf(fields: Mapping[str, object], name: str, value: Any) -> FieldLookup:
    field, _, lookup = name.partition("__")
    if field == "pk":
        field = "id"
    if field not in fields:
        raise QueryError(f"there is no field {field!r}; there are {', '.join(sorted(fields))}")
    if lookup not in LOOKUPS:
        known = ", ".join(sorted(each for each in LOOKUPS if each))
        raise QueryError(f"{name}: there is no lookup {lookup!r}; there are {known}")
    return FieldLookup(field, lookup, getattr(value, "pk", value))


def loosely_equal(mine: Any, given: Any) -> bool:
    """Return True if a field equals a value. The text ``"7"`` equals the number 7, because some
    plugins write an id as text and others as a number."""
    if isinstance(mine, str) and isinstance(given, int) and not isinstance(given, bool):
        return mine == str(given)
    if isinstance(mine, datetime) and isinstance(given, datetime):
        return mine.timestamp() == given.timestamp()
    return bool(mine == given)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(mine: Any, given: Any) -> bool:
        if mine is None or given is None:
            return False
        if isinstance(mine, datetime) and isinstance(given, datetime):
            return compare(mine.timestamp(), given.timestamp())
        return compare(mine, given)

    return compared


def _text(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda mine, given: mine is not None and compare(str(mine), str(given))


def _folded(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return _text(lambda mine, given: compare(mine.casefold(), given.casefold()))


LOOKUPS: Mapping[str, Callable[[Any, Any], bool]] = {
    "": loosely_equal,
    "exact": loosely_equal,
    "not": lambda mine, given: not loosely_equal(mine, given),
    "in": lambda mine, given: any(loosely_equal(mine, each) for each in given),
    "not_in": lambda mine, given: not any(loosely_equal(mine, each) for each in given),
    "gt": _ordered(lambda mine, given: mine > given),
    "gte": _ordered(lambda mine, given: mine >= given),
    "lt": _ordered(lambda mine, given: mine < given),
    "lte": _ordered(lambda mine, given: mine <= given),
    "range": _ordered(lambda mine, given: given[0] <= mine <= given[1]),
    "isnull": lambda mine, given: (mine is None) is bool(given),
    "not_isnull": lambda mine, given: (mine is not None) is bool(given),
    "iexact": _folded(lambda mine, given: mine == given),
    "contains": _text(lambda mine, given: given in mine),
    "icontains": _folded(lambda mine, given: given in mine),
    "startswith": _text(str.startswith),
    "istartswith": _folded(str.startswith),
    "endswith": _text(str.endswith),
    "iendswith": _folded(str.endswith),
    "regex": _text(lambda mine, given: re.search(given, mine) is not None),
    "iregex": _text(lambda mine, given: re.search(given, mine, re.IGNORECASE) is not None),
}


def text_column(name: str) -> ColumnCondition:
    """Make the function that writes conditions on a column of texts."""
    column = Column(name)

    def condition(lookup: str, value: Any) -> WhereClause | None:
        match lookup:
            case "" | "exact" if value is not None:
                return column.compare("=", str(value))
            case "not" if value is not None:
                return column.compare("<>", str(value))
            case "in" | "not_in":
                return column.is_in([str(each) for each in value], negated=lookup == "not_in")
            case "contains" if str(value):
                return column.contains(str(value))
            case "startswith":
                return column.starts_with(str(value))
        return None

    return condition


_SIGNS: Mapping[str, Sign] = {
    "": "=",
    "exact": "=",
    "not": "<>",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
}


def number_column(name: str) -> ColumnCondition:
    """Make the function that writes conditions on a column of whole numbers."""
    column = Column(name)

    def condition(lookup: str, value: Any) -> WhereClause | None:
        if lookup in _SIGNS and isinstance(value, int | float):
            return column.compare(_SIGNS[lookup], value)
        if lookup in ("in", "not_in") and all(isinstance(each, int) for each in value):
            return column.is_in(list(value), negated=lookup == "not_in")
        return None

    return condition


def second_column(name: str) -> ColumnCondition:
    """Make the function that writes conditions on a column of times, which are seconds with
    fractions. Plugins see these times as whole seconds or as `datetime`."""
    column = Column(name)

    def condition(lookup: str, value: Any) -> WhereClause | None:
        if lookup not in ("gt", "gte", "lt", "lte"):
            return None
        if isinstance(value, datetime):
            return column.compare(_SIGNS[lookup], value.timestamp())
        if not isinstance(value, int | float):
            return None
        if not math.isfinite(value):
            return column.compare(_SIGNS[lookup], value)
        # For a plugin, every time from 101.0 to below 102.0 is the second 101.
        after = math.floor(value) + 1 if lookup in ("gt", "lte") else math.ceil(value)
        return column.compare(">=" if lookup in ("gt", "gte") else "<", after)

    return condition


def flag_column(name: str) -> ColumnCondition:
    """Make the function that writes conditions on a column of bools. Plugins may write the values
    as 1 and 0."""
    column = Column(name)

    def condition(lookup: str, value: Any) -> WhereClause | None:
        if lookup in ("", "exact", "not") and isinstance(value, int):
            return column.compare("=", bool(value) is not (lookup == "not"))
        return None

    return condition
