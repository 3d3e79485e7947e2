"""The file with which `nekro upgrade` asks a running bot to continue as another version. The guard
(`guard.py`), which starts that version, writes the outcome into the same file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from nekro_core.system.atomic_files import write_whole

ORDER_FILE = "upgrade.json"
_FRESH_S = 120.0
"""An order is followed within this many seconds after it was written. An older one was left behind
by a command that was killed, and a restart for another reason must not follow it."""


State = Literal["wanted", "keeping", "trying", "done", "back"]


class UpgradeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A wanted upgrade, and how far it has come.

    Attributes:
        state: ``wanted``: the bot has not ended yet. ``keeping``: the guard keeps the database as
            it is, which takes as long as `pg_dump` on a PostgreSQL server. ``trying``: the guard
            has started the new version. ``done``: the new version answers. ``back``: the new
            version was given up.
        asked: When the order was written, in seconds since 1970.
        python: The Python of the environment with the new version.
        within_s: The new version must answer within this many seconds.
        sqlite: The SQLite file; empty if the database is on a server.
        reason: Why the new version was given up.
    """

    state: State = "wanted"
    asked: float
    python: str
    within_s: float
    sqlite: str = ""
    reason: str = ""


def read_order(data: Path) -> UpgradeOrder | None:
    """Return the order in a data folder; None if there is none that can be read."""
    try:
        return msgspec.json.decode((data / ORDER_FILE).read_bytes(), type=UpgradeOrder)
    except (OSError, msgspec.MsgspecError):  # It can also be a file of another user.
        return None


def write_order(data: Path, order: UpgradeOrder) -> None:
    """Write the order. Raises `OSError`."""
    write_whole(data / ORDER_FILE, msgspec.json.encode(order))


def guard_command(data: Path, started: Sequence[str], now: float) -> tuple[str, ...] | None:
    """Return the command of the guard, if an upgrade is wanted now; ``started`` is the command of
    the old version, whose Python also runs the guard."""
    order = read_order(data)
    if order is None or order.state != "wanted" or not 0 <= now - order.asked < _FRESH_S:
        return None
    # The guard must be of the same version as ``started``: `nekro run` does not import the code of
    # the folder in which it is started, and `python -m nekro_core run` does.
    folder_counts = "-m" in started and "-P" not in started
    options = () if folder_counts else ("-P",)
    return (started[0], *options, "-m", "nekro_core.app.upgrade.guard", str(data), *started)
