"""Resolves a name, checks its addresses, and connects to one of them. The name is resolved only
once, so the connection goes to a checked address."""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import ByteStream

from nekro_core.sandbox.egress.rules import Destination, EgressDenied, EgressRule
from nekro_core.system.addresses import Address, is_of_this_machine, is_public
from nekro_core.system.errors import NekroError

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name. Raises `OSError`."""

Connect = Callable[[Address, int], Awaitable[ByteStream]]
"""Connects to an address, never to a name. Raises `OSError`."""

_MOST_ADDRESSES = 8


class DestinationUnreachable(NekroError):
    """An allowed destination does not answer. The proxy sends the message to the client in the
    box."""


async def resolve_by_system(name: str) -> Sequence[str]:
    """Resolve a name with this machine's resolver."""
    found = await anyio.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def connect_by_system(address: Address, port: int) -> ByteStream:
    """Connect over this machine's network."""
    return await anyio.connect_tcp(str(address), port)


class Dialer:
    """Connects to allowed destinations. ``connect_s`` limits the whole attempt, including
    resolving."""

    def __init__(
        self,
        resolve: Resolve = resolve_by_system,
        connect: Connect = connect_by_system,
        *,
        connect_s: float = 10.0,
    ) -> None:
        self._resolve = resolve
        self._connect = connect
        self._connect_s = connect_s

    async def dial(self, destination: Destination, rule: EgressRule) -> ByteStream:
        """Connect to the destination. Raises `EgressDenied` and `DestinationUnreachable`.

        If ``rule`` allows only public addresses and one address of the name is not public, all
        addresses of the name are refused. A DNS server that mixes both kinds is probably used for
        an attack.
        """
        try:
            with anyio.fail_after(self._connect_s):
                addresses = await self._addresses(destination)
                if not rule.private:
                    for address in addresses:
                        if not is_public(address) or is_of_this_machine(address):
                            raise EgressDenied(
                                f"{destination.host} has an address that is not public"
                            )
                return await self._first(addresses, destination.port)
        except TimeoutError:
            raise DestinationUnreachable(f"{destination} did not answer in time") from None

    async def _addresses(self, destination: Destination) -> list[Address]:
        if destination.address is not None:
            return [destination.address]
        try:
            found = await self._resolve(destination.host)
            addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in found]
        except (OSError, ValueError):
            raise DestinationUnreachable(f"{destination.host} has no address") from None
        if not addresses:
            raise DestinationUnreachable(f"{destination.host} has no address")
        return list(dict.fromkeys(addresses))

    async def _first(self, addresses: list[Address], port: int) -> ByteStream:
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                return await self._connect(address, port)
            except OSError:
                continue
        raise DestinationUnreachable(f"nobody answers at port {port} of this host")
