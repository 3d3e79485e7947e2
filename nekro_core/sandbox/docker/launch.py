"""Makes boxes on an engine: the container, its stream, its descriptor socket and the supervisor."""

import logging
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import anyio.abc

from nekro_core.sandbox.box import BackendUnavailable, BoxSpec
from nekro_core.sandbox.docker import boot, fd_passing
from nekro_core.sandbox.docker.container import box_limits, container_config
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.docker.fd_passing import DescriptorSocket, DescriptorSockets
from nekro_core.sandbox.docker.images import GuestImage
from nekro_core.sandbox.docker.processes import ContainerProcesses, ContainerReaper, start
from nekro_core.sandbox.docker.stream import AttachedStream, open_stream
from nekro_core.sandbox.docker.uploads import ContainerUploads
from nekro_core.sandbox.docker.users import BoxUserIds, UserIdAllocator
from nekro_core.sandbox.link.box_connection import BoxConnection
from nekro_core.sandbox.link.channel import Channel
from nekro_core.sandbox.link.worker_pool import WorkerPool
from nekro_core.sandbox.memory_limit import MemoryLimit
from nekro_core.sandbox.uploads import BoxUploads, UploadQuota
from nekro_core.system.confinement import jail_filter

_log = logging.getLogger(__name__)

_READY_TIMEOUT_S = 30.0
_OUTSIDE_BYTES = 4 * 1024 * 1024
"""Bytes of memory that an engine needs outside of one more container: 3.4 MB for the container's
shim process and 0.4 MB in the engine's daemons (mean of ten containers, Docker 20.10). The
supervisor inside the container is not counted here. It needs a further 7.5 MB, because it imports
its modules from memory. So a container needs 11 MB in all."""


