"""Pickles values for a guest (the code inside a box), which cannot import the bot's packages.

Objects of the standard library's classes are pickled unchanged: every guest can import them. Other
objects are converted. An enum becomes its value. An object of a subclass of a plain type such as
``str`` or ``dict`` becomes an object of this type. Any other object becomes a view, which has the
same fields and the name of the class.
"""

import copy
import copyreg
import dataclasses
import io
import pickle
import sys
from enum import Enum
from typing import Any

from nekro_core.system.errors import NekroError

_ALREADY_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
# The guest's Python may be 3.9, which can read this version of the pickle protocol.
_PROTOCOL = 4


class HandoverError(NekroError):
    """A value cannot be sent to a box; the message names its type."""


def make_view(module: str, name: str) -> Any:
    """This function is a placeholder and is never called. Pickles refer to it by its name. In the
    guest, the function of this name makes views."""
    raise NotImplementedError(f"views are made in the guest: {module}.{name}")


def dump(value: Any) -> bytes:
    """Pickle ``value`` for a guest that has the standard library.

    Raises `HandoverError` if the value cannot be pickled.
    """
    if type(value) in _ALREADY_PLAIN:
        return pickle.dumps(value, _PROTOCOL)
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(value)
    except Exception as error:
        # A value's ``__reduce__`` may raise any error.
        raise HandoverError(f"{type(value).__name__} cannot be handed over: {error}") from error
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, _PROTOCOL)

    def reducer_override(self, value: Any) -> Any:
        """`pickle` calls this for every object whose type is not a plain type."""
        if value is make_view:
            return NotImplemented
        cls = type(value)
        if isinstance(value, type) or cls.__name__ in ("function", "builtin_function_or_method"):
            if _is_in_guest(getattr(value, "__module__", None)):
                return NotImplemented
            name = getattr(value, "__qualname__", value.__name__)
            return make_view, (value.__module__ or "", name)
        if _is_in_guest(cls.__module__):
            return NotImplemented
        if isinstance(value, Enum):
            return copy.copy, (
                value.value,
                # The guest calls `copy.copy(value)`, which returns the plain value.
            )
        return _plain_base(value) or _view(value)


def _is_in_guest(module: str | None) -> bool:
    root = (module or "builtins").partition(".")[0]
    return root in sys.stdlib_module_names and root != "__main__"


def _plain_base(value: Any) -> tuple[Any, ...] | None:
    """Return the reduce tuple that makes an object of the plain base type. Returns None if the
    value has no plain base type."""
    if isinstance(value, str):
        return str, (str.__str__(value),)
    if isinstance(value, int):
        return int, (int.__int__(value),)
    if isinstance(value, float):
        return float, (float.__float__(value),)
    if isinstance(value, bytes | bytearray):
        return bytes, (bytes(memoryview(value)),)
    if isinstance(value, dict):
        return dict, (), None, None, iter(list(dict.items(value)))
    if isinstance(value, list):
        return list, (), None, list.__iter__(value)
    if isinstance(value, set | frozenset):
        return set, (list(value),)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple, (list(value),)
    return None


def _view(value: Any) -> tuple[Any, ...]:
    cls = type(value)
    return make_view, (cls.__module__, cls.__qualname__), _fields(value)


def _fields(value: Any) -> dict[str, Any]:
    # The value is a named tuple. `_plain_base` handles all other tuples.
    if isinstance(value, tuple):
        named: Any = value
        return dict(named._asdict())
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    reduced = value.__reduce_ex__(_PROTOCOL)
    if not isinstance(reduced, tuple):
        raise TypeError("its pickle has only a global name and no data")
    function, args = reduced[0], reduced[1]
    state = reduced[2] if len(reduced) > 2 else None
    if function is copyreg.__dict__["__newobj__"]:
        args = args[1:]
    fields: dict[str, Any] = {"args": args} if args else {}
    for part in state if isinstance(state, tuple) else (state,):
        if isinstance(part, dict) and "__pydantic_fields_set__" in part:
            fields |= part["__dict__"] | (part.get("__pydantic_extra__") or {})
        elif isinstance(part, dict):
            fields |= part
        elif part is not None:
            fields["value"] = part
    return fields
