"""Checks where a request comes from: the ``Host`` header, the origin, and the headers with which a
browser describes the page that made the request."""

import ipaddress
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from starlette.datastructures import Headers


def host_allowed(host: str, allowed: AbstractSet[str]) -> bool:
    """Return True if a ``Host`` header names this bot.

    Every numeric address is accepted. An attack by DNS rebinding uses a page whose address has a
    host name, and the browser then sends this host name.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if not name or "@" in host or "/" in host:
        return False
    return name == "localhost" or name.endswith(".localhost") or name in allowed or _is_ip(name)


def origin_allowed(origin: str | None, host: str, allowed: AbstractSet[str]) -> bool:
    """Return True if the request comes from a page of this bot, or has no ``Origin`` header, like
    the requests of a script.

    A reverse proxy may replace ``Host``, so the configured host names are accepted too.
    """
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        return parts.scheme in {"http", "https"} and (
            _with_port(parts.netloc, parts.scheme) == _with_port(host, parts.scheme)
            or (parts.hostname or "") in allowed
        )
    except ValueError:
        return False


def pulled_in(headers: Headers) -> bool:
    """Return True if a page of another site loads this address, for example as a picture or a
    script. Such a request has no ``Origin``, but it has the session cookie if the other page is on
    another port of this host. For a click on a link, the result is False."""
    return (
        "origin" not in headers
        and headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
        and headers.get("sec-fetch-mode") != "navigate"
    )


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_port(netloc: str, scheme: str) -> tuple[str, int]:
    parts = urlsplit(f"//{netloc}")
    return (parts.hostname or "").rstrip("."), parts.port or (443 if scheme == "https" else 80)