class ContainerLauncher:
    """Makes boxes on one engine. ``boxes`` contains all of these boxes that have not ended."""

    def __init__(
        self,
        engine: DockerEngine,
        tasks: anyio.abc.TaskGroup,
        *,
        labels: Mapping[str, str],
        processors: float,
        doors_in: Path | None,
        may_have_doors: bool,
        total_bytes: int,
        total_wait_s: float,
        uploads: UploadQuota,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``doors_in`` is the folder in which the descriptor sockets are made; None to choose one.
        If ``may_have_doors`` is false, boxes get no descriptor sockets. The containers get
        ``labels``, and each may keep ``processors`` processors busy. For ``total_bytes`` and
        ``total_wait_s`` see `MemoryLimit`. Raises `BackendUnavailable` if the operating system or
        the processor of the engine's machine is not supported."""
        self.boxes: dict[str, BoxConnection] = {}
        self.total = MemoryLimit(total_bytes, total_wait_s, self.boxes.values)
        self.ender = ContainerReaper()
        self._engine = engine
        self._workers = WorkerPool(tasks)
        self._labels = labels
        self._processors = processors
        self._uploads = uploads
        self._clock = clock
        self._filter = _filter_for(engine)
        self._users = UserIdAllocator(remapped=engine.facts.remapped)
        self._doors = _open_doors(doors_in) if may_have_doors else None
        self._doors_work = False

    async def launch(self, image: GuestImage, spec: BoxSpec, packages: str = "") -> BoxConnection:
        """Make a box and wait until its supervisor is ready. ``packages`` is the volume with the
        shared packages, or empty. If the first boxes cannot be made with a descriptor socket, they
        are made again without one, and later boxes get none. Raises `BackendUnavailable`."""
        await self.total.admit()
        doors = self._doors
        try:
            box = await self._launch(image, spec, packages, doors)
        except BackendUnavailable as error:
            if doors is None or self._doors_work:
                raise
            if self._doors is not None:  # Another first box may have found it out meanwhile.
                _log.info("descriptor sockets do not work, connections are relayed: %s", error)
                self._close_doors()
            return await self._launch(image, spec, packages, None)
        self._doors_work = True
        return box

    def close(self) -> None:
        """Delete the folder of descriptor sockets and end the tasks that answer calls."""
        self._workers.close()
        self._close_doors()

    def _close_doors(self) -> None:
        if self._doors is not None:
            self._doors.close()
            self._doors = None

    async def _launch(
        self, image: GuestImage, spec: BoxSpec, packages: str, fd_passing: DescriptorSockets | None
    ) -> BoxConnection:
        users = self._users.take()
        box_id = secrets.token_hex(8)
        held = BoxUploads(spec.disk_bytes, self._uploads)
        way = fd_passing.make(box_id) if fd_passing is not None else None

        def free() -> None:
            self.boxes.pop(box_id, None)
            held.free()
            self._users.give_back(users)
            if way is not None:
                way.remove()

        try:
            # The start is shielded from cancellation. If it were cancelled, the id of the new
            # container would be unknown, and the container could not be removed.
            with anyio.CancelScope(shield=True):
                box, stream = await self._start(
                    image, spec, packages, users, box_id, way, held, free
                )
        except BaseException:
            free()
            raise
        try:
            with anyio.move_on_after(_READY_TIMEOUT_S):
                await self._equip(box, stream, way, image, users, shares_packages=bool(packages))
                await box.ready.wait()
        except BaseException:
            await box.destroy()
            raise
        if not box.alive or not box.ready.is_set():
            complaint = box.lost_reason or "it did not answer"
            await box.destroy()
            raise BackendUnavailable(f"a box did not start: {complaint}")
        return box

    async def _start(
        self,
        image: GuestImage,
        spec: BoxSpec,
        packages: str,
        users: BoxUserIds,
        box_id: str,
        way: DescriptorSocket | None,
        held: BoxUploads,
        free: Callable[[], None],
    ) -> tuple[BoxConnection, AttachedStream]:
        config = container_config(
            image=image,
            spec=spec,
            users=users,
            labels=self._labels,
            processors=self._processors,
            socket_folder=way.folder if way is not None else None,
            packages=packages,
        )
        started = await self._engine.ask(start, self._engine.client, config, f"nekro-box-{box_id}")
        uploads = ContainerUploads(
            self._engine,
            container=started.container,
            python=image.python,
            user=users.uploads,
            held=held,
        )
        box = self.boxes[box_id] = BoxConnection(
            box_id=box_id,
            spec=spec,
            workers=self._workers,
            uploads=uploads,
            processes=ContainerProcesses(self._engine, started.container, self.ender, free),
            clock=self._clock,
            bounded_by="the engine's cgroups",
            total=self.total,
            outside_bytes=_OUTSIDE_BYTES,
        )
        return box, await open_stream(started.sock, Channel(box.handle, box.lose))

    async def _equip(
        self,
        box: BoxConnection,
        stream: AttachedStream,
        way: DescriptorSocket | None,
        image: GuestImage,
        users: BoxUserIds,
        *,
        shares_packages: bool,
    ) -> None:
        """Send the supervisor's code, and accept its connection to the descriptor socket. No
        untrusted code runs in the box yet."""
        stream.send(boot.begin(fd_passing.ADDRESS if way is not None else ""))
        if way is not None:
            fd_socket = await _arrival(
                way, box, None if self._engine.facts.remapped else users.code
            )
            if fd_socket is None:
                return  # The box was lost. The caller checks `box.alive`.
            box.receive_descriptors(fd_socket)
        box.attach(stream.channel)
        machine = self._engine.facts.machine
        limits = box_limits(box.spec, image, machine, shares_packages=shares_packages)
        stream.send(boot.go_on(self._filter, limits, image.modules))


async def _arrival(
    way: DescriptorSocket, box: BoxConnection, user: int | None
) -> socket.socket | None:
    """Wait for the supervisor's connection. Returns None if the box is lost before it arrives."""
    arrived: socket.socket | None = None
    async with anyio.create_task_group() as race:

        async def until_lost() -> None:
            await box.ready.wait()
            race.cancel_scope.cancel()

        race.start_soon(until_lost)
        arrived = await way.accept(user)
        race.cancel_scope.cancel()
    return arrived


def _open_doors(wanted: Path | None) -> DescriptorSockets | None:
    try:
        return DescriptorSockets.open(wanted)
    except OSError as error:
        _log.info("no folder for descriptor sockets, connections of boxes are relayed: %s", error)
        return None


def _filter_for(engine: DockerEngine) -> bytes:
    facts = engine.facts
    if facts.system != "linux" or facts.machine not in jail_filter.MACHINES:
        raise BackendUnavailable(
            f"boxes need a Docker engine for Linux on {' or '.join(jail_filter.MACHINES)}, "
            f"not {facts.system} on {facts.machine}"
        )
    return jail_filter.build_filter(facts.machine)
