"""Finds the proxy that the environment names for an address: ``HTTPS_PROXY``, ``HTTP_PROXY``,
``ALL_PROXY`` and ``NO_PROXY``, in upper or lower case."""

import os
from urllib.parse import urlsplit


def environment_proxy(address: str) -> str | None:
    """Return the proxy that the environment names for an address; None if it names none. An entry
    of NO_PROXY is a host name or the end of a host name. An entry that httpx cannot read, such as a
    network, matches nothing. Raises `ValueError` for an address that is not a URL."""
    url = urlsplit(address)
    host = url.hostname or ""
    given = {name.lower(): value for name, value in os.environ.items() if value}
    for entry in given.get("no_proxy", "").lower().split(","):
        direct = entry.strip().strip("[]").removeprefix("*").removeprefix(".")
        if entry.strip() == "*" or (direct and f".{host}".endswith(f".{direct}")):
            return None
    proxy = given.get(f"{url.scheme}_proxy") or given.get("all_proxy")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"
