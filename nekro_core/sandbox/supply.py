"""Gives boxes to callers. Callers wait until a backend is open. If no backend works, they get the
reason."""

import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.abc

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import Backend, BackendUnavailable, Box, ImageUnavailable
from nekro_core.sandbox.box_packages import SharedPackages
from nekro_core.sandbox.package_fetch import PackagesUnavailable
from nekro_core.sandbox.pool import BoxPool, suggested_pool_size
from nekro_core.sandbox.settings import SandboxSettings

_log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 600.0
"""Longest pause between two attempts to open a backend, in seconds. An attempt keeps a processor
busy for a second."""


def installation_id(folder: Path) -> str:
    """Return the identity of a data folder, which is different for each folder. The first call
    makes it.

    Only the process that has locked the folder may pass this identity to a backend, because the
    backend removes boxes that earlier processes with this identity made.
    """
    path = folder / "owner_of_boxes"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.write_text(secrets.token_hex(16))
        return path.read_text()


_FETCH_AFTER_S = 15.0
"""The fetch of the packages begins this many seconds after a backend was opened. Until then, the
bot's start and its first answers have the processor for themselves."""


class BoxSupply:
    """Opens the first backend that passes its self-check, and a pool of its boxes, in the
    background.

    The self-check starts a real box. This takes longer than the rest of the bot's start, so only
    callers that need a box wait for it. While no backend passes, each request is refused with the
    reason. The check is repeated after ``first_pause_s``, then with longer and longer pauses.
    """

    def __init__(self, settings: SandboxSettings, first_pause_s: float) -> None:
        self._pause_s = first_pause_s
        self._backend: Backend | None = None
        self._pool: BoxPool | None = None
        self._settings = settings
        self._failure = ""
        self._decided = anyio.Event()
        self._fetches_packages = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: SandboxSettings,
        *,
        clock: Callable[[], float],
        report: Callable[[str], None],
        owner: str = "",
        first_pause_s: float = 5.0,
        fetch_packages: bool = False,
    ) -> AsyncIterator["BoxSupply"]:
        """Open a supply. Leaving the context destroys its boxes. If there are no boxes, ``report``
        is called with the reason, and again each time the reason changes.

        `open_backend` describes ``owner``. With ``fetch_packages``, the packages of boxes
        (`SharedPackages`) are fetched in the background if they are missing.
        """
        supply = cls(settings, first_pause_s)
        supply._fetches_packages = fetch_packages
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        tasks.start_soon(supply._keep, clock, report, owner)
        try:
            yield supply
        finally:
            tasks.cancel_scope.cancel()
            # `__aexit__` does not get the error of the ``with`` block, because it would wrap this
            # error in an exception group.
            await tasks.__aexit__(None, None, None)

    @property
    def unavailable(self) -> str:
        """Return why there are no boxes; empty if there are boxes or if the first check still
        runs."""
        return self._failure if self._pool is None and self._decided.is_set() else ""

    @property
    def pool_bytes(self) -> int:
        """The memory of the ready boxes, in bytes."""
        return self._pool.idle_bytes if self._pool is not None else 0

    @property
    def ready(self) -> int:
        """The number of boxes that are ready to be taken."""
        return self._pool.ready if self._pool is not None else 0

    async def settled(self) -> None:
        """Wait until a box is ready, or until the first attempt to open a backend or to make a box
        has failed."""
        await self._decided.wait()
        if self._pool is not None:
            await self._pool.settled()

    async def take(self, image: str = "") -> Box:
        """Take a box for this caller alone. Only boxes of the default image are kept ready, so
        other images take longer. Raises `BackendUnavailable` and `ImageUnavailable`."""
        await self._decided.wait()
        if self._pool is None or self._backend is None:
            raise BackendUnavailable(self._failure)
        settings = self._settings
        if image in ("", settings.default_image):
            return await self._pool.take()
        template = settings.images.get(image, image)
        try:
            return await self._backend.create(replace(settings.spec, template=template))
        except ImageUnavailable as error:
            raise ImageUnavailable(image, await self.images(), error.reason) from None

    @property
    def packages(self) -> tuple[str, ...]:
        """The names of the packages that code in boxes of the default image can import now, besides
        those of the image itself."""
        packages = self._backend.packages if self._backend is not None else None
        return packages.names if packages is not None else ()

    @property
    def crowded(self) -> bool:
        """Return True if idle boxes should be ended to free memory."""
        return self._backend is not None and self._backend.crowded

    async def images(self) -> tuple[str, ...]:
        """Return the image names that `take` accepts, sorted. Raises `BackendUnavailable`."""
        await self._decided.wait()
        if self._backend is None:
            raise BackendUnavailable(self._failure)
        there = set(await self._backend.images())
        given = {name for name, image in self._settings.images.items() if image in there}
        return tuple(sorted(there | given))

    async def _keep(
        self, clock: Callable[[], float], report: Callable[[str], None], owner: str
    ) -> None:
        settings = self._settings
        async with anyio.create_task_group() as tasks:
            backend = await self._find_backend(tasks, clock, report, owner)
            try:
                self._backend = backend
                if backend.packages is not None and self._fetches_packages:
                    tasks.start_soon(_fetch_packages, backend.packages)
                size = suggested_pool_size() if settings.pool_size is None else settings.pool_size
                async with BoxPool(backend, settings.spec, size) as self._pool:
                    self._decided.set()
                    await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await backend.aclose()

    async def _find_backend(
        self,
        tasks: anyio.abc.TaskGroup,
        clock: Callable[[], float],
        report: Callable[[str], None],
        owner: str,
    ) -> Backend:
        """Try again and again until a backend passes its self-check. The first attempt may fail
        because the machine is busy for a moment, or because the Docker engine starts later than the
        bot."""
        pause_s = self._pause_s
        while True:
            try:
                return await open_backend(self._settings, tasks, clock, owner)
            except BackendUnavailable as error:
                if str(error) != self._failure:
                    self._failure = str(error)
                    report(self._failure)
                self._decided.set()
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


async def _fetch_packages(packages: SharedPackages) -> None:
    """Fetch the packages of boxes if they were not fetched before."""
    are_there = bool(packages.names)
    if not are_there:
        await anyio.sleep(_FETCH_AFTER_S)
        _log.info("fetching packages for boxes into %s", packages.place)
    try:
        # If the packages of the default image are there, this returns at once. Later, images with
        # another Python get theirs.
        await packages.fetch()
    except PackagesUnavailable as error:
        _log.warning("%s", error)
    else:
        if not are_there:
            _log.info("boxes can import %s", ", ".join(packages.names))
