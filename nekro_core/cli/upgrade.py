"""Implements ``nekro upgrade``: installs another version beside this one, tries its migration on a
copy of the database, and lets the running bot continue as that version. If that version does not
answer, the bot goes back to this one by itself."""

import argparse
import math
import os
import sys
import time
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from nekro_core import __version__
from nekro_core.app.instance import InstanceInfo, find_running_instance
from nekro_core.app.restart import RESTART_SIGNAL
from nekro_core.app.settings import Settings
from nekro_core.app.upgrade.checks import check_container, check_owner, check_programs
from nekro_core.app.upgrade.environment import (
    checked_source,
    make_environment,
    switch_current,
    version_of,
)
from nekro_core.app.upgrade.order import (
    ORDER_FILE,
    UpgradeOrder,
    read_order,
    write_order,
)
from nekro_core.app.upgrade.programs import UpgradeRefused
from nekro_core.app.upgrade.trial import (
    NotTried,
    copy_of_file,
    copy_on_server,
    seconds_to_answer,
    try_migration,
)
from nekro_core.backup.make import BackupSource
from nekro_core.cli.service.found import commands_to_install_again
from nekro_core.cli.service.unit import unit_file
from nekro_core.store import Store, StoreError
from nekro_core.store.upgrade import known_migrations

_LOOK_S = 0.05
_ENDS_S = 20.0
"""Maximum wait, in seconds, until a bot that was asked to restart has ended."""
_BACK_S = 60.0
"""Maximum wait, in seconds, until the old version answers again. It usually takes 3 s."""


async def upgrade(options: argparse.Namespace) -> int:
    """Upgrade, or try the migration of this version on the database of the settings. Returns an
    exit status. Raises `SettingsError`."""
    settings = Settings.load()
    try:
        if options.check_database:
            return await _check_database(settings)
        return await _upgrade(settings, options)
    except (UpgradeRefused, StoreError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


async def _check_database(settings: Settings) -> int:
    """Migrate the database of the settings, which is a copy. The old version runs this in a process
    of the new version."""
    began = time.monotonic()
    async with Store.open(settings.database_url, settings.nekro_store):
        pass
    print(f"the tables are those of {known_migrations()[-1]}, {time.monotonic() - began:.1f} s")
    return 0


async def _upgrade(settings: Settings, options: argparse.Namespace) -> int:
    check_container()
    source = checked_source(options.source)
    data = settings.nekro_data_dir.absolute()
    check_owner(data)
    check_programs(settings.database_url)
    versions = Path(options.versions) if options.versions else data.parent / "versions"
    versions = versions.absolute()
    python = await anyio.to_thread.run_sync(
        partial(make_environment, source, versions, say=_say, now=time.time())
    )
    new = await anyio.to_thread.run_sync(version_of, python)
    _say(f"nekro-core {new} is installed; this command is of {__version__}")
    backup = BackupSource(data=data, database_url=settings.database_url)
    database = backup.sqlite_file
    trial_s = await anyio.to_thread.run_sync(_try, python, database, settings.database_url, data)
    place = find_running_instance(data)
    if place is None:
        link = switch_current(versions, python)
        _say(f"no bot runs with the data folder {data}. Start the new version with:")
        print(f"{link}/bin/nekro run")
        _say_of_services(link)
        return 0
    order = UpgradeOrder(
        asked=time.time(),
        python=str(python),
        within_s=seconds_to_answer(options.within, trial_s),
        sqlite=str(database.absolute()) if database is not None else "",
    )
    return await _let_continue(data, place, order, versions, new)


def _try(python: Path, database: Path | None, url: str, data: Path) -> float:
    """Try the migration on a copy. Return how many seconds it took; 0 if it was not tried. Raises
    `UpgradeRefused`."""
    if database is not None and not database.exists():
        return 0.0
    _say("trying the migration on a copy of the database")
    try:
        with (
            copy_of_file(database)
            if database is not None
            else copy_on_server(url, data, say=_say, now=time.time())
        ) as copy:
            began = time.monotonic()
            _say(try_migration(python, copy))
            return time.monotonic() - began
    except NotTried as error:
        _say(
            f"the migration was not tried on a copy: {error}. If it fails on the server, nothing "
            "is changed there, and the old version starts again. Give --within if the migration "
            "may take longer than a minute"
        )
        return 0.0


async def _let_continue(
    data: Path, place: InstanceInfo, order: UpgradeOrder, versions: Path, new: str
) -> int:
    """Ask the bot to restart as the new version, and wait for the outcome."""
    write_order(data, order)
    _say(
        f"the bot (process {place.pid}) restarts as nekro-core {new}, which must answer within "
        f"{order.within_s:.1f} s"
    )
    began = time.monotonic()
    try:
        os.kill(place.pid, RESTART_SIGNAL)
        if await _state(data, {"wanted"}, _ENDS_S) == "wanted":
            raise UpgradeRefused("the bot has not ended: its log says why. Nothing was changed")
    except PermissionError:
        raise UpgradeRefused(f"the bot (process {place.pid}) belongs to another user") from None
    finally:
        if (left := read_order(data)) is not None and left.state == "wanted":
            (data / ORDER_FILE).unlink(missing_ok=True)
    # A dump of a big database may take an hour. The process of the bot makes it, and later watches
    # over the new version. If the process of the bot is killed meanwhile, nothing was changed, and
    # whoever started the bot has to start it again.
    if await _state(data, {"keeping"}, math.inf, guard=place.pid) == "keeping":
        raise UpgradeRefused(
            f"process {place.pid} was ended while it kept the database as it is. Nothing was "
            "changed: start the bot again as before"
        )
    state = await _state(data, {"trying"}, order.within_s + _BACK_S)
    if state == "done":
        link = switch_current(versions, Path(order.python))
        _say(f"nekro-core {new} answers, {time.monotonic() - began:.1f} s after the restart began")
        _say(f"from now on, start the bot with: {link}/bin/nekro run")
        _say_of_services(link)
        return 0
    found = read_order(data)
    reason = found.reason if found is not None else "its file in the data folder is gone"
    _say(f"nekro-core {new} did not come up: {reason}")
    began = time.monotonic()
    while time.monotonic() - began < _BACK_S:
        if find_running_instance(data) is not None:
            _say(f"the version before answers again, {time.monotonic() - began:.1f} s after that")
            return 1
        await anyio.sleep(_LOOK_S)
    _say("the version before does not answer: its log says why")
    return 1


def _say_of_services(link: Path) -> None:
    """Print the commands that make the services of this folder start the new version."""
    machine, of_user = (
        unit_file("nekro", of_user=each, home=Path.home()).parent for each in (False, True)
    )
    for command in commands_to_install_again(
        link / "bin" / "nekro", Path.cwd(), machine=machine, of_user=of_user
    ):
        _say(f"the service starts the version before at its next start, until you run: {command}")


async def _state(data: Path, waiting: set[str], within_s: float, *, guard: int = 0) -> str:
    """Wait at most ``within_s`` seconds while the state of the order is one of ``waiting``. If
    ``guard`` is a process id, also stop waiting when this process has ended. Return the last
    state."""
    until = time.monotonic() + within_s
    while True:
        # Look for the process first, and read the order after that: the process writes the next
        # state before it ends.
        ended = bool(guard) and not await anyio.Path(f"/proc/{guard}").exists()
        order = read_order(data)
        state = order.state if order is not None else ""
        if state not in waiting or ended or time.monotonic() > until:
            return state
        await anyio.sleep(_LOOK_S)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
