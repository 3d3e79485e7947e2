"""Values on their way: arguments out as plain data, results in by pickle.

Out: JSON in which bytes, and texts over 4 KiB, stand as ``{"$b": [offset, length]}`` and
``{"$t": ...}`` into the raw body. A dict whose only key starts with ``$`` is written as
``{"$d": [[key, value]]}``. In: an unpickler that makes a plain `View` of what cannot be imported.
It runs in the run's own process: a guest can only hurt itself with it.
"""

import dataclasses
import datetime
import enum
import io
import json
import math
import os
import pickle

from guest_wire import TEXT_LIMIT

_LONG_TEXT = 4096
_DEPTH = 60


class Body:
    """The raw part of a frame while it is being put together."""

    def __init__(self):
        self.parts = []
        self.length = 0

    def add(self, data):
        position = [self.length, len(data)]
        self.parts.append(data)
        self.length += len(data)
        return position


def _whole(value):
    if not -(2**63) <= value < 2**64:
        raise OverflowError(
            "a whole number beyond 64 bits cannot be handed to a tool; pass str(number)"
        )
    return int(value)


def _real(value):
    if not math.isfinite(value):
        raise ValueError("%r cannot be handed to a tool; pass a finite number or None" % (value,))
    return float(value)


def _key(key):
    if isinstance(key, str):
        return str(key)
    if isinstance(key, (int, float)):
        return str(key)
    raise TypeError(
        "a key of a dict that is handed to a tool must be text, not %s" % type(key).__name__
    )


def _plain(value, body, depth):
    kind = type(value)
    if value is None or kind is bool:
        return value
    if depth > _DEPTH:
        raise ValueError("what is handed to a tool may be nested %d deep at most" % _DEPTH)
    if isinstance(value, enum.Enum):
        return _plain(value.value, body, depth + 1)
    if isinstance(value, str):
        if len(value) <= _LONG_TEXT:
            return str(value)
        return {"$t": body.add(value.encode("utf-8", "replace"))}
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return _real(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$b": body.add(bytes(value))}
    if isinstance(value, dict):
        pairs = [(_key(key), _plain(item, body, depth + 1)) for key, item in value.items()]
        if len(pairs) == 1 and pairs[0][0].startswith("$"):
            return {"$d": pairs}
        return dict(pairs)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, body, depth + 1) for item in value]
    return _plain_object(value, body, depth)


def _plain_object(value, body, depth):
    if isinstance(value, View):
        return _plain(vars(value), body, depth)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _plain(fields, body, depth)
    if isinstance(value, io.BytesIO):
        return {"$b": body.add(value.getvalue())}
    if type(value).__module__ == "decimal":
        return _real(float(value))
    item = getattr(value, "item", None) or getattr(
        value, "tolist", None
    )  # numpy's numbers and arrays
    if type(value).__module__.split(".")[0] == "numpy" and callable(item):
        return _plain(getattr(value, "tolist", item)(), body, depth + 1)
    raise TypeError(
        "%s cannot be handed to a tool; pass text, a number, bytes, None, or a list or dict of such"
        % type(value).__name__
    )


def encode_call(name, args, kwargs, limit):
    """The text and the body of a call's frame. Raises TypeError, ValueError or OverflowError."""
    body = Body()
    plain = [name, _plain(args, body, 0), _plain(kwargs, body, 0) if kwargs else {}]
    if kwargs and len(kwargs) == 1 and next(iter(kwargs)).startswith("$"):
        raise TypeError("%s() got an unexpected keyword argument" % name)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace")
    if len(text) > TEXT_LIMIT or body.length + len(text) > limit:
        raise ValueError(
            "the arguments of %s() are %d bytes; at most %d are carried, %d of them as structure"
            % (name, body.length + len(text), limit, TEXT_LIMIT)
        )
    return text, b"".join(body.parts)


class View:
    """The data of an object whose class is not installed in this box.

    Its fields are attributes and also keys: ``member.name`` and ``member["name"]``.
    """

    def __new__(cls, *args, **kwargs):
        view = object.__new__(cls)
        if args:
            view.__dict__["args"] = args
        view.__dict__.update(kwargs)
        return view

    def __init__(self, *args, **kwargs):
        pass

    def __setstate__(self, state):
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)
            elif part is not None:
                self.__dict__["value"] = part

    def __repr__(self):
        return "%s(%s)" % (
            type(self).__name__,
            ", ".join("%s=%r" % item for item in vars(self).items()),
        )

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None

    def __getitem__(self, key):
        return self.__dict__[key]

    def __setitem__(self, key, value):
        self.__dict__[key] = value

    def __iter__(self):
        return iter(self.__dict__)

    def keys(self):
        return self.__dict__.keys()

    def __getattr__(self, name):
        raise AttributeError(
            "%s has %s; not %r" % (type(self).__name__, ", ".join(vars(self)) or "no fields", name)
        )


_classes = {}


def view_class(module, name):
    """The `View` class that stands for a class of the host; always the same one."""
    found = _classes.get((module, name))
    if found is None:
        short = name.rpartition(".")[2]
        found = type(short, (View,), {"__module__": module, "__qualname__": name})
        _classes[module, name] = found
    return found


def make_view(module, name):
    """What the host's pickles call for an object that the guest cannot import."""
    return view_class(module, name)()


class Loader(pickle.Unpickler):
    """Reads the host's answers."""

    def find_class(self, module, name):
        if module == "nekro_core.sandbox.handover" and name == "make_view":
            return make_view
        while True:
            try:
                return super().find_class(module, name)
            except (ImportError, AttributeError):
                # Another Python version may keep it one package higher (pathlib._local).
                parent, dot, _ = module.rpartition(".")
                if not dot:
                    return view_class(module, name)
                module = parent


def load(body):
    """The value of an answer."""
    return Loader(io.BytesIO(body)).load()
