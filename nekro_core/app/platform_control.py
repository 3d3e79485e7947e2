"""Switches platforms on and off while the bot runs, and stores which platforms the operator
switched on."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
from loguru import logger
from nonebot.drivers import Driver

from nekro_core.app.adapter_directory import AdapterBroken, AdapterDirectory
from nekro_core.app.adapters import load_adapter
from nekro_core.delivery.adapter import Adapter, Host
from nekro_core.delivery.adapter_manifest import AdapterManifest
from nekro_core.delivery.platforms.contract import SupportsAccounts
from nekro_core.delivery.platforms.switch import (
    PlatformNotSwitched,
    PlatformState,
    PlatformStatus,
)
from nekro_core.operator.contract import OperatorHost
from nekro_core.system.atomic_files import write_whole

FILE_NAME = "enabled_platforms.json"
NAMED = "NEKRO_PLATFORMS"

ReadSettings = Callable[[AdapterDirectory, Sequence[str]], Mapping[str, Any]]


class AdapterRunner(Protocol):
    """Starts and ends adapters while the bot runs (`nekro_core.app.app.App`)."""

    @property
    def host(self) -> Host:
        """The bot's interface for adapters."""

    @property
    def operator(self) -> OperatorHost:
        """The bot's interface for operators' pages."""

    def started_adapters(self) -> Mapping[str, Adapter]:
        """Return the adapters that run, by name."""

    async def launch(self, adapter: Adapter) -> None:
        """Add an adapter and start it. Its errors are raised."""

    async def end(self, name: str) -> None:
        """Close an adapter. Errors are logged."""


