"""Makes sure that at most one process at a time uses a name. A gateway, for example, holds the name
of a platform account while it serves the account."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from nekro_core.cluster.errors import LeaseTaken


class Leases(Protocol):
    """Gives each name to at most one process at a time."""

    def hold(self, name: str, holder: str) -> AbstractAsyncContextManager[None]:
        """Use a name until the block ends.

        Args:
            name: The name: 1 to 200 characters.
            holder: The name of this process. A process that is refused shows it in its error. A
                process that was killed and started again under its name gets its names back at
                once, so two processes that run at the same time must not share a name.

        Raises:
            LeaseTaken: Another block, here or in another process, uses the name. The text names its
                ``holder``.
            LeaseLost: Another process has taken the name, because this process was suspended for
                too long and did not renew the lease. The block was cancelled.
            ClusterUnavailable: NATS did not answer when the block began.
        """

    def is_current(self, name: str) -> bool:
        """Return whether a block of this process uses a name and no other process can have taken it
        meanwhile. Check this right before you do what only the holder may do: a process that was
        suspended learns only at its next renewal that it has lost a name."""


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

    def is_current(self, name: str) -> bool:
        """See `Leases.is_current`."""
        return name in self._holders
