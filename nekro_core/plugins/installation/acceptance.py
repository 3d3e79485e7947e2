"""Checks a plugin before it is installed, as `nekro plugin check` does."""

from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from io import StringIO
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.check_order import CheckOrder, CheckResult
from nekro_core.plugins.installation.check_process import CheckProcess
from nekro_core.plugins.installation.packages import PluginNeeds, fetch_packages
from nekro_core.plugins.installation.sources import FetchedPlugin
from nekro_core.plugins.installation.surroundings import lend_surroundings
from nekro_core.plugins.packages import PackageFolder
from nekro_core.system.errors import NekroError
from nekro_core.system.thread_cancellation import stop_if_cancelled

_LOOK_S = 0.1
"""Seconds between two checks whether the caller was cancelled."""
_MARGIN_S = 60.0
"""Seconds that a check may take in addition to the time limits of the plugin's import and init
method."""

NOT_CONFINED = (
    "note: this kernel cannot confine a process (no Landlock). So only Python refused what the "
    "plugin tried; machine code in the plugin was not confined"
)


def make_order(copy: Path, shown: Path, settings: PluginSettings) -> CheckOrder:
    """Make the order to check a plugin. ``copy`` is the copy of the plugin in the throw-away
    folder, ``shown`` is the path that the plugin's author knows."""
    return CheckOrder(str(copy), str(shown), settings.model_dump_json())


def time_limit(settings: PluginSettings) -> float:
    """Return the maximum number of seconds of a check. The time for fetching packages does not
    count."""
    return settings.import_s + settings.init_s + _MARGIN_S


class NotAccepted(NekroError):
    """A plugin cannot be loaded. The text says why."""


def check_with(
    fetched: FetchedPlugin,
    shelf: PackageFolder,
    settings: PluginSettings,
    data_dir: Path,
    needs: PluginNeeds | None = None,
) -> CheckResult:
    """Check a plugin in a confined process. The process gets the packages of ``shelf`` and, from
    ``data_dir``, the other plugins that the plugin needs and the plugin's configuration. Blocks.

    If ``needs`` are given, packages that ``shelf`` lacks are installed only for the check. Raises
    `PackagesRefused`.
    """

    async def check() -> CheckResult:
        async with CheckProcess.open() as process:
            copy = process.copy(fetched.path, fetched.name)
            shelf.lend_to(process.data_dir)
            lend_surroundings(copy, data_dir, process.data_dir)
            if needs is not None:
                item = f"local/{fetched.name}"
                await fetch_packages(needs, item, settings.shelf(process.data_dir), StringIO())
            order = make_order(copy, Path(fetched.name), settings)
            return await process.check(order, time_limit(settings))

    return _run_apart(check)


def _run_apart(check: Callable[[], Awaitable[CheckResult]]) -> CheckResult:
    """Run a check in an event loop in a new thread, because the caller's thread may already run an
    event loop. If the caller is cancelled, the check ends."""
    with start_blocking_portal() as portal:
        running = portal.start_task_soon(check)
        try:
            while not running.done():
                wait([running], timeout=_LOOK_S)
                stop_if_cancelled()
        except BaseException:
            running.cancel()
            raise
        return running.result()


def accept(
    check: Callable[[], CheckResult],
    item: str,
    needs: PluginNeeds,
    *,
    get: Callable[[PluginNeeds], None],
    say: Callable[[str], None],
    force: bool,
) -> None:
    """Install a plugin's packages and check the plugin. If the plugin tries to run pip during the
    check, install the packages that pip would have installed, and check the plugin again.

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
