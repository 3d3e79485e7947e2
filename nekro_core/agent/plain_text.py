"""What a handler returned, as text for a model that calls natively."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

_DEPTH = 20
_ITEMS = 10_000
"""Of one list or dict; a model reads no more, and the event loop has other chats to serve."""


def value_text(value: Any) -> str:
    """A text as it is, anything else as JSON. An object of a plugin's own is shown by its public
    fields, bytes by their number: neither its methods nor its address are the model's business."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return str.__str__(value)
    return json.dumps(_plain(value, _DEPTH), ensure_ascii=False)


_SCALARS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((type(None), bool), lambda value: value),
    (Enum, lambda value: _plain(value.value, _DEPTH)),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    ((bytes, bytearray, memoryview), lambda value: f"<{memoryview(value).nbytes} bytes>"),
    ((date, time), lambda value: value.isoformat()),
    (PurePath, lambda value: value.name),  # where a plugin keeps its files is the host's
)


def _plain(value: Any, depth: int) -> Any:
    for types, convert in _SCALARS:
        if isinstance(value, types):
            return convert(value)
    if depth <= 0:
        return "..."
    if isinstance(value, Mapping):
        items = [*value.items()][:_ITEMS]
        return {value_text(key): _plain(each, depth - 1) for key, each in items}
    if isinstance(value, list | tuple | AbstractSet) and not hasattr(value, "_asdict"):
        return [_plain(each, depth - 1) for each in [*value][:_ITEMS]]
    fields = _fields(value)
    if fields is None:
        return f"<{type(value).__qualname__}>"
    public = {name: each for name, each in fields.items() if not name.startswith("_")}
    return _plain(public, depth)


def _fields(value: Any) -> dict[str, Any] | None:
    """What an object consists of; nothing where it is a class, a function or all hidden."""
    if isinstance(value, type) or callable(value):
        return None
    if isinstance(value, tuple):  # a named one: any other is plain
        named: Any = value
        return dict(named._asdict())
    if isinstance(value, BaseModel):
        return dict(value)
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return getattr(value, "__dict__", None)
