"""Starts a box's container and ends it."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
from docker.api.client import APIClient

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.docker.orphans import remove_container
from nekro_core.sandbox.docker.relay import plain_socket

_log = logging.getLogger(__name__)

_ALL_STREAMS = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}


@dataclass(frozen=True, slots=True)
class StartedContainer:
    """A running container and its attached stream."""

    container: str
    sock: socket.socket


def start(client: APIClient, config: dict[str, Any], name: str) -> StartedContainer:
    """Make a container, attach to it and start it. Blocks. After a failure the container is
    removed."""
    made = client.create_container_from_config(config, name)  # type: ignore[no-untyped-call]
    container: str = made["Id"]
    try:
        # Attach before the start, so that no output is lost.
        sock = plain_socket(client.attach_socket(container, params=_ALL_STREAMS))
        try:
            client.start(container)
        except BaseException:
            sock.close()
            raise
    except BaseException:
        client.remove_container(container, force=True, v=True)
        raise
    return StartedContainer(container, sock)


class ContainerReaper:
    """Ends containers in a task, for callers that cannot wait because they are callbacks of the
    event loop."""

    def __init__(self) -> None:
        self._wanted: deque[ContainerProcesses] = deque()
        self._called = asyncio.Event()

    def end(self, processes: "ContainerProcesses") -> None:
        """Have `serve` end this container. Returns at once."""
        self._wanted.append(processes)
        self._called.set()

    async def serve(self) -> None:
        """End requested containers until cancelled."""
        while True:
            await self._called.wait()
            self._called.clear()
            while self._wanted:
                await self._wanted.popleft().gone()


class ContainerProcesses:
    """The processes of a container; see `BoxProcesses`. ``free`` is called once, when the processes
    have ended."""

    def __init__(
        self, engine: DockerEngine, container: str, ender: ContainerReaper, free: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._container = container
        self._ender = ender
        self._free = free
        self._ending = anyio.Lock()
        self._freed = False

    def kill(self) -> None:
        """See `BoxProcesses.kill`. The caller must have closed the channel before. A supervisor
        that still reads its input then ends by itself."""
        self._ender.end(self)

    async def gone(self) -> None:
        """Remove the container and wait for its end, at most ten seconds; see `BoxProcesses.gone`.
        If that fails, the failure is logged and the container counts as ended."""
        async with self._ending:
            if self._freed:
                return
            try:
                await remove_container(self._engine, self._container)
            except BackendUnavailable as error:
                _log.warning("a container may remain until the next start of the bot: %s", error)
            self._freed = True
            self._free()
