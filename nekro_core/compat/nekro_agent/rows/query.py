"""Queries in the style of Tortoise ORM: ``await DBChatMessage.filter(...).order_by("-id")``."""

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from nekro_core.compat.nekro_agent.rows.conditions import (
    Condition,
    ConditionGroup,
    conditions_of,
)
from nekro_core.compat.nekro_agent.rows.errors import (
    DoesNotExist,
    MultipleObjectsReturned,
    NotKept,
    QueryError,
)
from nekro_core.compat.nekro_agent.rows.source import RowSource
from nekro_core.store.queries import WhereClause

_BATCH = 500
_MOST_ROWS = 50_000
"""The largest number of rows that two kinds of queries read. The first kind has a condition or an
order that SQL cannot express. The second kind has an offset and no limit. Such a query reads the
first rows in its order. If it orders by a field without a column, it reads the first rows in the
table's order."""

NEW_DICT: Any = object()
"""A marker for the default of a field: each row gets a new empty dict."""
M = TypeVar("M", bound="Row")


@dataclass(frozen=True, slots=True)
class _QueryParts:
    conditions: tuple[Condition, ...] = ()
    order: tuple[str, ...] = ()
    limit: int = 0
    offset: int = 0


class Query(Generic[M]):
    """A query. Awaiting it reads its rows. Methods such as `filter` return a new query.

    ``choose`` chooses the only row of the result; without it, the result is a list. ``shape`` makes
    what the result has instead of a row, for example a dict.
    """

    def __init__(
        self,
        model: type[M],
        parts: _QueryParts | None = None,
        choose: Callable[[list[M]], M | None] | None = None,
        shape: Callable[[M], Any] | None = None,
    ) -> None:
        self._model = model
        self._parts = parts or _QueryParts()
        self._choose = choose
        self._shape = shape

    def filter(self, *args: Any, **kwargs: Any) -> Self:
        """Select the rows for which all conditions are true. Raises `QueryError`."""
        return self._with(conditions_of(self._model.FIELDS, args, kwargs))

    def exclude(self, *args: Any, **kwargs: Any) -> Self:
        """Select the rows for which at least one condition is false. Raises `QueryError`."""
        parts = conditions_of(self._model.FIELDS, args, kwargs)
        return self._with((ConditionGroup(parts, negated=True),))

    def order_by(self, *fields: str) -> Self:
        """Order the rows by fields. A ``-`` before a field means descending. Raises
        `QueryError`."""
        for field in fields:
            if self._named(field) not in self._model.FIELDS:
                known = ", ".join(sorted(self._model.FIELDS))
                raise QueryError(f"order_by({field!r}): there is no such field; there are {known}")
        return self._changed(order=fields)

    def limit(self, limit: int) -> Self:
        """Select at most ``limit`` rows."""
        return self._changed(limit=max(0, int(limit)) or -1)

    def offset(self, offset: int) -> Self:
        """Skip the first ``offset`` rows."""
        return self._changed(offset=max(0, int(offset)))

    def all(self) -> Self:
        """Return the same query."""
        return self

    def distinct(self) -> Self:
        """Return the same query, because its rows are always distinct."""
        return self

    def only(self, *_: str) -> Self:
        """Return the same query. Its rows always have all fields."""
        return self

    def prefetch_related(self, *_: Any) -> Self:
        """Return the same query."""
        return self

    select_related = prefetch_related
    using_db = prefetch_related

    def first(self) -> "Query[M]":
        """Select the first row. The result is the row, or None."""
        return Query(self._model, replace(self._parts, limit=1), _first, self._shape)

    def last(self) -> "Query[M]":
        """Select the last row. The result is the row, or None."""
        order = self._parts.order or ("id",)
        reversed_order = tuple(each[1:] if each.startswith("-") else f"-{each}" for each in order)
        parts = replace(self._parts, order=reversed_order, limit=1)
        return Query(self._model, parts, _first, self._shape)

    def get_or_none(self, *args: Any, **kwargs: Any) -> "Query[M]":
        """Select the first row that matches. The result is the row, or None."""
        return self.filter(*args, **kwargs).first()

    def get(self, *args: Any, **kwargs: Any) -> "Query[M]":
        """Select the only row that matches. Awaiting the query raises `DoesNotExist` if no row
        matches, and `MultipleObjectsReturned` if several rows match."""
        conditions = conditions_of(self._model.FIELDS, args, kwargs)
        all_of = (*self._parts.conditions, *conditions)
        parts = replace(self._parts, conditions=all_of, limit=2)
        return Query(self._model, parts, self._one, self._shape)

    def values(self, *fields: str, **renamed: str) -> "Query[M]":
        """Return dicts with the named fields instead of rows. If no field is named, the dicts have
        all fields."""
        names = {name: name for name in fields or (() if renamed else self._model.FIELDS)}
        names |= renamed
        self._check(names.values())

        def named(row: M) -> dict[str, Any]:
            return {key: getattr(row, at) for key, at in names.items()}

        return Query(self._model, self._parts, self._choose, named)

    def values_list(self, *fields: str, flat: bool = False) -> "Query[M]":
        """Return tuples of the named fields instead of rows. With ``flat``, return the values of a
        single field."""
        names = fields or tuple(self._model.FIELDS)
        self._check(names)
        if flat and len(names) != 1:
            raise QueryError("values_list(flat=True): expected one field")

        def listed(row: M) -> Any:
            values = tuple(getattr(row, name) for name in names)
            return values[0] if flat else values

        return Query(self._model, self._parts, self._choose, listed)

    async def count(self) -> int:
        """Count the rows that match."""
        source = await self._model.source()
        where = ConditionGroup(self._parts.conditions).where(source.columns)
        if where is None or self._parts.limit or self._parts.offset:
            return len(await self._rows())
        stored = await source.count(_plain(where, self._parts.conditions))
        return len(self._fixed_rows()) + stored

    async def exists(self) -> bool:
        """Return True if at least one row matches."""
        return bool(await Query(self._model, replace(self._parts, limit=1)))

    async def delete(self) -> int:
        """Delete the rows and return their number. Raises `NotKept`."""
        rows = await self._rows()
        for row in rows:
            await row.delete()
        return len(rows)

    async def update(self, **changes: Any) -> int:
        """Change the rows and return their number. Raises `NotKept` and `QueryError`."""
        self._check(changes)
        rows = await self._rows()
        for row in rows:
            row.update_from_dict(changes)
            await row.save()
        return len(rows)

    def __await__(self) -> Generator[Any, Any, Any]:
        rows = yield from self._rows().__await__()
        if self._choose is None:
            return [self._shaped(row) for row in rows]
        row = self._choose(rows)
        return None if row is None else self._shaped(row)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for row in await self._rows():
            yield self._shaped(row)

    def _shaped(self, row: M) -> Any:
        return self._shape(row) if self._shape is not None else row

    async def _rows(self) -> list[M]:
        parts, fixed = self._parts, self._fixed_rows()
        if not fixed or parts.limit < 0:
            return await self._stored_rows()
        # The fixed rows come before the stored rows, unless the query's order puts them elsewhere.
        until = parts.offset + parts.limit if parts.limit else 0
        unbounded = Query(self._model, replace(parts, offset=0, limit=until))
        rows = [*fixed, *await unbounded._stored_rows()]
        for field in reversed(parts.order):
            _sort(rows, self._named(field), descending=field.startswith("-"))
        return rows[parts.offset : until or None]

    def _fixed_rows(self) -> list[M]:
        """The rows of `Row.fixed_rows` for which all conditions are true."""
        return [
            row
            for row in self._model.fixed_rows()
            if all(each.holds(row) for each in self._parts.conditions)
        ]

    async def _stored_rows(self) -> list[M]:
        parts = self._parts
        if parts.limit < 0:
            return []
        source = await self._model.source()
        written = [(each, each.where(source.columns)) for each in parts.conditions]
        clauses = [where for _, where in written if where is not None]
        where = WhereClause.join(clauses)
        in_memory = [each for each, clause in written if clause is None]
        order = self._order(source)
        if order is not None and not in_memory:
            limit = parts.limit or (_MOST_ROWS if parts.offset else 0)
            rows = await source.rows(where, order=order, limit=limit, offset=parts.offset)
            return [self._model.of(row) for row in rows]
        matching = await self._filtered_in_memory(source, where, order, in_memory)
        if order is None:
            for field in reversed(parts.order):
                _sort(matching, self._named(field), descending=field.startswith("-"))
        end = parts.offset + parts.limit if parts.limit else None
        return matching[parts.offset : end]

    async def _filtered_in_memory(
        self,
        source: RowSource,
        where: WhereClause,
        order: tuple[str, ...] | None,
        conditions: Sequence[Condition],
    ) -> list[M]:
        """Read the rows in batches and check the conditions that SQL cannot express."""
        wanted = self._parts.offset + self._parts.limit
        enough = wanted if order is not None and self._parts.limit else _MOST_ROWS
        matching: list[M] = []
        for offset in range(0, _MOST_ROWS, _BATCH):
            rows = await source.rows(
                where, order=order or (source.default_order,), limit=_BATCH, offset=offset
            )
            made = (self._model.of(row) for row in rows)
            matching += [row for row in made if all(each.holds(row) for each in conditions)]
            if len(rows) < _BATCH or len(matching) >= enough:
                break
        return matching

    def _order(self, source: RowSource) -> tuple[str, ...] | None:
        """The columns to order by; None if the query orders by a field without a column."""
        columns = []
        for field in self._parts.order:
            column = source.orders.get(self._named(field))
            if column is None:
                return None
            columns.append(f"-{column}" if field.startswith("-") else column)
        return (*columns, source.default_order)

    def _one(self, rows: list[M]) -> M:
        if not rows:
            raise DoesNotExist(f"there is no such {self._model.__name__}")
        if len(rows) > 1:
            raise MultipleObjectsReturned(f"there are several such {self._model.__name__}")
        return rows[0]

    def _check(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._model.FIELDS:
                known = ", ".join(sorted(self._model.FIELDS))
                raise QueryError(f"there is no field {name!r}; there are {known}")

    def _with(self, conditions: tuple[Condition, ...]) -> Self:
        return self._changed(conditions=(*self._parts.conditions, *conditions))

    def _changed(self, **changes: Any) -> Self:
        return type(self)(self._model, replace(self._parts, **changes), self._choose, self._shape)

    @staticmethod
    def _named(field: str) -> str:
        name = field.removeprefix("-")
        return "id" if name == "pk" else name


class Row:
    """A row, as an object with fields. `save` stores changes if the class allows changes."""

    FIELDS: Mapping[str, Any] = {}
    """The names of the fields with their defaults. The fields are the public annotated attributes
    of the class."""

    def __init_subclass__(cls) -> None:
        own = (each for each in cls.__annotations__ if each in vars(cls) and each[0] != "_")
        cls.FIELDS = {**cls.FIELDS, **{name: vars(cls)[name] for name in own}}

    def __init__(self, **fields: Any) -> None:
        unknown = set(fields) - set(self.FIELDS)
        if unknown:
            known = ", ".join(sorted(self.FIELDS))
            raise QueryError(
                f"{type(self).__name__} has no {', '.join(sorted(unknown))}; it has {known}"
            )
        for name, default in self.FIELDS.items():
            value = fields.get(name, default)
            setattr(self, name, {} if value is NEW_DICT else value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'id', '')}>"

    def __eq__(self, other: object) -> bool:
        """Return True if both objects stand for the same row. A row that is not stored equals only
        itself."""
        if not isinstance(other, Row) or not (self.pk or other.pk):
            return self is other
        return type(self) is type(other) and bool(self.pk == other.pk)

    def __hash__(self) -> int:
        return hash((type(self), self.pk))

    @property
    def pk(self) -> Any:
        """The id."""
        return getattr(self, "id", None)

    @classmethod
    async def source(cls) -> RowSource:
        """The source from which queries read rows of this class."""
        raise NotKept(f"{cls.__name__} cannot be queried")

    @classmethod
    def of(cls, row: Any) -> Self:
        """Make an object from a row of the source."""
        return cls(**row)

    @classmethod
    def fixed_rows(cls) -> Sequence[Self]:
        """Rows of this class that are not in the source. Queries treat them like stored rows."""
        return ()

    @classmethod
    def filter(cls, *args: Any, **kwargs: Any) -> Query[Self]:
        """See `Query.filter`."""
        return Query(cls).filter(*args, **kwargs)

    @classmethod
    def exclude(cls, *args: Any, **kwargs: Any) -> Query[Self]:
        """See `Query.exclude`."""
        return Query(cls).exclude(*args, **kwargs)

    @classmethod
    def all(cls, *_: Any) -> Query[Self]:
        """Select all rows."""
        return Query(cls)

    @classmethod
    def first(cls, *_: Any) -> Query[Self]:
        """Select the first row. The result is the row, or None."""
        return Query(cls).first()

    @classmethod
    def get(cls, *args: Any, **kwargs: Any) -> Query[Self]:
        """See `Query.get`."""
        return Query(cls).get(*args, **kwargs)

    @classmethod
    def get_or_none(cls, *args: Any, **kwargs: Any) -> Query[Self]:
        """See `Query.get_or_none`."""
        return Query(cls).get_or_none(*args, **kwargs)

    @classmethod
    async def exists(cls, *args: Any, **kwargs: Any) -> bool:
        """Return True if at least one row matches."""
        return await cls.filter(*args, **kwargs).exists()

    @classmethod
    async def create(cls, **fields: Any) -> Self:
        """Make a row and store it. Raises `NotKept` if plugins can only read rows of this class."""
        row = cls(**fields)
        await row.save()
        return row

    @classmethod
    async def get_or_create(
        cls, defaults: Mapping[str, Any] | None = None, **fields: Any
    ) -> tuple[Self, bool]:
        """Get the row that matches; if there is none, create a row. Returns the row and whether it
        is new."""
        row: Self | None = await cls.get_or_none(**fields)
        if row is not None:
            return row, False
        return await cls.create(**fields, **(defaults or {})), True

    @classmethod
    async def update_or_create(
        cls, defaults: Mapping[str, Any] | None = None, **fields: Any
    ) -> tuple[Self, bool]:
        """Apply ``defaults`` to the row that matches; if there is none, create a row. Returns the
        row and whether it is new."""
        row, made = await cls.get_or_create(defaults, **fields)
        if not made:
            row.update_from_dict(defaults or {})
            await row.save()
        return row, made

    def update_from_dict(self, changes: Mapping[str, Any]) -> Self:
        """Change fields of this object. `save` stores the changes."""
        for name, value in changes.items():
            if name in self.FIELDS:
                setattr(self, name, value)
        return self

    async def save(self, *_: Any, **__: Any) -> None:
        """Store the row. Raises `NotKept`."""
        raise NotKept(f"a plugin can only read rows of {type(self).__name__}")

    async def delete(self, *_: Any, **__: Any) -> None:
        """Delete the row. Raises `NotKept`."""
        raise NotKept(f"a plugin can only read rows of {type(self).__name__}")

    async def refresh_from_db(self, *_: Any, **__: Any) -> None:
        """Read the row again from its source."""
        fresh = await type(self).get_or_none(id=self.pk)
        if fresh is not None:
            self.__dict__.update(fresh.__dict__)

    async def fetch_related(self, *_: Any, **__: Any) -> None:
        """Do nothing, because rows have no relations."""


def _first(rows: list[Any]) -> Any:
    return rows[0] if rows else None


def _plain(where: WhereClause, conditions: tuple[Condition, ...]) -> WhereClause:
    return where if conditions else WhereClause()


def _sort(rows: list[Any], field: str, *, descending: bool) -> None:
    known = [row for row in rows if getattr(row, field) is not None]
    unknown = [row for row in rows if getattr(row, field) is None]
    known.sort(key=lambda row: getattr(row, field), reverse=descending)
    rows[:] = known + unknown if descending else unknown + known
