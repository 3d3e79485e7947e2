"""Reads the address of the cluster's NATS servers (``NEKRO_CLUSTER_URL``)."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from nekro_core.cluster.errors import ClusterMisconfigured

_EXPECTED = (
    "expected nats://HOST:PORT on this machine, or tls://USER:PASSWORD@HOST:PORT; several servers "
    "are separated by commas"
)
_PORT = 4222


@dataclass(frozen=True, slots=True)
class ClusterUrl:
    """The addresses of the servers of one NATS cluster.

    Attributes:
        servers: The URLs, with user and password. Do not log them.
        encrypted: Whether the connection uses TLS.
    """

    servers: tuple[str, ...]
    encrypted: bool

    @property
    def password(self) -> str:
        """The password of the URLs that have one; empty if none has one. Do not log it."""
        return next((found for each in self.servers if (found := _password(each))), "")

    def __str__(self) -> str:
        """The addresses without user and password, for logs and error texts."""
        return ",".join(map(_shown, self.servers))

    def __repr__(self) -> str:
        return f"ClusterUrl({str(self)!r})"


def read_cluster_url(text: str) -> ClusterUrl:
    """Check the address of the NATS servers.

    Everybody who can connect to NATS can make the bot send messages. So the URL of a server on
    another machine must have a user and a password, and the connection must be encrypted.

    Args:
        text: One URL, or several separated by commas. The scheme is ``nats`` or ``tls``.

    Raises:
        ClusterMisconfigured: The text is not such a URL, or it names a server on another machine
            without a password or without TLS. The error's text does not contain the password.
    """
    urls = [each.strip() for each in text.split(",") if each.strip()]
    if not urls:
        raise ClusterMisconfigured(f"NEKRO_CLUSTER_URL is empty: {_EXPECTED}")
    schemes = {_checked(each) for each in urls}
    if len(schemes) > 1:
        raise ClusterMisconfigured(
            "NEKRO_CLUSTER_URL mixes nats:// and tls://: all servers of a cluster need the same"
        )
    if len({found for each in urls if (found := _password(each))}) > 1:
        raise ClusterMisconfigured(
            "NEKRO_CLUSTER_URL has several passwords: all servers of a cluster have the same "
            "users, and gateways sign the leases of accounts with the password"
        )
    return ClusterUrl(_with_ports(urls), schemes == {"tls"})


def _checked(url: str) -> str:
    """Check one URL and return its scheme."""
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError for a wrong port
    except ValueError as error:
        raise ClusterMisconfigured(f"NEKRO_CLUSTER_URL is no URL ({error}): {_EXPECTED}") from None
    shown = _shown(url)
    if parts.scheme not in ("nats", "tls") or not parts.hostname or port == 0:
        raise ClusterMisconfigured(f"NEKRO_CLUSTER_URL has {shown}: {_EXPECTED}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ClusterMisconfigured(f"NEKRO_CLUSTER_URL has {shown} with a path: {_EXPECTED}")
    if is_loopback(parts.hostname):
        return parts.scheme
    if not parts.username or not parts.password:
        raise ClusterMisconfigured(
            f"{shown} is not on this machine, and its URL has no user and password: anybody who "
            "reaches the server could speak as the bot. `nekro cluster credentials` makes them."
        )
    if parts.scheme != "tls":
        raise ClusterMisconfigured(
            f"{shown} is not on this machine, and nats:// would send the password unencrypted: "
            "give the server a certificate and write tls:// instead"
        )
    return parts.scheme


def _with_ports(urls: Sequence[str]) -> tuple[str, ...]:
    """Return the URLs. A URL without a port gets the default port of NATS."""
    return tuple(url if urlsplit(url).port else f"{url.rstrip('/')}:{_PORT}" for url in urls)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _password(url: str) -> str:
    return unquote(urlsplit(url).password or "")


def _shown(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else "a text without ://"
