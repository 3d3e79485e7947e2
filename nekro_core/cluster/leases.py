"""Makes sure that at most one process uses a name, such as an account of a platform."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from nekro_core.cluster.errors import LeaseTaken


class Leases(Protocol):
    """Names that one process at a time may use."""

    def hold(self, name: str, holder: str) -> AbstractAsyncContextManager[None]:
        """Use a name until the block ends.

        Args:
            name: The name: 1 to 200 characters.
            holder: Who uses it, for the error that another process gets.

        Raises:
            LeaseTaken: Another block uses the name; the text says who.
            LeaseLost: Another process has taken the name, because this one was stopped for too
                long. The block is cancelled before.
            ClusterUnavailable: NATS did not answer when the block began.
        """


class LocalLeases:
    """Implements `Leases` for one process."""

    def __init__(self) -> None:
        self._holders: dict[str, str] = {}

    @asynccontextmanager
    async def hold(self, name: str, holder: str) -> AsyncIterator[None]:
        """See `Leases.hold`."""
        if other := self._holders.get(name):
            raise LeaseTaken(f"{name} is used by {other}")
        self._holders[name] = holder
        try:
            yield
        finally:
            del self._holders[name]
