"""Decodes a call that a guest sends. Arguments are plain data, within limits.

A call is refused if it has duplicate keys, NaN or infinity, whole numbers of more than 64 bits, or
too deep nesting. Strings and bytes can be pieces of the frame's body; a piece outside the body is
refused. Nothing is unpickled.

There are two decoders. The quick decoder takes 1 us. It reads only calls whose text certainly has
none of these problems. The strict decoder takes 15 us and reads all other calls. Only the strict
decoder refuses calls. For calls that both decoders accept, they return the same result (a property
test checks this).
"""

import json
import math
import re
from typing import Any

import msgspec

from nekro_core.sandbox.box import GuestCall
from nekro_core.system.errors import NekroError

_DEPTH = 64
_INT_DIGITS = 20


class InvalidCall(NekroError, ValueError):
    """A guest sent an invalid call. Untrusted code must have written the frame, because the
    functions in the guest never send invalid calls."""


class _Call(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    args: list[Any]
    kwargs: dict[str, Any]


_QUICK = msgspec.json.Decoder(_Call)
_LONG_NUMBER = re.compile(rb"\d{19}|\d[eE][+-]?\d{3}")
"""Matches numbers with so many digits that they may not fit into 64 bits, and exponents that may
make a number infinite."""


def decode_call(text: bytes, body: bytes) -> GuestCall:
    """Decode the call in a frame. Raises `InvalidCall`."""
    return decode_quickly(text) or decode_strictly(text, body)


def decode_quickly(text: bytes) -> GuestCall | None:
    """Decode a simple call. Returns None if the call needs the strict decoder. A simple call has no
    long number, and the keyword arguments are its only dict. The call's text has as many colons as
    the decoded dict has keys, so the text has no key twice."""
    if b'"$' in text or text.count(b"{") != 1 or text.count(b"[") > _DEPTH:
        return None
    if _LONG_NUMBER.search(text):
        return None
    try:
        call = _QUICK.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if call.kwargs and text.count(b":") != len(call.kwargs):
        return None
    return GuestCall(name=call.name, args=tuple(call.args), kwargs=call.kwargs)


def decode_strictly(text: bytes, body: bytes) -> GuestCall:
    """Decode any call. Raises `InvalidCall`."""
    decoder = _PLAIN if b'"$' not in text else _decoder(memoryview(body))
    try:
        decoded = decoder.decode(text.decode())
    except RecursionError as error:
        raise InvalidCall("arguments nested too deep") from error
    except ValueError as error:
        raise InvalidCall(f"arguments that cannot be read: {error}") from error
    if text.count(b"[") + text.count(b"{") > _DEPTH:
        _check_depth(decoded)
    match decoded:
        case [str(name), list(args), dict(kwargs)]:
            return GuestCall(name=name, args=tuple(args), kwargs=kwargs)
    raise InvalidCall("a call must be a name, a list and a dict")


def _decoder(body: memoryview) -> json.JSONDecoder:
    def pairs(found: list[tuple[str, Any]]) -> Any:
        if len(found) == 1:
            mark, value = found[0]
            if mark.startswith("$"):
                return _special(mark, value, body)
        result = dict(found)
        if len(result) != len(found):
            raise InvalidCall("a dict with the same key twice")
        return result

    return json.JSONDecoder(
        object_pairs_hook=pairs, parse_int=_whole, parse_float=_real, parse_constant=_constant
    )


def _special(mark: str, value: Any, body: memoryview) -> Any:
    match mark, value:
        case "$d", [[str(key), inner]]:
            return {key: inner}
        case (("$b" | "$t"), [int(offset), int(length)]):
            if not (offset >= 0 and length >= 0 and offset + length <= len(body)):
                raise InvalidCall("a piece outside the body")
            piece = bytes(body[offset : offset + length])
            return piece if mark == "$b" else piece.decode()
    raise InvalidCall("an unknown mark")


def _whole(digits: str) -> int:
    if len(digits) <= _INT_DIGITS:
        number = int(digits)
        if -(2**63) <= number < 2**64:
            return number
    raise InvalidCall("a whole number beyond 64 bits")


def _real(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise InvalidCall("a number that is not finite")
    return number


def _constant(name: str) -> Any:
    raise InvalidCall(f"the number {name}")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, list):
                inner += [part for part in item if isinstance(part, list | dict)]
            elif isinstance(item, dict):
                inner += [part for part in item.values() if isinstance(part, list | dict)]
        if not inner:
            return
        level = inner
    raise InvalidCall("arguments nested too deep")


_PLAIN = _decoder(memoryview(b""))
