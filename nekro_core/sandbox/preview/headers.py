"""Filters the headers of a request to a server in a box, and the headers of the answer."""

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from nekro_core.sandbox.hop_headers import Header, end_to_end_headers

OURS = b"nekro_"
"""Prefix of all cookies of the bot. These cookies are never forwarded to a box."""

_ABOUT_THE_VISITOR = frozenset(
    {
        b"forwarded",
        b"x-forwarded",
        b"x-real-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"true-client-ip",
        b"cf-connecting-ip",
        b"via",
    }
)
"""Headers in which a reverse proxy in front of the bot puts the visitor's address. They are not
forwarded, because untrusted code in a box does not need the address."""

_NOT_FROM_A_BOX = frozenset({b"date", b"server", b"clear-site-data", b"alt-svc", b"refresh"})
"""Headers of a box's answer that are not forwarded. The web server itself writes ``Date`` and
``Server``. ``Clear-Site-Data`` acts on all names of a domain, so also on the bot's page.
``Alt-Svc`` sends the browser to another port. ``Refresh`` is a redirect that pages do not need."""

_DOMAIN = re.compile(rb";\s*domain\s*(=[^;]*)?(?=;|$)", re.IGNORECASE)
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
"""Matches the header values that the web server accepts. h11 also accepts control characters."""


def request_headers(headers: Iterable[Header], *, scheme: str) -> list[Header]:
    """Return the headers that the server in the box gets. ``Host`` is unchanged, so that the server
    can make correct links and check ``Origin``."""
    given = list(headers)
    passed = []
    for name, value in end_to_end_headers(given):
        if name in _ABOUT_THE_VISITOR or name.startswith((b"x-forwarded-", b"sec-websocket-")):
            continue
        if name == b"cookie":
            kept = _without_ours(value)
            if kept:
                passed.append((name, kept))
        else:
            passed.append((name, value))
    host = next((value for name, value in given if name == b"host"), b"")
    return [*passed, (b"x-forwarded-host", host), (b"x-forwarded-proto", scheme.encode())]


def response_headers(headers: Iterable[Header], port: int) -> list[Header]:
    """Return the headers of the answer that the browser gets. ``port`` is the server's port in the
    box."""
    passed = []
    names = set()
    for name, value in end_to_end_headers(headers):
        if name in _NOT_FROM_A_BOX or name.startswith(b"sec-websocket-"):
            continue
        if not _VALUE.fullmatch(value):
            continue
        if name == b"set-cookie":
            passed.append((name, _DOMAIN.sub(b"", value)))
        elif name in {b"location", b"content-location"}:
            passed.append((name, _location(value, port)))
        else:
            passed.append((name, value))
        names.add(name)
    if b"referrer-policy" not in names:
        # Everybody who knows the host name of a preview can open the preview. So the browser must
        # not send this name to other sites as the referrer.
        passed.append((b"referrer-policy", b"same-origin"))
    return [*passed, (b"x-robots-tag", b"noindex")]


def _without_ours(cookies: bytes) -> bytes:
    pairs = (pair.strip() for pair in cookies.split(b";"))
    return b"; ".join(
        pair for pair in pairs if pair and not pair.strip(b'" \t').lower().startswith(OURS)
    )


def _location(value: bytes, port: int) -> bytes:
    """Return the target of a redirect for the browser. If it is the server's own address in the
    box, return only the path, so that the browser stays in the preview. Any other target is not
    changed."""
    try:
        parts = urlsplit(value.decode("latin-1"))
        own = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return value
    if parts.scheme not in {"http", "https", ""} or not _is_loopback(parts.hostname or ""):
        return value
    if own != port:
        return value
    # The path gets exactly one slash at its beginning. A browser would read the text after two
    # slashes as a host name.
    path = "/" + parts.path.lstrip("/\\")
    query = f"?{parts.query}" if parts.query else ""
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return f"{path}{query}{fragment}".encode("latin-1")


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
