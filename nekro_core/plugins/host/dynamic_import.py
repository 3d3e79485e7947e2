"""`dynamic_import_pkg`: imports a package that a running plugin asks for."""

import asyncio
import importlib
import threading
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from anyio import to_thread
from loguru import logger

from nekro_core.plugins.authoring.binding import PluginOwner, current_owner
from nekro_core.plugins.host.loader import pause_import_limit
from nekro_core.plugins.packages import PackageFolder, PackagesRefused
from nekro_core.system.sync_bridge import can_wait, wait_for
from nekro_core.tools.outcome import ToolFailure

if TYPE_CHECKING:
    from nekro_core.plugins.packages.requirements import PluginRequirement


class PackageWanted(ToolFailure, ImportError):
    """A package is being fetched, and this code cannot wait for it. Call again in a moment."""


def dynamic_import_pkg(
    package_spec: str,
    import_name: str | None = None,
    *,
    mirror: str | None = None,
    trusted_host: bool = True,
    timeout: float = 300,
    repo_dir: str | None = None,
) -> ModuleType:
    """Import a package. It is installed first if neither the bot nor a plugin has it.

    At the top of a plugin's module, in a handler's own coroutine and in any thread, this waits, and
    the event loop does not. In a task that a handler started it cannot wait: the package is fetched
    in the background, and until it is there each call raises `PackageWanted`. The package comes
    from the operator's index. Outside of a plugin it is only imported.

    Args:
        package_spec: A requirement by name and version, such as ``humanize>=4``. An address is
            refused.
        import_name: The module, where its name is not the package's with underscores.
        mirror: Ignored, as ``trusted_host`` and ``repo_dir`` are; plugins for nekro-agent give
            them.
        trusted_host: Ignored.
        timeout: Seconds by which the time limit of the plugin's import is put off, where it is
            called at the top of a module or in a thread.
        repo_dir: Ignored.

    Returns:
        The module.

    Raises:
        PackageWanted: It is being fetched; the same call works in a moment.
        PackagesRefused: It was not installed; the text names what is needed and what it conflicts
            with.
        InvalidRequirements: ``package_spec`` is no requirement.
        ImportError: From the package itself.
    """
    from nekro_core.plugins.packages import requirements  # noqa: PLC0415 - 40 ms, for few

    del mirror, trusted_host, repo_dir
    wanted = requirements.parse_requirement(package_spec)
    module = import_name or wanted.name.replace("-", "_")
    owner = current_owner()
    shelf = owner.binding.services.packages if owner and owner.binding.services else None
    if shelf is None or owner is None:
        return importlib.import_module(module)  # a test, or a script: what is there is there
    if not shelf.has(wanted):
        need = requirements.PluginRequirement(wanted, owner.item)
        if can_wait():
            fetch = partial(shelf.ensure, owner.item, [need], more=True)
            wait_for(to_thread.run_sync(fetch, abandon_on_cancel=True))
        elif _on_the_loop():
            _fetch_behind(shelf, owner, need)
            raise PackageWanted(
                f"{wanted} is being fetched for {owner.item}: the same call works in a moment"
            )
        else:
            with pause_import_limit(timeout):
                shelf.ensure(owner.item, [need], more=True)
    for stale in shelf.refresh():
        logger.warning("plugin {}: {}", owner.item, stale)
    return importlib.import_module(module)


def _on_the_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _fetch_behind(shelf: PackageFolder, owner: PluginOwner, need: "PluginRequirement") -> None:
    """Fetch in a daemon thread. The package folder lets one thread in at a time."""

    def fetch() -> None:
        try:
            shelf.ensure(owner.item, [need], more=True)
            logger.info("plugin {}: {} is there", owner.item, need.requirement)
        except PackagesRefused as error:
            logger.error("plugin {}: {}", owner.item, error)

    name = f"packages: {need}"
    if not any(thread.name == name for thread in threading.enumerate()):
        threading.Thread(target=fetch, name=name, daemon=True).start()
