"""Which network addresses are out on the internet. Whoever connects to a name that a stranger chose
asks this about the very address that it then connects to."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that is routed of IPv6; `ipaddress` calls much of the rest global too."""
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
"""What `ipaddress` calls global, in some version of Python that we run on."""


def is_public(address: Address) -> bool:
    """Whether an address is out on the internet, also behind the ways from IPv6 to IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is None:
            return address in _UNICAST and _is_outside(address)
        address = inside
    return _is_outside(address)


def _is_outside(address: Address) -> bool:
    inner = any(address in network for network in _NOT_OUTSIDE)
    return address.is_global and not address.is_multicast and not inner
