"""Starts the processes of a cluster: `nekro gateway` and `nekro worker`."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from nekro_core.app.cluster.gateway import GatewayPart
from nekro_core.app.cluster.leadership import Leadership
from nekro_core.app.cluster.link import ClusterLink, cluster_settings
from nekro_core.app.cluster.shared_objects import open_cluster_objects
from nekro_core.app.cluster.worker import WorkerPart
from nekro_core.app.process_role import ProcessPart
from nekro_core.app.server import run
from nekro_core.app.settings import Settings
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class ClusterProcess:
    """Implements `ProcessKind` for a gateway or a worker."""

    role: ClusterRole
    wrong_settings_status = 2
    own_accounts = True

    def settings(self) -> Settings:
        """See `ProcessKind.settings`."""
        return cluster_settings(Settings.load(), self.role)

    def shared_objects(self, settings: Settings) -> AbstractAsyncContextManager[ObjectStore | None]:
        """See `ProcessKind.shared_objects`."""
        return open_cluster_objects(settings)

    @asynccontextmanager
    async def open(self, settings: Settings) -> AsyncIterator[ProcessPart]:
        """See `ProcessKind.open`. Raises `ClusterError`."""
        failure: Exception | None = None
        async with ClusterLink.open(settings, self.role) as link:
            part: ProcessPart = WorkerPart(link)
            if self.role is ClusterRole.GATEWAY:
                part = GatewayPart(link, Leadership(link.leases, link.node))
            try:
                yield part
            except Exception as error:  # noqa: BLE001 (raised again below, and not wrapped)
                failure = error
        if failure is not None:
            raise failure


def run_gateway() -> int:
    """Run a gateway. Return the exit status."""
    return run(ClusterProcess(ClusterRole.GATEWAY))


def run_worker() -> int:
    """Run a worker. Return the exit status."""
    return run(ClusterProcess(ClusterRole.WORKER))
