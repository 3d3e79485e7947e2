"""Converts the arguments of a call to plain data, and reads its result from a pickle.

Arguments become JSON and a raw body. Bytes, and texts of more than 4096 characters, are put into
the body. In their place the JSON has ``{"$b": [offset, length]}`` for bytes and
``{"$t": [offset, length]}`` for text. A dict whose only key starts with ``$`` is written as
``{"$d": [[key, value]]}``.

In a result, an object whose class cannot be imported becomes an `ObjectView` with its data. The
pickle comes from the host and is loaded in the run's own process.
"""

from __future__ import annotations

import io
import math
import os
import sys

from guest_minimal_stdlib import dumps_unescaped
from guest_wire import TEXT_LIMIT

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LONG_TEXT = 4096
_DEPTH = 60


class _Body:
    """Collects the pieces of a frame's body."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.length = 0

    def add(self, data: bytes) -> list[int]:
        position = [self.length, len(data)]
        self.parts.append(data)
        self.length += len(data)
        return position


def _plain(value: Any, body: _Body, depth: int) -> Any:
    kind = type(value)
    if value is None or kind is bool or (kind is str and len(value) <= _LONG_TEXT):
        return value
    if depth > _DEPTH:
        raise ValueError(f"what is handed to a tool may be nested at most {_DEPTH} levels deep")
    if _is(value, "enum", "Enum"):
        return _plain(value.value, body, depth + 1)
    if isinstance(value, (str, int, float, bytes, bytearray, memoryview)):
        return _plain_scalar(value, body)
    if isinstance(value, dict):
        pairs = [(_key(key), _plain(item, body, depth + 1)) for key, item in value.items()]
        if len(pairs) == 1 and pairs[0][0].startswith("$"):
            return {"$d": pairs}
        return dict(pairs)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, body, depth + 1) for item in value]
    return _plain_object(value, body, depth)


def _plain_scalar(value: Any, body: _Body) -> Any:
    if isinstance(value, str):
        if len(value) <= _LONG_TEXT:
            return str(value)
        return {"$t": body.add(value.encode("utf-8", "replace"))}
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise OverflowError("a whole number beyond 64 bits cannot be handed to a tool")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} cannot be handed to a tool; pass a finite number or None")
        return float(value)
    return {"$b": body.add(bytes(value))}


def _key(key: Any) -> str:
    if isinstance(key, (str, int, float)):
        return str(key)
    found = type(key).__name__
    raise TypeError(
        f"a key of a dict that is handed to a tool must be text or a number, not {found}"
    )


def _plain_object(value: Any, body: _Body, depth: int) -> Any:
    if isinstance(value, ObjectView):
        return _plain(vars(value), body, depth + 1)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, io.BytesIO):
        return {"$b": body.add(value.getvalue())}
    if _is(value, "datetime", "date") or _is(value, "datetime", "time"):
        return value.isoformat()
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return _plain(fields, body, depth + 1)
    if _is(value, "decimal", "Decimal") or _is(value, "fractions", "Fraction"):
        return _plain_scalar(float(value), body)
    if _is(value, "numpy", "generic") or _is(value, "numpy", "ndarray"):
        return _plain(value.tolist(), body, depth + 1)
    raise TypeError(
        f"{type(value).__name__} cannot be handed to a tool; "
        "pass text, a number, bytes, None, or a list or dict of these"
    )


def _is(value: Any, module: str, name: str) -> bool:
    """Return True if ``value`` is an instance of the class ``name`` of ``module``. This does not
    import the module. If the module was not imported before, the result is False."""
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(value, cls)


def encode_call(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int
) -> tuple[bytes, bytes]:
    """Make the text and the body of a call's frame, of at most ``limit`` bytes together. Raises
    TypeError, ValueError or OverflowError."""
    body = _Body()
    named = {key: _plain(value, body, 0) for key, value in kwargs.items()}
    if len(named) == 1 and next(iter(named)).startswith("$"):
        raise TypeError(f"{name}() got an unexpected keyword argument")
    plain = [name, [_plain(value, body, 0) for value in args], named]
    text = dumps_unescaped(plain).encode("utf-8", "replace")
    if len(text) > TEXT_LIMIT or body.length + len(text) > limit:
        raise ValueError(
            f"the arguments of {name}() are {body.length + len(text)} bytes; "
            f"at most {limit} are allowed, {TEXT_LIMIT} without bytes and long texts"
        )
    return text, b"".join(body.parts)


class ObjectView:
    """The data of an object whose class is not installed in this box.

    Its fields are attributes and also keys: ``member.name`` and ``member["name"]``.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> ObjectView:  # noqa: PYI034 - Self needs 3.11
        """Store the arguments that the missing class would have been called with."""
        view = object.__new__(cls)
        if args:
            view.__dict__["args"] = args
        view.__dict__.update(kwargs)
        return view

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept any arguments: `__new__` has stored them already."""

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)
            elif part is not None:
                self.__dict__["value"] = part

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.__dict__[key] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def keys(self) -> Any:
        """Return the names of the fields. ``dict(view)`` needs this method."""
        return self.__dict__.keys()

    def __getattr__(self, name: str) -> Any:
        fields = ", ".join(vars(self)) or "no fields"
        raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {fields}")


_classes: dict[tuple[str, str], type[ObjectView]] = {}


def view_class(module: str, name: str) -> type[ObjectView]:
    """Return the subclass of `ObjectView` that replaces a class of the host. Each class of the host
    gets one such subclass."""
    found = _classes.get((module, name))
    if found is None:
        short = name.rpartition(".")[2]
        found = type(short, (ObjectView,), {"__module__": module, "__qualname__": name})
        _classes[module, name] = found
    return found


def make_view(module: str, name: str) -> ObjectView:
    """Make an `ObjectView`. The host's pickles call this function for an object whose class the
    guest cannot import."""
    return view_class(module, name)()


_loaders: list[Any] = []


def _make_loader() -> Any:
    # `pickle` is imported here and not at the start of a box, because the import would be the
    # slowest part of the start.
    from pickle import Unpickler

    class Loader(Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module == "nekro_core.sandbox.link.handover" and name == "make_view":
                return make_view
            home = module
            while True:
                try:
                    return super().find_class(home, name)
                except (ImportError, AttributeError):
                    # This Python version may have the class in the parent package: a class of
                    # `pathlib._local` is in `pathlib`.
                    home, dot, _ = home.rpartition(".")
                    if not dot:
                        return view_class(module, name)

    return Loader


def load(body: bytes) -> Any:
    """Unpickle the result of a call."""
    if not _loaders:
        _loaders.append(_make_loader())
    return _loaders[0](io.BytesIO(body)).load()
