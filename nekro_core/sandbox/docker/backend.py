"""Makes boxes in containers of a Docker engine, on this machine or another."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
import anyio.abc

from nekro_core.sandbox.box import Box, BoxSpec, Check, SandboxError, SelfCheck
from nekro_core.sandbox.box_packages import SharedPackages, packages_parent
from nekro_core.sandbox.check import check_box
from nekro_core.sandbox.docker import remedies
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.docker.fd_passing import engine_is_local
from nekro_core.sandbox.docker.images import ImageResolver
from nekro_core.sandbox.docker.launch import ContainerLauncher
from nekro_core.sandbox.docker.orphans import box_labels, remove_orphans
from nekro_core.sandbox.docker.packages import EnginePackages
from nekro_core.sandbox.memory_limit import half_of_machine
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.sandbox.uploads import UploadQuota

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A connected engine and the objects that use it."""

    engine: DockerEngine
    images: ImageResolver
    launcher: ContainerLauncher
    packages: EnginePackages | None


class DockerBackend:
    """A `Backend` that uses the engine of ``DOCKER_HOST`` or of the settings.

    Its background tasks run in ``tasks``; close the backend before ``tasks`` ends. ``owner`` is the
    identity of the data folder that the caller has locked, or empty. At its start, the backend
    removes the containers of bots that have ended. A container may have been made on another
    machine, in another PID namespace, or before this machine restarted. Then its bot has ended if
    the container carries the identity ``owner``, because only the caller can now use that data
    folder (see the module `orphans`).
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
        self._ending = anyio.CancelScope()

    async def self_check(self) -> SelfCheck:
        """See `Backend.self_check`."""
        try:
            prepared = await self._prepare()
            image = await prepared.images.choose(self._settings.spec.template)
            box = await self.create(self._settings.spec)
        except SandboxError as error:
            failed = Check(
                name="a box starts",
                ok=False,
                seen=str(error),
                remedy=remedies.find_remedy(str(error)),
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
            name="a box starts",
            ok=True,
            seen=f"engine {facts.version}, Python {version}; {prepared.launcher.total.describe()}",
        )
        bounded = Check(
            name="limits of the whole tree",
            ok=not facts.unbounded,
            seen=f"not enforced: {', '.join(facts.unbounded) or 'none'}",
            remedy=remedies.find_remedy("cgroup") if facts.unbounded else "",
        )
        return SelfCheck(backend=self.name, checks=(started, bounded, *checks))

    @property
    def crowded(self) -> bool:
        """See `Backend.crowded`."""
        return self._prepared is not None and self._prepared.launcher.total.crowded

    @property
    def packages(self) -> SharedPackages | None:
        """See `Backend.packages`."""
        return self._prepared.packages if self._prepared is not None else None

    async def images(self) -> tuple[str, ...]:
        """See `Backend.images`."""
        return await (await self._prepare()).images.names()

    async def create(self, spec: BoxSpec) -> Box:
        """See `Backend.create`."""
        prepared = await self._prepare()
        image = await prepared.images.choose(spec.template)
        packages = prepared.packages
        if packages is None:
            return await prepared.launcher.launch(image, spec)
        box = await prepared.launcher.launch(image, spec, packages.volume(image))
        default = spec.template == self._settings.spec.template
        packages.note_box(image, complete=box.has_packages, default=default)
        return box

    async def aclose(self) -> None:
        """Destroy every box of this backend."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as ending:
                for box in tuple(prepared.launcher.boxes.values()):
                    ending.start_soon(box.destroy)
            self._ending.cancel()
            prepared.launcher.close()
            prepared.engine.close()

    async def _prepare(self) -> _Prepared:
        async with self._preparing:
            if self._prepared is None:
                engine = await DockerEngine.connect(self._settings.docker_host)
                try:
                    if left := await remove_orphans(engine, self._owner):
                        _log.info("%d containers of a bot that has ended were removed", left)
                    labels = box_labels(self._owner)
                    launcher = ContainerLauncher(
                        engine,
                        self._tasks,
                        labels=labels,
                        processors=self._settings.processors,
                        total_bytes=self._total_bytes(engine),
                        total_wait_s=self._settings.total_wait_seconds,
                        doors_in=self._settings.runtime_dir,
                        may_have_doors=engine_is_local(self._settings.docker_host),
                        uploads=UploadQuota(self._settings.uploads_bytes),
                        clock=self._clock,
                    )
                except BaseException:
                    engine.close()
                    raise
                images = ImageResolver(engine, self._settings.images, labels)
                packages = self._packages(engine, images, labels)
                self._prepared = _Prepared(engine, images, launcher, packages)
                self._tasks.start_soon(self._serve, self._prepared, name="end of lost containers")
        return self._prepared

    def _packages(
        self, engine: DockerEngine, images: ImageResolver, labels: Mapping[str, str]
    ) -> EnginePackages | None:
        settings = self._settings
        if not settings.packages:
            return None
        return EnginePackages(
            engine,
            parent=packages_parent(settings.packages_dir),
            labels=labels,
            processors=settings.processors,
            choose_default=lambda: images.choose(settings.spec.template),
        )

    async def _serve(self, prepared: _Prepared) -> None:
        with self._ending:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(prepared.launcher.total.watch)
                if prepared.packages is not None:
                    tasks.start_soon(prepared.packages.serve)
                await prepared.launcher.ender.serve()
                tasks.cancel_scope.cancel()

    def _total_bytes(self, engine: DockerEngine) -> int:
        return self._settings.total_memory_bytes or engine.facts.memory // 2 or half_of_machine()