class PlatformControl:
    """Implements `PlatformSwitch`.

    Args:
        data: The data folder.
        named: The platforms in ``NEKRO_PLATFORMS``.
        read: Returns the settings of the adapters of some platforms.
    """

    def __init__(self, data: Path, named: Iterable[str], read: ReadSettings) -> None:
        self._data = data
        self._named = frozenset(named)
        self._read = read
        self._enabled = [name for name in read_enabled(data) if name not in self._named]
        self._problems: dict[str, str] = {}
        self._restart_needed: set[str] = set()
        self._runner: AdapterRunner | None = None
        self._driver: Driver | None = None
        self._settings: MutableMapping[str, Any] = {}
        self._routes: dict[str, list[Any]] = {}
        self._switching = anyio.Lock()

    def attach(
        self, runner: AdapterRunner, driver: Driver, settings: MutableMapping[str, Any]
    ) -> None:
        """Allow switching from now on. ``settings`` are the settings of all adapters; when a
        platform is switched on, its settings are added to them."""
        self._runner, self._driver, self._settings = runner, driver, settings

    def failed(self, name: str, problem: str) -> None:
        """Record why a platform does not run."""
        self._problems[name] = problem

    @property
    def problems(self) -> Mapping[str, str]:
        """Why platforms that should run do not run, by their names."""
        return self._problems

    def adapters(self) -> Mapping[str, Adapter]:
        """Return the adapters that run, by name."""
        return self._runner.started_adapters() if self._runner else {}

    async def listed(self) -> tuple[PlatformStatus, ...]:
        """See `PlatformSwitch.listed`."""
        found = await self._find()
        shown = [self._status(each) for each in found.manifests.values()]
        return tuple(sorted(shown, key=lambda each: each.title.lower()))

    async def enable(self, name: str) -> PlatformStatus:
        """See `PlatformSwitch.enable`."""
        async with self._switching:
            manifest = await self._manifest(name)
            runner, driver = self._ready()
            if name not in runner.started_adapters():
                try:
                    await self._launch(manifest, runner, driver)
                except PlatformNotSwitched as error:
                    self._problems[name] = str(error)
                    raise
                self._problems.pop(name, None)
            if name not in self._enabled and name not in self._named and not manifest.always:
                await self._save([*self._enabled, name])
            return self._status(manifest)

    async def disable(self, name: str) -> PlatformStatus:
        """See `PlatformSwitch.disable`."""
        async with self._switching:
            manifest = await self._manifest(name)
            if reason := self._locked(manifest):
                raise PlatformNotSwitched(
                    f"{name} cannot be switched off here: "
                    + (f"{NAMED} names it" if reason == NAMED else "it always runs")
                )
            runner, driver = self._ready()
            await self._save([each for each in self._enabled if each != name])
            await runner.end(name)
            self._problems.pop(name, None)
            for route in self._routes.pop(name, ()):
                _routes(driver).remove(route)
            return self._status(manifest)

    async def _launch(
        self, manifest: AdapterManifest, runner: AdapterRunner, driver: Driver
    ) -> None:
        """Import, make and start an adapter. Raises `PlatformNotSwitched`."""
        name = manifest.name
        self._read_settings(manifest, driver)
        try:
            maker = load_adapter(manifest, self._settings)
        except AdapterBroken as error:
            raise PlatformNotSwitched(str(error)) from error
        with _new_routes(driver) as added:
            try:
                adapter = maker.create(runner.host, driver, runner.operator)
                await runner.launch(adapter)
            except (RuntimeError, ValueError, TimeoutError) as error:
                raise PlatformNotSwitched(f"{name} cannot run: {error}") from error
            except Exception as error:
                logger.exception("the adapter {} cannot be switched on", name)
                raise PlatformNotSwitched(f"{name} cannot run: {error!r}") from error
        self._routes[name] = added
        if maker.options:
            self._restart_needed.add(name)

    def _read_settings(self, manifest: AdapterManifest, driver: Driver) -> None:
        """Add all settings of the platform to those that the adapter and NoneBot read. While the
        platform was off, some of its settings were left out."""
        platforms = (*self._settings.get("nekro_platforms", ()), manifest.name)
        self._settings["nekro_platforms"] = platforms
        directory = AdapterDirectory(manifests={manifest.name: manifest})
        for name, value in self._read(directory, (manifest.name,)).items():
            self._settings[name] = value
            setattr(driver.config, name, value)

    def _status(self, manifest: AdapterManifest) -> PlatformStatus:
        name = manifest.name
        adapter = self.adapters().get(name)
        problem = self._problems.get(name, "")
        wanted = manifest.always or name in self._named or name in self._enabled
        if adapter is not None:
            state = PlatformState.RUNNING
        else:
            state = PlatformState.FAILED if wanted or problem else PlatformState.OFF
            if wanted and not problem:
                problem = "it could not be started; the log says why"
        capable = "accounts" in manifest.capabilities
        return PlatformStatus(
            name=name,
            title=manifest.title,
            state=state,
            locked=self._locked(manifest),
            manages_accounts=isinstance(adapter, SupportsAccounts) if adapter else capable,
            restart_needed=name in self._restart_needed,
            problem=problem,
            extra=manifest.extra,
        )

    def _locked(self, manifest: AdapterManifest) -> str:
        if manifest.always:
            return "always"
        return NAMED if manifest.name in self._named else ""

    def _ready(self) -> tuple[AdapterRunner, Driver]:
        if self._runner is None or self._driver is None:
            raise PlatformNotSwitched("this bot cannot switch platforms while it runs")
        return self._runner, self._driver

    async def _manifest(self, name: str) -> AdapterManifest:
        manifest = (await self._find()).manifests.get(name)
        if manifest is None:
            raise PlatformNotSwitched(f"there is no platform {name[:80]!r}")
        return manifest

    async def _find(self) -> AdapterDirectory:
        return await anyio.to_thread.run_sync(
            lambda: AdapterDirectory.find(self._data, installed=True)
        )

    async def _save(self, enabled: Sequence[str]) -> None:
        data = json.dumps(sorted(enabled)).encode()
        await anyio.to_thread.run_sync(write_whole, self._data / FILE_NAME, data)
        self._enabled = list(enabled)


def read_enabled(data: Path) -> tuple[str, ...]:
    """Return the platforms that the operator switched on while a bot ran."""
    try:
        names = json.loads((data / FILE_NAME).read_text("utf-8"))
        if isinstance(names, list):
            return tuple(map(str, names))
        logger.error("{}: expected a list of platforms", data / FILE_NAME)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        logger.error("{} cannot be read: {}", data / FILE_NAME, error)
    return ()


@contextmanager
def _new_routes(driver: Driver) -> Iterator[list[Any]]:
    """Collect the routes that are added in the block, and put them before the older routes, because
    an older route may match every path. If the block fails, the new routes are removed."""
    routes = _routes(driver)
    before, added = list(routes), list[Any]()
    try:
        yield added
    except BaseException:
        routes[:] = before
        raise
    added += [route for route in routes if route not in before]
    routes[:] = [*added, *before]


def _routes(driver: Driver) -> list[Any]:
    application = getattr(driver, "server_app", None)
    return application.router.routes if application is not None else []
