"""The packages that all boxes of an engine share, in a volume for each version of Python.

The bot fetches the packages on its own machine and sends them through a container's standard input,
so this works with an engine on another machine too. Boxes mount the volume read-only. The volume
exists from the first box on and is empty at first. So a box that was made before the packages were
fetched can import them too.
"""

import asyncio
import logging
import platform
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.box_packages import BoxPackages, not_fetched, own_folder
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.docker.images import GuestImage
from nekro_core.sandbox.docker.package_filling import fill_volume
from nekro_core.sandbox.docker.package_volumes import remove_old_volumes, volume_name
from nekro_core.sandbox.package_fetch import (
    NAMES,
    NEWEST,
    OLDEST,
    PackagesUnavailable,
    Run,
    failure_of,
    fetch_packages,
    locked,
    note_failure,
    packages_digest,
    packages_tag,
)

_log = logging.getLogger(__name__)

_GLIBC = (2, 28)
"""The oldest version of glibc for which there are wheels of all packages."""


class EnginePackages:
    """The `SharedPackages` of one engine.

    Images with the same version of Python share a volume. The engine cannot tell what is in a
    volume. So the supervisor of each new box looks, and tells whether the packages are complete.
    """

    def __init__(
        self,
        engine: DockerEngine,
        *,
        parent: Path,
        labels: Mapping[str, str],
        processors: float,
        choose_default: Callable[[], Awaitable[GuestImage]],
        run: Run | None = None,
    ) -> None:
        """``parent`` is the folder of this machine for packages (`packages_parent`). If this folder
        already has packages that were fetched for the jail, and they fit the Python of an image,
        they are not fetched again. ``choose_default`` returns the default image. ``run`` runs
        pip."""
        self._engine = engine
        self._parent = parent
        self._labels = labels
        self._processors = processors
        self._choose_default = choose_default
        self._run = run
        self._default: GuestImage | None = None
        self._complete: set[str] = set()
        self._tried: set[str] = set()
        self._missing: dict[str, GuestImage] = {}
        self._fetches = False
        self._called = asyncio.Event()
        self._refused: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """See `SharedPackages.names`."""
        there = self._default is not None and self._tag(self._default) in self._complete
        return NAMES if there else ()

    @property
    def failure(self) -> str:
        """See `SharedPackages.failure`."""
        if self._default is None:
            return ""
        return self._unfit(self._default) or failure_of(self._parent, self._tag(self._default))

    @property
    def place(self) -> str:
        """See `SharedPackages.place`."""
        volume = "" if self._default is None else self.volume(self._default)
        return f"the volume {volume} of the engine" if volume else "a volume of the engine"

    def volume(self, image: GuestImage) -> str:
        """Return the volume that boxes of this image mount; empty if its Python cannot use the
        packages."""
        reason = self._unfit(image)
        if not reason:
            return volume_name(self._tag(image))
        if image.image_id not in self._refused:
            self._refused.add(image.image_id)
            _log.info("boxes of the image %s have no shared packages: %s", image.image_id, reason)
        return ""

    def note_box(self, image: GuestImage, *, complete: bool, default: bool) -> None:
        """Note what the supervisor of a new box of ``image`` told: whether the packages are
        complete. If they are not complete, `serve` fetches them, provided that `fetch` was called.
        ``default`` says that ``image`` is the default image."""
        if default:
            self._default = image
        if complete:
            self._complete.add(self._tag(image))
        elif self.volume(image):
            self._missing[self._tag(image)] = image
            if self._fetches:
                self._called.set()

    async def fetch(self) -> None:
        """Fetch the packages for the default image; see `SharedPackages.fetch`. After this call,
        `serve` also fetches packages for an image with another version of Python, when the first
        box of the image is made."""
        try:
            if self._default is None:
                self._default = await self._choose_default()
            await self._fetch(self._default)
        except BackendUnavailable as error:
            raise PackagesUnavailable(
                f"the packages of boxes cannot be fetched: {error}"
            ) from error
        finally:
            self._fetches = True
            self._called.set()

    async def serve(self) -> None:
        """Remove the volumes of earlier lists of packages. After the first `fetch`, fetch packages
        for images with other versions of Python, once for each version, until cancelled."""
        await remove_old_volumes(self._engine, packages_digest())
        while True:
            await self._called.wait()
            self._called.clear()
            for tag in sorted(self._missing.keys() - self._tried):
                try:
                    await self._fetch(self._missing[tag])
                except PackagesUnavailable as error:
                    _log.warning("%s", error)

    async def _fetch(self, image: GuestImage) -> None:
        if reason := self._unfit(image):
            raise PackagesUnavailable(reason)
        tag = self._tag(image)
        self._tried.add(tag)
        if tag in self._complete:
            return
        try:
            async with self._fetched(image) as folder:
                await fill_volume(
                    self._engine,
                    image,
                    self.volume(image),
                    folder,
                    labels=self._labels,
                    processors=self._processors,
                )
        except PackagesUnavailable as error:
            note_failure(self._parent, tag, str(error))
            raise
        except BackendUnavailable as error:
            reason = f"the packages of boxes could not be sent to the engine: {error}"
            note_failure(self._parent, tag, reason)
            raise PackagesUnavailable(reason) from error
        except OSError as error:  # TimeoutError is an OSError
            reason = not_fetched(error)
            note_failure(self._parent, tag, reason)
            raise PackagesUnavailable(reason) from error
        note_failure(self._parent, tag, "")
        self._complete.add(tag)
        await remove_old_volumes(self._engine, packages_digest())

    @asynccontextmanager
    async def _fetched(self, image: GuestImage) -> AsyncIterator[Path]:
        """Yield a folder of this machine with the packages: the folder of the jail if it is
        complete, else a new folder, which is removed at the end."""
        own_folder(self._parent)
        version, machine = image.version[:2], self._engine.facts.machine
        jails = BoxPackages(parent=self._parent, executable="", version=version)
        if machine == platform.machine() and jails.names:
            yield jails.folder
            return
        async with locked(self._parent):
            target = self._parent / f".{self._tag(image)}.sending"
            shutil.rmtree(target, ignore_errors=True)
            try:
                await fetch_packages(target, version, machine, self._run)
                yield target
            finally:
                with anyio.CancelScope(shield=True):
                    remove = partial(shutil.rmtree, target, ignore_errors=True)
                    await anyio.to_thread.run_sync(remove)

    def _tag(self, image: GuestImage) -> str:
        return packages_tag(image.version[:2], self._engine.facts.machine)

    def _unfit(self, image: GuestImage) -> str:
        """Return why the Python of an image cannot use the packages and what to do, or an empty
        string."""
        major, minor, _ = image.version
        wanted = f".cpython-{major}{minor}-{self._engine.facts.machine}-linux-gnu.so"
        seen = ""
        if not OLDEST <= (major, minor) <= NEWEST:
            seen = f"Python {major}.{minor}"
        elif image.suffix != wanted:
            seen = f"a Python that loads *{image.suffix}"
        elif image.glibc < _GLIBC:
            seen = "glibc " + ".".join(map(str, image.glibc)) if image.glibc else "no glibc"
        if not seen:
            return ""
        oldest, newest, glibc = (".".join(map(str, each)) for each in (OLDEST, NEWEST, _GLIBC))
        return (
            f"the packages of boxes are for CPython {oldest} to {newest} with glibc {glibc} or "
            f"later, and the image has {seen}; use another image, or set "
            "NEKRO_SANDBOX__PACKAGES=false"
        )
