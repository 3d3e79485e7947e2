"""Refuses an upgrade that could not end well, before anything is made."""

import os
import pwd
import shutil
from pathlib import Path

from nekro_core.app.upgrade.programs import UpgradeRefused
from nekro_core.backup.errors import RestoreRefused
from nekro_core.backup.postgres_copy import require_programs
from nekro_core.sandbox.jail.container import ContainerLimits
from nekro_core.store.engines import is_postgres

_MB = 1_000_000


def check_container(root: Path = Path("/")) -> None:
    """Check that the bot is not in a container: a new container would start the version of the
    image again, with a database that is too new for it. Raises `UpgradeRefused`.

    Args:
        root: The root of the file system; only tests give another one.
    """
    if ContainerLimits.find(root) is not None:
        raise UpgradeRefused(
            "this is a container, and the next one starts the version of its image again: make a "
            "new image, and start a container of it with the same volume (docs/deploying.md, "
            "A container)"
        )


def check_owner(data: Path) -> None:
    """Check that this process belongs to the user of the bot. The bot could not read an order of
    another user, for example of root. Raises `UpgradeRefused`."""
    try:
        owner = data.stat().st_uid
    except FileNotFoundError:  # A bot that was never started.
        return
    if owner != os.geteuid():
        raise UpgradeRefused(
            f"the data folder {data} belongs to the user {_name(owner)}, and this command was "
            f"started by {_name(os.geteuid())}, whose files the bot cannot read. Start it as the "
            f"user of the bot: sudo -u {_name(owner)} nekro upgrade ..."
        )


def check_programs(database_url: str) -> None:
    """Check that a database on a PostgreSQL server can be kept as it is and put back. Raises
    `UpgradeRefused`."""
    if not is_postgres(database_url):
        return
    try:
        require_programs()
    except RestoreRefused as error:
        raise UpgradeRefused(str(error)) from None


def check_space(folder: Path, needed: int) -> None:
    """Check that the disk of a folder has a number of bytes free: the bot that runs meanwhile
    writes to the same disk. Raises `UpgradeRefused`."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UpgradeRefused(
            f"the disk of {folder} has {free // _MB} MB free, and to try the migration on a copy "
            f"of the database takes {needed // _MB + 1} MB: make room, for example in "
            f"{folder / 'copies'} and in old environments"
        )


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"  # sudo accepts this form.
