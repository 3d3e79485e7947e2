"""Tells public network addresses from private ones and from this machine's own.

Code that connects to a host that a stranger named checks the very address that it connects to.
"""

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_UNICAST = ipaddress.IPv6Network("2000::/3")
"""The part of IPv6 that is routed. `ipaddress` calls much of the rest global, too."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NOT_OUTSIDE = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # protocol assignments; one cloud's metadata lies there
            "192.88.99.0/24",  # relays of 6to4
            "168.63.129.16/32",  # Azure's own services, at an address that looks public
            "2001::/23",  # protocol assignments, Teredo among them
            "3fff::/20",  # documentation
        ),
    )
)
"""Networks that some supported version of Python wrongly calls global."""


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet. Checks an IPv4 address inside an IPv6 one."""
    reached = _embedded(address)
    if isinstance(reached, ipaddress.IPv6Address) and reached not in _UNICAST:
        return False
    return _is_outside(reached)


def is_of_this_machine(address: Address) -> bool:
    """Whether an address is one of this machine's own.

    That can be a public address: connecting to it passes the machine's firewall. Addresses that a
    router in front of the machine forwards are not known here.
    """
    reached = _embedded(address)
    if reached.is_loopback or reached.is_unspecified or reached.is_link_local:
        return True
    return any(map(_can_bind, {address, reached}))


def _embedded(address: Address) -> Address:
    """The IPv4 address inside an IPv6 address; any other address as it is."""
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
