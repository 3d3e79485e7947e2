"""Distinguishes public network addresses from private ones and from addresses of this machine.

Code that connects to a host that a stranger named must check the address to which it connects, not
only the host's name.
"""

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_UNICAST = ipaddress.IPv6Network("2000::/3")
"""The part of IPv6 that is routed on the internet. Some addresses outside of this part are global
too according to `ipaddress`."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NOT_OUTSIDE = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # protocol assignments; a cloud's metadata service is there
            "192.88.99.0/24",  # relays of 6to4 (an old way to send IPv6 over IPv4)
            "168.63.129.16/32",  # internal services of Azure, at an address that looks public
            "2001::/23",  # protocol assignments, for example Teredo
            "3fff::/20",  # documentation
        ),
    )
)
"""Networks that are not public, although `ipaddress` calls them global in at least one supported
version of Python."""


def is_public(address: Address) -> bool:
    """Return True if an address is on the public internet. An IPv6 address may contain an IPv4
    address. Then the result is that of the IPv4 address."""
    reached = _embedded(address)
    if isinstance(reached, ipaddress.IPv6Address) and reached not in _UNICAST:
        return False
    return _is_outside(reached)


def is_of_this_machine(address: Address) -> bool:
    """Return True if an address belongs to this machine.

    Such an address can be public. It must be recognized, because the machine's firewall does not
    stop a connection from the machine to itself. A router may forward connections to this machine.
    Returns False for the router's address, because this machine does not know that address.
    """
    reached = _embedded(address)
    if reached.is_loopback or reached.is_unspecified or reached.is_link_local:
        return True
    return any(map(_can_bind, {address, reached}))


def _embedded(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address. Any other address is returned unchanged."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _can_bind(address: Address) -> bool:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _is_outside(address: Address) -> bool:
    special = any(address in network for network in _NOT_OUTSIDE)
    return address.is_global and not address.is_multicast and not special
