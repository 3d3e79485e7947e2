"""Writes a tool's returned value as text, for a model that calls functions natively."""

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

_DEPTH = 20
_ITEMS = 50_000
"""Maximum number of items of all lists and dicts together. A model cannot read more, and converting
more would block the event loop."""


def value_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON. Of an object, the public fields are
    written, but not its methods and its memory address. Of bytes, only the number is written."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return str.__str__(value)
    return json.dumps(_Plain().of(value, _DEPTH), ensure_ascii=False)


_SCALARS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((type(None), bool), lambda value: value),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    ((bytes, bytearray, memoryview), lambda value: f"<{memoryview(value).nbytes} bytes>"),
    ((date, time), lambda value: value.isoformat()),
    (PurePath, lambda value: value.name),  # so that the model does not see the host's folders
)


class _Plain:
    """Converts values to JSON values. ``left`` is the number of items that it still accepts."""

    def __init__(self) -> None:
        self.left = _ITEMS

    def of(self, value: Any, depth: int) -> Any:
        """Convert one value."""
        if isinstance(value, Enum):
            return self.of(value.value, depth)
        for types, convert in _SCALARS:
            if isinstance(value, types):
                return convert(value)
        if depth <= 0 or self.left <= 0:
            return "..."
        if isinstance(value, Mapping):
            items = self._taken(value.items())
            return {value_text(key): self.of(each, depth - 1) for key, each in items}
        if isinstance(value, list | tuple | AbstractSet) and not hasattr(value, "_asdict"):
            return [self.of(each, depth - 1) for each in self._taken(value)]
        fields = _fields(value)
        if fields is None:
            return f"<{type(value).__qualname__}>"
        public = {name: each for name, each in fields.items() if not name.startswith("_")}
        return self.of(public, depth)

    def _taken(self, values: Iterable[Any]) -> list[Any]:
        taken = [*itertools.islice(values, self.left)]
        self.left -= len(taken)
        return taken


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of an object; None if the value is a class or a function, or has no
    accessible fields."""
    if isinstance(value, type) or callable(value):
        return None
    if isinstance(value, tuple):  # a namedtuple, because `of` has handled all other tuples
        named: Any = value
        return dict(named._asdict())
    if isinstance(value, BaseModel):
        return dict(value)
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return getattr(value, "__dict__", None)
