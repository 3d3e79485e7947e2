"""Which adapters there are, which of them the operator wants, and how they are made.

An adapter is known by its manifest. It lies in a folder of the built-in adapters, in a folder of
the operator's (``data/adapters/``), or in an installed package that names itself in the entry point
group ``nekro_core.adapters``. Nothing of an adapter is imported before it is made or must forget a
person. What is wrong with one adapter is logged; the others go on.
"""

import difflib
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import anyio.to_thread
from loguru import logger
from nonebot.drivers import Driver

from nekro_core.api.adapter import (
    Adapter,
    AdapterEraser,
    AdapterFactory,
    Host,
    OperatorHost,
    OperatorPageFactory,
)
from nekro_core.chat.redact import RedactionTarget
from nekro_core.delivery.adapter_manifest import AdapterManifest, ManifestError, read_manifests
from nekro_core.plugins.host.builtin import builtin_folder, builtin_package, namespace
from nekro_core.store import Person, PersonTraces
from nekro_core.system.errors import NekroError

ENTRY_POINTS = "nekro_core.adapters"
"""The entry point group of installed adapters: the adapter's name, and the package with its
manifest."""
FOLDER = "adapters"
"""The operator's own adapters, below the data folder."""
PACKAGE = "nekro_adapters"
"""The package that the adapters of such a folder are imported in."""


class AdapterBroken(NekroError, OSError):
    """An adapter cannot be used, or did not do what it was asked; says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterDirectory:
    """The adapters that were found, by name, and in words what is wrong with others."""

    manifests: Mapping[str, AdapterManifest]
    problems: tuple[str, ...] = ()

    @classmethod
    def find(cls, data_dir: Path, wanted: Iterable[str] = (), *, installed: bool = False) -> Self:
        """Read the manifests of all folders, and of the installed packages that are ``wanted``.

        ``installed`` reads those of every installed package: that takes some milliseconds, which a
        start need not spend.
        """
        found: dict[str, AdapterManifest] = {}
        problems: list[str] = []
        for folder, package in _folders(data_dir):
            _add(found, problems, folder, package)
        for name, package in _installed(None if installed else set(wanted) - found.keys()):
            try:
                _add(found, problems, _place_of(name, package), package, by_name=name)
            except AdapterBroken as error:
                problems.append(str(error))
        return cls(manifests=found, problems=tuple(problems))

    def enabled(self, wanted: Sequence[str]) -> list[AdapterManifest]:
        """The adapters that run always, or because they are wanted."""
        return [each for each in self.manifests.values() if each.always or each.name in wanted]

    def unknown(self, wanted: Iterable[str]) -> Iterator[str]:
        """In words, which wanted names are no adapter's, and what may have been meant."""
        known = sorted(each.name for each in self.manifests.values() if not each.always)
        for name in wanted:
            if name not in self.manifests:
                close = difflib.get_close_matches(name, known, 1)
                remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                yield f"NEKRO_PLATFORMS: no platform {name!r}; {remedy}"

    def own_settings(self, wanted: Sequence[str], names: Iterable[str]) -> dict[str, bool]:
        """Which of these names (in lower case) are settings of an adapter that runs, and whether
        their value stays text."""
        running = self.enabled(wanted)
        texts = tuple(p for each in running if each.settings_as_text for p in each.settings)
        read = tuple(p for each in running if not each.settings_as_text for p in each.settings)
        return {name: not name.startswith(read) for name in names if name.startswith(texts + read)}

    def all_settings(self) -> tuple[str, ...]:
        """The beginnings of the settings' names of every adapter, in lower case."""
        return tuple(prefix for each in self.manifests.values() for prefix in each.settings)

    def address_settings(self) -> tuple[str, ...]:
        """See `AdapterManifest.address_settings`, of every adapter."""
        return tuple(name for each in self.manifests.values() for name in each.address_settings)

    def superuser_platforms(self, written: str | None) -> tuple[str, ...]:
        """The adapters that an id in NoneBot's ``SUPERUSERS`` is of: with this word for the
        platform, or with none. As NoneBot has it, an id without one would count on every platform,
        and a stranger who has the same id elsewhere would be an operator."""
        every = self.manifests.values()
        if written is None:
            return tuple(each.name for each in every if each.bare_superusers)
        named = tuple(each.name for each in every if written and each.nonebot_name == written)
        return named or (written,)  # nothing before the colon is no adapter's word, and nobody


