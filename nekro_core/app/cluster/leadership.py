"""Chooses one gateway, the leader, which does what belongs to no chat, such as backups by a
schedule."""

import anyio
from loguru import logger

from nekro_core.cluster.errors import ClusterError, LeaseTaken
from nekro_core.cluster.leases import Leases

_NAME = "work of no chat"
"""The name of the lease."""
_AGAIN_S = 5.0
"""Pause in seconds before a gateway tries again to become the leader."""


class Leadership:
    """Says whether this gateway is the leader. The leader holds a lease.

    Args:
        leases: The leases of the cluster.
        node: The name of this gateway.
        again_s: Seconds before the next try while another gateway is the leader.
    """

    def __init__(self, leases: Leases, node: str, *, again_s: float = _AGAIN_S) -> None:
        self._leases = leases
        self._node = node
        self._again_s = again_s
        self._leads = False

    def __call__(self) -> bool:
        """Return whether this gateway is the leader now."""
        return self._leads

    async def live(self) -> None:
        """Try to become the leader, and stay the leader. Never returns."""
        while True:
            try:
                async with self._leases.hold(_NAME, self._node):
                    self._leads = True
                    logger.debug("{} does the work of no chat", self._node)
                    await anyio.sleep_forever()
            except LeaseTaken:
                pass
            except ClusterError as error:
                logger.warning("the work of no chat waits: {}", error)
            except Exception:  # noqa: BLE001 (the gateway must go on serving its accounts)
                logger.exception("the work of no chat waits")
            finally:
                self._leads = False
            await anyio.sleep(self._again_s)
