"""Reads the header of a GGUF file, and computes how much memory its model needs.

Source: the GGUF specification in the repository ggml-org/ggml. Only the few values that decide
about memory are kept; the others are skipped.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from nekro_core.llm.embedded.server import SLOTS
from nekro_core.llm.embedded.weights import WeightsError

_MAGIC = b"GGUF"
_MOST_VALUES = 10_000
_MAX_KEY = 65_535
_MAX_TEXT = 1000
_MAX_HEADER = 256 * 1024 * 1024
"""Maximum number of bytes of a header. The lists of tokens of large models have 10 MB."""
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Maps the number of each numeric type in GGUF to the character that `struct` uses for this
type."""
_TEXT, _LIST = 8, 9
_CACHE_BYTES = 2
"""Bytes of one number in the model's cache: llama.cpp stores keys and values as 16-bit floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufInfo:
    """The header of a model file. A number is 0 if the header does not contain it.

    Attributes:
        name: The model's name.
        architecture: The kind of model, such as ``qwen2``.
        bytes: The size of the file.
        context_tokens: The largest context for which the model was trained.
        cache_bytes: The memory of one token of context in the model's cache.
    """

    name: str
    architecture: str
    bytes: int
    context_tokens: int
    cache_bytes: int

    def memory(self, context_tokens: int) -> int:
        """Return the memory in bytes that the model needs for its weights and its cache. The
        program itself needs some more."""
        return self.bytes + SLOTS * context_tokens * self.cache_bytes


def read_gguf(path: Path) -> GgufInfo:
    """Read the header. Raises `WeightsError` if it cannot be read, or if the file is not GGUF."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            values = _values(file)
    except OSError as error:
        raise WeightsError(f"{path.name}: {error.strerror or error}") from error
    except (struct.error, ValueError, RecursionError) as error:
        raise WeightsError(f"{path.name} is no GGUF file that can be read: {error}") from None
    kind = str(values.get("general.architecture") or "")

    def number(key: str) -> int:
        value = values.get(f"{kind}.{key}")
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    heads = number("attention.head_count")
    wide = number("embedding_length") // heads if heads else 0
    keys = number("attention.key_length") or wide
    values_wide = number("attention.value_length") or wide
    kv_heads = number("attention.head_count_kv") or heads
    return GgufInfo(
        name=str(values.get("general.name") or path.stem),
        architecture=kind,
        bytes=size,
        context_tokens=number("context_length"),
        cache_bytes=number("block_count") * kv_heads * (keys + values_wide) * _CACHE_BYTES,
    )


def _values(file: BinaryIO) -> Mapping[str, Any]:
    if file.read(4) != _MAGIC:
        raise ValueError("it does not begin with GGUF")
    version, _, count = struct.unpack("<IQQ", _exactly(file, 20))
    if version not in (2, 3):
        raise ValueError(f"its version is {version}, expected 2 or 3")
    if count > _MOST_VALUES:
        raise ValueError(f"its header says that it has {count} values")
    found: dict[str, Any] = {}
    for _ in range(count):
        (length,) = struct.unpack("<Q", _exactly(file, 8))
        if length > _MAX_KEY:
            raise ValueError("a name in its header is too long")
        key = _exactly(file, length).decode("utf-8", "replace")
        (kind,) = struct.unpack("<I", _exactly(file, 4))
        value = _value(file, kind)
        if value is not None:
            found[key] = value
        if file.tell() > _MAX_HEADER:
            raise ValueError("its header is too long")
    return found


def _value(file: BinaryIO, kind: int) -> Any:
    """Read a value. Lists and long texts are skipped; then the result is None."""
    if kind in _NUMBERS:
        form = f"<{_NUMBERS[kind]}"
        return struct.unpack(form, _exactly(file, struct.calcsize(form)))[0]
    if kind == _TEXT:
        (length,) = struct.unpack("<Q", _exactly(file, 8))
        if length <= _MAX_TEXT:
            return _exactly(file, length).decode("utf-8", "replace")
        _skip(file, length)
        return None
    if kind != _LIST:
        raise ValueError(f"its header has a value of the unknown type {kind}")
    inner, count = struct.unpack("<IQ", _exactly(file, 12))
    if inner in _NUMBERS:
        _skip(file, count * struct.calcsize(f"<{_NUMBERS[inner]}"))
        return None
    for _ in range(count):
        _value(file, inner)
        if file.tell() > _MAX_HEADER:
            raise ValueError("its header is too long")
    return None


def _skip(file: BinaryIO, length: int) -> None:
    if length > _MAX_HEADER:
        raise ValueError("its header is too long")
    file.seek(length, 1)


def _exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise ValueError("it ends within its header")
    return data
