"""Offers small replacements for modules of the standard library that are slow to import.

`contextlib`, `json` and `ctypes` import `collections`, `enum`, `functools` and `re`, which together
take as long as the start of the interpreter. The supervisor starts without these modules. It
imports some of them later, while the box is idle, so that runs need not import them.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any


_PR_SET_SECCOMP = 22


class suppress:  # noqa: N801 - it replaces `contextlib.suppress`
    """If the ``with`` block raises one of these errors, leave the block and raise nothing."""

    def __init__(self, *errors: type[BaseException]) -> None:
        self._errors = errors

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return kind is not None and issubclass(kind, self._errors)


class _Reading:
    """The settings for the JSON scanner, with the values that `json.JSONDecoder` uses."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _make_json() -> tuple[Callable[[str | bytes], Any], Callable[[Any], str], Callable[[Any], str]]:
    """Make ``loads``, ``dumps``, and a ``dumps`` that escapes only what JSON requires.

    The three functions use the interpreter's private JSON scanner and encoders, as `json` does. If
    the scanner and encoders do not behave as in CPython 3.9 to 3.14, `json` is used instead.
    """
    try:
        import _json

        scan = _json.make_scanner(_Reading)
        loads, dumps, dumps_unescaped = (
            lambda text: scan(text if isinstance(text, str) else text.decode(), 0)[0],
            _encoder(_json.make_encoder, _json.encode_basestring_ascii),
            _encoder(_json.make_encoder, _json.encode_basestring),
        )
        value = {"a": [1, 0.5, None, True, "\u00e9"]}
        as_expected = loads(dumps(value)) == value == loads(dumps_unescaped(value))
    # An interpreter other than CPython may raise any exception here.
    except Exception:
        as_expected = False
    if as_expected:
        return loads, dumps, dumps_unescaped
    import json

    unescaped = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return json.loads, json.dumps, unescaped.encode


def _encoder(make_encoder: Any, of_text: Any) -> Callable[[Any], str]:
    encode = make_encoder(None, _refuse, of_text, None, ":", ",", False, False, False)
    return lambda value: "".join(encode(value, 0))


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON")


loads, dumps, dumps_unescaped = _make_json()


def prctl(option: int, value: int) -> None:
    """Call the C library's ``prctl``, like ``ctypes.CDLL(None).prctl``."""
    try:
        from _ctypes import call_function, dlopen, dlsym

        function = dlsym(dlopen(None, 0), "prctl")
    except ImportError:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    else:
        call_function(function, (option, value, 0, 0, 0))


def filter_calls(program: bytes) -> None:
    """Install a seccomp filter, in addition to the filters that are already installed. Raises
    OSError.

    The host builds the program (`nekro_core.system.confinement.jail_filter`). This function is
    needed because a box does not have the host's package. The test
    ``tests/system/confinement/test_jail_filter.py`` checks that it has the same result as
    ``docker/inside/load_guest.py``.
    """
    length = len(program) // 8  # An instruction has 8 bytes.
    try:
        from _ctypes import _SimpleCData, addressof, call_function, dlopen, dlsym

        class Byte(_SimpleCData):
            _type_ = "B"

        class Pointer(_SimpleCData):
            _type_ = "P"

        kept = (Byte * len(program)).from_buffer_copy(program)
        head = length.to_bytes(8, sys.byteorder) + addressof(kept).to_bytes(8, sys.byteorder)
        told = (Byte * 16).from_buffer_copy(head)
        function = dlsym(dlopen(None, 0), "prctl")
        arguments: tuple[Any, ...] = (_PR_SET_SECCOMP, 2, Pointer(addressof(told)), 0, 0)
        failed = call_function(function, arguments)
    except ImportError:
        import ctypes

        kept = ctypes.create_string_buffer(program, len(program))
        address = ctypes.addressof(kept)
        head = length.to_bytes(8, sys.byteorder) + address.to_bytes(8, sys.byteorder)
        failed = ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(head), 0, 0)
    if failed:
        raise OSError("the kernel refused the seccomp filter")