@dataclass(frozen=True, slots=True)
class AdapterMaker:
    """What makes one adapter, and what it asks of the web server."""

    name: str
    create: OperatorPageFactory
    options: Mapping[str, Any]
    builtin: bool
    """Whether it comes with the bot. Its `start` retries what may be a moment's trouble, so what it
    raises is a refusal, which ends the bot."""


def adapter_makers(
    adapters: AdapterDirectory, settings: Mapping[str, Any], wanted: Sequence[str]
) -> list[AdapterMaker]:
    """Import every adapter that runs; what is wrong with one is logged."""
    for problem in (*adapters.problems, *adapters.unknown(wanted)):
        logger.error("an adapter is left out: {}", problem)
    found = []
    for manifest in adapters.enabled(wanted):
        try:
            found.append(load_adapter(manifest, settings))
        except AdapterBroken as error:
            logger.opt(exception=error.__cause__).error("an adapter is left out: {}", error)
    return found


def load_adapter(manifest: AdapterManifest, settings: Mapping[str, Any]) -> AdapterMaker:
    """Import one adapter. Raises `AdapterBroken`."""
    try:
        module = _imported(manifest)
        several = getattr(module, "factories", None)
        create = (several(settings) if several else vars(module)).get(
            manifest.name if several else "create"
        )
        create_page = getattr(module, "create_page", None)
        options = getattr(module, "SERVER_OPTIONS", {})
    except Exception as error:
        raise AdapterBroken(_import_problem(manifest, error)) from error
    make = _without_operator(create) if callable(create) else create_page
    if not callable(make):
        raise AdapterBroken(
            f"{manifest.folder / '__init__.py'} makes no adapter {manifest.name}: expected a "
            "function create(host, driver), an AdapterFactory; see docs/adapters.md"
        )
    builtin = manifest.package.startswith(f"{builtin_package('adapters')}.")
    return AdapterMaker(manifest.name, _checked(manifest, make), options, builtin)


def check_adapter(manifest: AdapterManifest) -> None:
    """Import an adapter and its eraser, and make nothing. Raises `AdapterBroken`."""
    load_adapter(manifest, {"nekro_platforms": (manifest.name,)})
    if manifest.eraser:
        try:
            _eraser(manifest)
        except Exception as error:
            raise AdapterBroken(f"eraser = {manifest.eraser!r} cannot be had: {error!r}") from error


async def erase_from_adapters(
    data_dir: Path, person: Person, traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    """Let every adapter forget a person, also those that do not run now; how many things went.

    Raises `AdapterBroken` for those that could not, once all have been asked.
    """
    find = partial(AdapterDirectory.find, data_dir, installed=True)
    adapters = await anyio.to_thread.run_sync(find)
    gone, failed = 0, list(adapters.problems)
    for manifest in adapters.manifests.values():
        if not manifest.eraser:
            continue
        try:
            gone += await _eraser(manifest)(data_dir, person, traces)
        except Exception as error:  # noqa: BLE001 - code of other people; the rest must be erased
            failed.append(f"adapter {manifest.name}: {error!r}")
    if failed:
        raise AdapterBroken("; ".join(failed))
    return gone


def _eraser(manifest: AdapterManifest) -> AdapterEraser:
    """Raises whatever the import raises, and `AttributeError` where there is no such function."""
    module, _, function = manifest.eraser.partition(":")
    eraser: AdapterEraser = getattr(_imported(manifest, module), function)
    return eraser


def _folders(data_dir: Path) -> Iterator[tuple[Path, str]]:
    """Every folder that should hold an adapter, and the name by which it is imported."""
    for parent, package in (
        (builtin_folder("adapters"), builtin_package("adapters")),
        (data_dir / FOLDER, PACKAGE),
    ):
        if parent.is_dir():
            for folder in sorted(parent.iterdir()):
                if folder.is_dir() and not folder.name.startswith(("_", ".")):
                    yield folder, f"{package}.{folder.name}"


def _installed(names: set[str] | None) -> Iterator[tuple[str, str]]:
    """Name and package of installed adapters: of these names, or with None of all."""
    if names is None or names:
        for each in entry_points(group=ENTRY_POINTS):
            if names is None or each.name in names:
                yield each.name, each.value


def _place_of(name: str, package: str) -> Path:
    """The folder of an installed package, which is not imported. Raises `AdapterBroken`."""
    top, *below = package.split(".")
    try:
        found = find_spec(top)
    except (ImportError, ValueError):
        found = None
    if found is None or not found.submodule_search_locations:
        raise AdapterBroken(
            f"the installed adapter {name}: its entry point names {package!r}, and that is no "
            "package; expected one with an adapter.toml in it"
        )
    return Path(found.submodule_search_locations[0], *below)


def _add(
    found: dict[str, AdapterManifest],
    problems: list[str],
    folder: Path,
    package: str,
    *,
    by_name: str = "",
) -> None:
    try:
        manifests = read_manifests(folder, package)
    except ManifestError as error:
        problems.append(str(error))
        return
    for each in manifests:
        if by_name and each.name != by_name:
            continue  # it has an entry point of its own
        if each.name in found:
            problems.append(
                f"{folder}: the name {each.name} is taken by {found[each.name].folder}; take "
                "another one, or remove one of the two"
            )
        else:
            found[each.name] = each
    if by_name and by_name not in {each.name for each in manifests}:
        problems.append(f"{folder}: its entry point is {by_name}, its manifest has no [{by_name}]")


def _imported(manifest: AdapterManifest, module: str = "") -> ModuleType:
    """Import an adapter's package, or a module in it. Raises whatever that raises."""
    parent, _, _ = manifest.package.rpartition(".")
    if parent in (PACKAGE, builtin_package("adapters")):
        namespace(parent, manifest.folder.parent)
    known = sys.modules.get(manifest.package)
    if known is not None and [*getattr(known, "__path__", ())] != [str(manifest.folder)]:
        # Of another data folder, in the same process.
        for name in [*sys.modules]:
            if f"{name}.".startswith(f"{manifest.package}."):
                del sys.modules[name]
    return importlib.import_module(f"{manifest.package}.{module}" if module else manifest.package)


def _without_operator(create: AdapterFactory) -> OperatorPageFactory:
    return lambda host, driver, _operator: create(host, driver)


def _checked(manifest: AdapterManifest, create: OperatorPageFactory) -> OperatorPageFactory:
    """A factory that says what to install where an import in it fails, and that refuses an adapter
    whose name is not its manifest's: its chat keys would lead nowhere."""

    def make(host: Host, driver: Driver, operator: OperatorHost) -> Adapter:
        try:
            adapter = create(host, driver, operator)
        except ImportError as error:
            raise RuntimeError(_import_problem(manifest, error)) from error
        if adapter.name != manifest.name:
            raise RuntimeError(f"it calls itself {adapter.name!r}; its manifest has another name")
        return adapter

    return make


def _import_problem(manifest: AdapterManifest, error: Exception) -> str:
    name = manifest.name
    if isinstance(error, ImportError) and manifest.extra:
        return (
            f"NEKRO_PLATFORMS has {name}, which is not installed: "
            f"pip install '{manifest.extra}' ({error})"
        )
    return f"{name} in {manifest.folder} cannot be imported: {error!r}"
