"""Which HTTP headers a proxy passes on, and which are for one connection alone."""

from collections.abc import Iterable

Header = tuple[bytes, bytes]
"""A name in lower case and its value."""

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110, 7.6.1, and what it says of old ones; besides these, what ``Connection`` names."""

_NEVER_NAMED = frozenset({b"host", b"content-length", b"cookie", b"set-cookie"})
"""What frames a message or says whose it is cannot be wished away by naming it."""


def end_to_end_headers(headers: Iterable[Header]) -> list[Header]:
    """Those that pass."""
    given = list(headers)
    named = {
        token.strip().lower()
        for name, value in given
        if name == b"connection"
        for token in value.split(b",")
    }
    dropped = _HOP_BY_HOP | (named - _NEVER_NAMED)
    return [(name, value) for name, value in given if name not in dropped]
