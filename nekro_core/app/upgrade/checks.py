"""Refuses an upgrade that could not end well, before anything is made."""

import os
import pwd
from pathlib import Path

from nekro_core.app.upgrade.environment import UpgradeRefused


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


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"  # sudo accepts this form.
