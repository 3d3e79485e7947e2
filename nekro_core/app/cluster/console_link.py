"""Connects the consoles of gateways with all processes of the cluster."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from nekro_core import __version__
from nekro_core.app.app import App
from nekro_core.app.cluster.link import ClusterLink
from nekro_core.app.cluster.other_processes import ClusterProcesses
from nekro_core.app.cluster.process_register import ProcessRegister, RegisteredProcess
from nekro_core.app.cluster.process_server import ProcessServer
from nekro_core.app.cluster.process_state import OwnState
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.process_calls import ProcessCalls
from nekro_core.store import Ownership
from nekro_core.system.background_tasks import background_tasks

_SCRATCH = "outgoing"
"""The folder in the data folder for large messages while they are read or written."""


@asynccontextmanager
async def answering_consoles(
    app: App,
    link: ClusterLink,
    *,
    owned: Mapping[int, Ownership],
    wall: Callable[[], float] = time.time,
) -> AsyncIterator[None]:
    """Answer what the consoles of gateways ask this process, until the block ends. If this process
    is a gateway, its own console can ask the other processes from now on.

    Args:
        app: The bot of this process.
        link: The connection to the cluster.
        owned: The partitions that this process owns.
        wall: Returns the current time, in seconds since 1970.
    """
    own = RegisteredProcess(node=link.node, role=link.role, version=__version__, started=wall())
    register = ProcessRegister(app.message_io.store.waiting, own, wall)
    state = OwnState(app, own, lambda: len(owned))
    calls = ProcessCalls(link.process_calls, link.objects, app.host.data_dir / _SCRATCH)
    server = ProcessServer(
        operator=app.operations,
        tools=app.tools.here,
        state=state,
        owned=owned,
        partitions=link.partitions,
    )
    async with calls.serve(link.role, link.node, server.handle), background_tasks() as tasks:
        tasks.start_soon(register.live, name="list of processes")
        if link.role is ClusterRole.GATEWAY:
            others = ClusterProcesses(
                operator=app.operations,
                calls=calls,
                register=register,
                own=state,
                store=app.message_io.store,
                partitions=link.partitions,
            )
            await others.look()
            app.operations.connect(others)
            app.turns.others = app.tools.others = others
            tasks.start_soon(others.live, name="owners of chats for the console")
        yield
