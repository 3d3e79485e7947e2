"""A fetch policy that allows every address, for tests whose peers run on this machine."""

from collections.abc import Sequence

from nekro_core.system.addresses import Address


class Anywhere:
    """A `nekro_core.delivery.media.fetch_policy.FetchPolicy` that allows everything."""

    def check_host(self, host: str, port: int) -> None:
        """Allow any host name."""

    def check_addresses(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """Allow any address."""

    def count_bytes(self, size: int) -> None:
        """Allow any number of bytes."""
