"""Checks a plugin before it is installed, as `nekro plugin check` does."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio

from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.check_order import CheckOrder, CheckResult
from nekro_core.plugins.installation.check_process import CheckProcess
from nekro_core.plugins.installation.packages import PluginNeeds
from nekro_core.plugins.installation.sources import FetchedPlugin
from nekro_core.plugins.installation.surroundings import lend_surroundings
from nekro_core.plugins.packages import PackageFolder
from nekro_core.system.errors import NekroError

_MARGIN_S = 60.0
"""Seconds of a check beside the import and the init method of the plugin."""

NOT_CONFINED = (
    "note: this kernel cannot confine a process (no Landlock), so that Python alone refused what "
    "the plugin tried; machine code in it was not held back"
)


def make_order(copy: Path, shown: Path, settings: PluginSettings) -> CheckOrder:
    """The order to check a plugin. ``copy`` is in the throw-away folder, ``shown`` is the path that
    its author knows."""
    return CheckOrder(str(copy), str(shown), settings.model_dump_json())


def time_limit(settings: PluginSettings) -> float:
    """How many seconds a check may take, without the fetching of packages."""
    return settings.import_s + settings.init_s + _MARGIN_S


class NotAccepted(NekroError):
    """A plugin cannot be loaded. The text says why."""


def check_with(
    fetched: FetchedPlugin, shelf: PackageFolder, settings: PluginSettings, data_dir: Path
) -> CheckResult:
    """Check a plugin in a confined process, with the packages of ``shelf``, and with the plugins
    that it needs and its configuration from ``data_dir``. Blocks."""

    async def check() -> CheckResult:
        async with CheckProcess.open() as process:
            copy = process.copy(fetched.path, fetched.name)
            shelf.lend_to(process.data_dir)
            lend_surroundings(copy, data_dir, process.data_dir)
            order = make_order(copy, Path(fetched.name), settings)
            return await process.check(order, time_limit(settings))

    # In a new thread, because the caller's thread may have an event loop already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, check).result()


def accept(
    check: Callable[[], CheckResult],
    item: str,
    needs: PluginNeeds,
    *,
    get: Callable[[PluginNeeds], None],
    say: Callable[[str], None],
    force: bool,
) -> None:
    """Get a plugin's packages and check it. A plugin that runs pip gets what pip was to install,
    and is checked again.

    ``get`` installs packages. Raises `NotAccepted` if the plugin cannot be loaded, unless ``force``
    is set.
    """
    get(needs)
    checked = check()
    more = needs.with_attempts(item, checked.attempts)
    if more != needs:
        for line in PluginNeeds((), by_pip=more.by_pip).offers():
            say(f"  {line}")
        get(more)
        checked = check()
    if not checked.confined:
        say(f"  {NOT_CONFINED}")
    for each in checked.attempts:
        say(f"  while it was loaded: {each.text}, at {each.where}")
    if checked.loaded:
        return
    if not force:
        raise NotAccepted(
            f"it cannot be loaded here; --force installs it all the same:\n{checked.problems}"
        )
    say("  it cannot be loaded yet:")
    for line in checked.problems.splitlines():
        say(f"  {line}")
