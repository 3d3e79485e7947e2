"""A network without rules, for tests whose peers are on this machine and in this process."""

from collections.abc import Sequence

from nekro_core.system.addresses import Address


class Anywhere:
    """A `nekro_core.delivery.media.fetch_policy.FetchPolicy` that allows everything."""

    def check_host(self, host: str, port: int) -> None:
        """Any name."""

    def check_addresses(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """Any address."""

    def count_bytes(self, size: int) -> None:
        """As much as it likes."""
