"""Decides which HTTP headers a proxy passes on, and which are for one connection only."""

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
"""RFC 9110, 7.6.1, with the old ones that it mentions. The names in ``Connection`` are added."""

_NEVER_NAMED = frozenset({b"host", b"content-length", b"cookie", b"set-cookie"})
"""``Connection`` cannot remove these, because they frame a message or say whose it is."""


def end_to_end_headers(headers: Iterable[Header]) -> list[Header]:
    """The headers that a proxy passes on."""
    given = list(headers)
    named = {
        token.strip().lower()
        for name, value in given
        if name == b"connection"
        for token in value.split(b",")
    }
    dropped = _HOP_BY_HOP | (named - _NEVER_NAMED)
    return [(name, value) for name, value in given if name not in dropped]
