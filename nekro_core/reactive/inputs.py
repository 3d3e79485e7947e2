"""Reads the inputs of a cell. Makes a private copy of them, and a key that changes when an input
changes."""

import copy
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from nekro_core.reactive.errors import BadInput
from nekro_core.reactive.values import Node, reading

_DEPTH: Final = 64
MAX_INPUT: Final = 32 * 1024 * 1024
"""Maximum number of bytes of all inputs of a cell together. It is as large as the largest body that
a fetch may return."""


@dataclass(frozen=True, slots=True, eq=False)
class InputSnapshot:
    """The inputs of a cell at one moment.

    Equal inputs have the same ``key``. The key is empty if a needed input is missing, or if reading
    the inputs raised the exception ``problem``. ``waiting`` says that an input is not final yet.
    """

    key: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    waiting: bool = False
    problem: Exception | None = None


def read_inputs(
    reader: Node,
    wanted: Mapping[str, Any],
    needed: Collection[str],
    present: Collection[str],
    salt: int,
) -> InputSnapshot:
    """Read every input in ``wanted``. ``reader`` is the node of the cell.

    ``present`` has the names of the inputs that must not be None, and ``needed`` the names of those
    that must be neither None nor empty. The cell stays idle until this is so. Equal
    inputs with a different ``salt`` have a different key.
    """
    waiting = False
    try:
        with reading(reader) as current:
            try:
                read = {name: resolve(each) for name, each in wanted.items()}
            finally:
                waiting = current.waiting
        idle = any(read[name] is None for name in present) or any(
            _is_missing(read[name]) for name in needed
        )
        values = {name: value for name, value in read.items() if value is not None}
        key = "" if idle else _key(values, salt)
    except Exception as error:  # noqa: BLE001 - becomes the cell's ``error``
        return InputSnapshot(waiting=waiting, problem=error)
    return InputSnapshot(key, values, waiting)


def resolve(value: Any, depth: int = 0) -> Any:
    """Return a copy of a value, in which every `Readable` is replaced by its present value."""
    if depth > _DEPTH:
        raise BadInput(f"an input is nested more than {_DEPTH} deep")
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case list() | tuple():
            return [resolve(each, depth + 1) for each in value]
        case dict():
            return {name: resolve(each, depth + 1) for name, each in value.items()}
    if is_readable(value):
        return resolve(value.get(), depth + 1)
    return copy.deepcopy(value)


def is_readable(value: Any) -> bool:
    """Return True if a value is a `Readable`."""
    return callable(value) and callable(getattr(value, "get", None)) and not isinstance(value, type)


def _is_missing(value: Any) -> bool:
    return value is None or value in ("", b"", [], {})


def _key(values: dict[str, Any], salt: int) -> str:
    try:
        packed = msgspec.msgpack.encode((salt, values), order="deterministic")
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise BadInput(f"an input is not plain data: {error}") from None
    if len(packed) > MAX_INPUT:
        limit = MAX_INPUT // 1024 // 1024
        raise BadInput(f"the inputs have {len(packed)} bytes: at most {limit} MiB")
    return hashlib.sha256(packed).hexdigest()
