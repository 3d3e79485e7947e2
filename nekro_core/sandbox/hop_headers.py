"""Decides which HTTP headers a proxy forwards. Headers that are for one connection only are not
forwarded."""

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
"""Headers for one connection only: the headers in section 7.6.1 of RFC 9110, including the old
headers that the section mentions. A message can name more such headers in its header
``Connection``."""

_NEVER_NAMED = frozenset({b"host", b"content-length", b"cookie", b"set-cookie"})
"""Headers that are forwarded even if ``Connection`` names them. These headers say where a message
ends, and which host or user it belongs to. So the sender must not be able to remove them."""


def end_to_end_headers(headers: Iterable[Header]) -> list[Header]:
    """Return the headers that a proxy forwards."""
    given = list(headers)
    named = {
        token.strip().lower()
        for name, value in given
        if name == b"connection"
        for token in value.split(b",")
    }
    dropped = _HOP_BY_HOP | (named - _NEVER_NAMED)
    return [(name, value) for name, value in given if name not in dropped]
