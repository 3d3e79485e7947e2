"""Decides who may read the metrics and the reasons why the bot is not ready."""

import ipaddress
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import Scope

from nekro_core.operator.roles import Actor

ALIVE = "/healthz"
READY = "/readyz"
METRICS = "/metrics"
METRICS_SCOPE = "metrics"
"""The name of the metrics in the scope of an API token. A token with ``metrics:read`` may read
them."""
_OPEN = "reads_metrics"
_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers that proxies add. A proxy on this machine forwards requests from other machines, which
seem to come from this machine. These headers show that they do not."""


def open_reading(scope: Scope, readers: str, allowed_hosts: AbstractSet[str]) -> bool:
    """Return True if a request may read the metrics without a login, and note the result in the
    request's state, for `may_read`.

    Args:
        scope: The request.
        readers: See `MetricsSettings.readers`.
        allowed_hosts: The host names under which the web site is reached. If there are any, a proxy
            may be in front of the bot, so no request is taken for a request from this machine.
    """
    found = readers == "anyone" or (
        readers == "loopback" and not allowed_hosts and _is_of_this_machine(scope)
    )
    scope.setdefault("state", {})[_OPEN] = found
    return found


def may_read(scope: Scope) -> bool:
    """Return True if the guard let this request in without a login, or if the person or the token
    may read the metrics."""
    state = scope.get("state", {})
    actor: Actor | None = state.get("actor")
    return bool(state.get(_OPEN)) or (
        actor is not None and actor.in_scope(METRICS_SCOPE, acts=False)
    )


def _is_of_this_machine(scope: Scope) -> bool:
    headers, client = Headers(scope=scope), HTTPConnection(scope).client
    if client is None or any(name in headers for name in _OF_PROXIES):
        return False
    host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    return _is_loopback(client.host) and (host == "localhost" or _is_loopback(host))


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback
