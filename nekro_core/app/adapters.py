"""Makes the adapters that the operator enabled.

An adapter is imported only when it is made or must erase a person. If one adapter fails, the
failure is logged and the other adapters run.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

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
from nekro_core.app.adapter_directory import PACKAGE, AdapterBroken, AdapterDirectory
from nekro_core.chat.redact import RedactionTarget
from nekro_core.delivery.adapter_manifest import AdapterManifest
from nekro_core.plugins.host.builtin import builtin_package, namespace
from nekro_core.store import Person, PersonTraces


@dataclass(frozen=True, slots=True)
class AdapterMaker:
    """The factory of one adapter, and the web server options that it needs."""

    name: str
    create: OperatorPageFactory
    options: Mapping[str, Any]
    builtin: bool
    """Whether the adapter comes with the bot. The method `start` of such an adapter tries again
    after temporary failures. So an error that `start` raises is permanent, and ends the bot."""


def adapter_makers(
    adapters: AdapterDirectory, settings: Mapping[str, Any], wanted: Sequence[str]
) -> list[AdapterMaker]:
    """Import every enabled adapter. If one cannot be imported, this is logged and the bot runs
    without it."""
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
    """Import an adapter and its eraser without making the adapter. Raises `AdapterBroken`."""
    load_adapter(manifest, {"nekro_platforms": (manifest.name,)})
    if manifest.eraser:
        try:
            _eraser(manifest)
        except Exception as error:
            raise AdapterBroken(f"eraser = {manifest.eraser!r} cannot be had: {error!r}") from error


async def erase_from_adapters(
    data_dir: Path, person: Person, traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    """Let every adapter erase a person, including the adapters that do not run. Return how many
    items were deleted or changed.

    If the erasers of some adapters fail, the other erasers are still called. Then `AdapterBroken`
    is raised for those that failed, and for adapters whose manifest cannot be read.
    """
    find = partial(AdapterDirectory.find, data_dir, installed=True)
    adapters = await anyio.to_thread.run_sync(find)
    gone, failed = 0, list(adapters.problems)
    for manifest in adapters.manifests.values():
        if not manifest.eraser:
            continue
        try:
            gone += await _eraser(manifest)(data_dir, person, traces)
        except Exception as error:  # noqa: BLE001 - the other adapters must erase too
            failed.append(f"adapter {manifest.name}: {error!r}")
    if failed:
        raise AdapterBroken("; ".join(failed))
    return gone


def _eraser(manifest: AdapterManifest) -> AdapterEraser:
    """Import an adapter's eraser. Raises `AttributeError` if the module lacks the function, and any
    error of the import."""
    module, _, function = manifest.eraser.partition(":")
    eraser: AdapterEraser = getattr(_imported(manifest, module), function)
    return eraser


def _imported(manifest: AdapterManifest, module: str = "") -> ModuleType:
    """Import an adapter's package, or a module in it. Errors of the import are raised."""
    parent, _, _ = manifest.package.rpartition(".")
    if parent in (PACKAGE, builtin_package("adapters")):
        namespace(parent, manifest.folder.parent)
    known = sys.modules.get(manifest.package)
    if known is not None and [*getattr(known, "__path__", ())] != [str(manifest.folder)]:
        # Forget a loaded package of the same name that comes from another data folder of this
        # process.
        for name in [*sys.modules]:
            if f"{name}.".startswith(f"{manifest.package}."):
                del sys.modules[name]
    return importlib.import_module(f"{manifest.package}.{module}" if module else manifest.package)


def _without_operator(create: AdapterFactory) -> OperatorPageFactory:
    return lambda host, driver, _operator: create(host, driver)


def _checked(manifest: AdapterManifest, create: OperatorPageFactory) -> OperatorPageFactory:
    """Wrap a factory. If an import in the factory fails, the error says what to install. If the
    adapter's name differs from its manifest, the adapter is refused, because its chat keys would
    belong to no adapter."""

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
