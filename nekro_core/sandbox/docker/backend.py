"""Boxes in containers of a Docker engine, on this machine or another."""

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import anyio.abc

from nekro_core.sandbox.agent_box import AgentBox
from nekro_core.sandbox.box import BackendUnavailable, Box, BoxSpec, Check, SandboxError, SelfCheck
from nekro_core.sandbox.channel import Channel
from nekro_core.sandbox.check import check_box
from nekro_core.sandbox.docker import boot, remedies
from nekro_core.sandbox.docker.container import box_limits, container_config
from nekro_core.sandbox.docker.engine import Engine
from nekro_core.sandbox.docker.images import GuestImage, Images
from nekro_core.sandbox.docker.orphans import box_labels, remove_orphans
from nekro_core.sandbox.docker.running import ContainerProcesses, Ender, start
from nekro_core.sandbox.docker.stream import open_stream
from nekro_core.sandbox.docker.uploads import ContainerUploads
from nekro_core.sandbox.docker.users import UserPairs
from nekro_core.sandbox.jail import seccomp
from nekro_core.sandbox.settings import SandboxSettings

_log = logging.getLogger(__name__)

_READY_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What every box of this backend shares."""

    engine: Engine
    images: Images
    users: UserPairs
    filter: bytes
    labels: dict[str, str]
    ender: Ender


class DockerBackend:
    """A `Backend` on the engine that ``DOCKER_HOST`` names, or the settings.

    What ends containers promptly lives in ``tasks``, which must outlive it. ``owner`` is the
    identity of the data folder that the caller holds, empty where it holds none: containers that
    bear it and were made elsewhere, or before the machine started again, are removed at the start.
    """

    name = "docker"

    def __init__(
        self,
        settings: SandboxSettings,
        tasks: anyio.abc.TaskGroup,
        clock: Callable[[], float] = time.monotonic,
        owner: str = "",
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._clock = clock
        self._owner = owner
        self._prepared: _Prepared | None = None
        self._preparing = anyio.Lock()
        self._boxes: dict[str, AgentBox] = {}
        self._ending = anyio.CancelScope()

    async def self_check(self) -> SelfCheck:
        """See `Backend.self_check`."""
        try:
            prepared = await self._prepare()
            image = await prepared.images.choose(self._settings.spec.template)
            box = await self.create(self._settings.spec)
        except SandboxError as error:
            failed = Check(
                name="a box starts", ok=False, seen=str(error), remedy=remedies.find(str(error))
            )
            return SelfCheck(backend=self.name, checks=(failed,))
        try:
            checks = await check_box(
                box,
                self._settings.spec,
                own_user_namespace=False,
                environment=frozenset(image.environment),
            )
        finally:
            await box.destroy()
        facts = prepared.engine.facts
        version = ".".join(map(str, image.version))
        started = Check(
            name="a box starts", ok=True, seen=f"engine {facts.version}, Python {version}"
        )
        bounded = Check(
            name="limits of the whole tree",
            ok=not facts.unbounded,
            seen=f"not enforced: {', '.join(facts.unbounded) or 'none'}",
            remedy=remedies.find("cgroup") if facts.unbounded else "",
        )
        return SelfCheck(backend=self.name, checks=(started, bounded, *checks))

    async def images(self) -> tuple[str, ...]:
        """See `Backend.images`."""
        return await (await self._prepare()).images.names()

    async def create(self, spec: BoxSpec) -> Box:
        """See `Backend.create`."""
        prepared = await self._prepare()
        image = await prepared.images.choose(spec.template)
        # Once an engine was told to make something, it must be known, to be taken away again.
        with anyio.CancelScope(shield=True):
            box = await self._start(prepared, image, spec)
        try:
            with anyio.move_on_after(_READY_TIMEOUT_S):
                await box.ready.wait()
        except BaseException:
            await box.destroy()
            raise
        if not box.alive or not box.ready.is_set():
            complaint = box.lost_because or "it did not answer"
            await box.destroy()
            raise BackendUnavailable(f"a box did not start: {complaint}")
        return box

    async def aclose(self) -> None:
        """Destroy every box that it made."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as ending:
                for box in tuple(self._boxes.values()):
                    ending.start_soon(box.destroy)
            if self._prepared is not None:
                self._ending.cancel()
                self._prepared.engine.close()
                self._prepared = None

    async def _prepare(self) -> _Prepared:
        async with self._preparing:
            if self._prepared is None:
                engine = await Engine.connect(self._settings.docker_host)
                try:
                    call_filter = _filter_for(engine)
                    if left := await remove_orphans(engine, self._owner):
                        _log.info("%d containers of a bot that is gone were removed", left)
                except BaseException:
                    engine.close()
                    raise
                labels = box_labels(self._owner)
                ender = Ender()
                self._tasks.start_soon(self._end_promptly, ender, name="end of lost containers")
                self._prepared = _Prepared(
                    engine=engine,
                    images=Images(engine, self._settings.images, labels),
                    users=UserPairs(remapped=engine.facts.remapped),
                    filter=call_filter,
                    labels=labels,
                    ender=ender,
                )
        return self._prepared

    async def _end_promptly(self, ender: Ender) -> None:
        with self._ending:
            await ender.serve()

    async def _start(self, prepared: _Prepared, image: GuestImage, spec: BoxSpec) -> AgentBox:
        engine = prepared.engine
        box_id = secrets.token_hex(8)
        users = prepared.users.take()

        def free() -> None:
            self._boxes.pop(box_id, None)
            prepared.users.give_back(users)

        config = container_config(
            image=image,
            spec=spec,
            users=users,
            labels=prepared.labels,
            processors=self._settings.processors,
        )
        try:
            started = await engine.ask(start, engine.client, config, f"nekro-box-{box_id}")
        except BaseException:
            free()
            raise
        uploads = ContainerUploads(
            engine,
            container=started.container,
            python=image.python,
            user=users.uploads,
            limit=spec.disk_bytes,
        )
        box = self._boxes[box_id] = AgentBox(
            box_id=box_id,
            spec=spec,
            tasks=self._tasks,
            uploads=uploads,
            processes=ContainerProcesses(engine, started.container, prepared.ender, free),
            clock=self._clock,
            bounded_by="the engine's cgroups",
        )
        channel = Channel(box.handle, box.lose)
        stream = await open_stream(started.sock, channel)
        stream.send(boot.start_guest(image.modules, prepared.filter, box_limits(spec, image)))
        box.attach(channel)
        return box


def _filter_for(engine: Engine) -> bytes:
    facts = engine.facts
    if facts.system != "linux" or facts.machine not in seccomp.MACHINES:
        raise BackendUnavailable(
            f"boxes need an engine of Linux on {' or '.join(seccomp.MACHINES)}, "
            f"not {facts.system} on {facts.machine}"
        )
    return seccomp.build_filter(facts.machine)
