"""A network without rules, for tests whose peers are on this machine and in this process."""

from collections.abc import Sequence

from nekro_core.system.addresses import Address


class Anywhere:
    """A `nekro_core.delivery.media.fetch_policy.FetchPolicy` that allows everything."""

    def may_look_up(self, host: str, port: int) -> None:
        """Any name."""

    def may_connect(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """Any address."""

    def took(self, size: int) -> None:
        """As much as it likes."""
