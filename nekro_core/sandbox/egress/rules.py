"""Decides which destinations a box may reach. Only one spelling of each destination is accepted."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import idna

from nekro_core.system.addresses import Address
from nekro_core.system.errors import NekroError

DEFAULT_PORTS = frozenset({80, 443})

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_LONGEST_NAME = 253


class EgressDenied(NekroError):
    """A box may not reach this destination. The proxy sends the message to the client in the
    box."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A host and a port that a client in a box requested. If the host is an IP address, ``address``
    is set too."""

    host: str
    port: int
    address: Address | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, authority: str, default_port: int | None = None) -> Self:
        """Parse ``host:port``, or only a host if there is a ``default_port``. Raises `EgressDenied`
        for spellings that different programs may understand in different ways.

        A name is accepted only in lower case and without a dot at its end. With any other spelling,
        a rule that has the usual spelling of the host would not apply. An IP address is accepted
        only if `ipaddress` can parse it.
        """
        found = _AUTHORITY.fullmatch(authority)
        port = int(found[2]) if found and found[2] else default_port
        if found is None or port is None or not 1 <= port <= 65535:
            raise EgressDenied(f"{authority[:100]!r} is no host and port")
        host = found[1]
        if host.startswith("["):
            address = _address(host[1:-1], ipaddress.IPv6Address)
            return cls(f"[{address}]", port, address)
        labels = host.split(".")
        if _NUMBER.fullmatch(labels[-1]):
            return cls(host, port, _address(host, ipaddress.IPv4Address))
        if len(host) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
            raise EgressDenied(
                f"{host[:100]!r} is no name that can be allowed: write it in lower case, without a "
                "dot at its end, in ASCII"
            )
        return cls(host, port)


def _address(text: str, kind: type[Address]) -> Address:
    try:
        address = kind(text)
    except ValueError:
        raise EgressDenied(f"{text[:100]!r} is no address as it is usually written") from None
    if getattr(address, "scope_id", None):
        raise EgressDenied("an address of one network card cannot be allowed")
    return address


@dataclass(frozen=True, slots=True)
class EgressRule:
    """Allows some destinations. ``host`` is ``example.org``, ``*.example.org`` (all subdomains),
    ``*`` (every name with a dot), or an IP address. If the text of the rule has no ``:port``,
    ``ports`` are 80 and 443.

    With ``private``, the host may also have an address that is not public. This is for servers of
    the operator.
    """

    host: str
    ports: frozenset[int] = DEFAULT_PORTS
    private: bool = False

    @classmethod
    def parse(cls, text: str, *, private: bool = False) -> Self:
        """Parse a rule that an operator wrote. Raises `ValueError`, which says what is expected.

        Names with characters outside ASCII are accepted and converted to ``xn--``.
        """
        host, colon, port = text.strip().rpartition(":")
        if not colon or port.endswith("]"):
            host, port = text.strip(), ""
        if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            raise _no_rule(text, f"{port!r} is no port from 1 to 65535")
        ports = frozenset({int(port)}) if port else DEFAULT_PORTS
        if host == "*" and not private:
            return cls(host, ports)
        below = "*." if host.startswith("*.") else ""
        try:
            name = idna.encode(host.removeprefix("*."), uts46=True).decode()
        except idna.IDNAError:
            name = host.removeprefix("*.").lower()
        try:
            destination = Destination.parse(name.rstrip("."), 1)
        except EgressDenied as error:
            raise _no_rule(text, str(error)) from None
        if destination.address is not None and below:
            raise _no_rule(text, "an address has no subdomains")
        return cls(below + destination.host, ports, private)

    def matches(self, destination: Destination) -> bool:
        """Return True if this rule allows the destination."""
        if destination.port not in self.ports:
            return False
        if destination.address is not None:
            return self.host == destination.host
        if self.host == "*":
            return "." in destination.host
        if self.host.startswith("*."):
            return destination.host.endswith(self.host[1:])
        return destination.host == self.host


def _no_rule(text: str, reason: str) -> ValueError:
    return ValueError(
        f"{text!r} is no rule; expected a name such as example.org, *.example.org or "
        f"example.org:8443 ({reason})"
    )


@dataclass(frozen=True, slots=True)
class EgressRules:
    """All rules of one box. A box without rules has no network access."""

    rules: tuple[EgressRule, ...] = ()

    @classmethod
    def parse(cls, allowed: Iterable[str], private: Iterable[str] = ()) -> Self:
        """Parse rules that an operator wrote. Those in ``private`` allow private addresses. Raises
        `ValueError`."""
        inner = (EgressRule.parse(text, private=True) for text in private)
        return cls((*inner, *(EgressRule.parse(text) for text in allowed)))

    def __bool__(self) -> bool:
        return bool(self.rules)

    def find(self, destination: Destination) -> EgressRule | None:
        """Return the first rule that allows the destination, or None. Rules that allow private
        addresses are tried first."""
        return next((rule for rule in self.rules if rule.matches(destination)), None)
