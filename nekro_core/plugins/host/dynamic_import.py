"""`dynamic_import_pkg` imports a Python package for a running plugin, and installs it first if it
is missing."""

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
    """A package is being installed in the background, and the calling code cannot wait for it. The
    same call works later."""


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

    At the top of a plugin's module, in a handler's own coroutine and in any thread, this call waits
    for the installation without blocking the event loop. In a task that a handler started it cannot
    wait: the package is installed in the background, and each call raises `PackageWanted` until
    that is done. The package comes from the operator's package index. Code that belongs to no
    plugin can only import packages that are installed.

    Args:
        package_spec: A requirement by name and version, such as ``humanize>=4``. A URL is refused.
        import_name: The module to import. None means the package's name, with ``_`` for ``-``.
        mirror: Ignored, like ``trusted_host`` and ``repo_dir``. Plugins for nekro-agent pass them.
        trusted_host: Ignored.
        timeout: Seconds by which the time limit for importing the plugin is extended, if this is
            called at the top of a module or in a thread.
        repo_dir: Ignored.

    Returns:
        The module.

    Raises:
        PackageWanted: The package is being installed in the background; the same call works later.
        PackagesRefused: The package was not installed. The text names the requirement and the
            conflict.
        InvalidRequirements: ``package_spec`` is not a valid requirement.
        ImportError: The package's own code raised it, or nothing installed has this name.
    """
    from nekro_core.plugins.packages import requirements  # noqa: PLC0415 - 40 ms, rarely needed

    del mirror, trusted_host, repo_dir
    wanted = requirements.parse_requirement(package_spec)
    module = import_name or wanted.name.replace("-", "_")
    owner = current_owner()
    shelf = owner.binding.services.packages if owner and owner.binding.services else None
    if shelf is None or owner is None or requirements.is_in_python(wanted.name):
        # Nothing is installed for a test or a script, or for a module of Python itself.
        return importlib.import_module(module)
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
    """Install a package in a daemon thread, so that the caller need not wait. The lock of the
    package folder makes sure that only one thread changes the folder at a time."""

    def fetch() -> None:
        try:
            shelf.ensure(owner.item, [need], more=True)
            logger.info("plugin {}: {} is installed", owner.item, need.requirement)
        except PackagesRefused as error:
            logger.error("plugin {}: {}", owner.item, error)

    name = f"packages: {need}"
    if not any(thread.name == name for thread in threading.enumerate()):
        threading.Thread(target=fetch, name=name, daemon=True).start()
