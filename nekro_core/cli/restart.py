"""Implements ``nekro restart``: restarts the running bot. The bot keeps its process id."""

import argparse
import os
import sys
import time

import anyio

from nekro_core.app.instance import INSTANCE_FILE, find_running_instance
from nekro_core.app.restart import RESTART_SIGNAL
from nekro_core.app.settings import Settings
from nekro_core.system.atomic_files import WatchedFile

_LONG_S = 60.0
"""Maximum wait in seconds until the bot answers again. It usually answers within 5 s."""


async def restart(_: argparse.Namespace) -> int:
    """Ask the bot of this data folder to restart, and wait until it answers again. Raises
    `SettingsError` if the settings are wrong; then the bot is not restarted."""
    data = Settings.load().nekro_data_dir
    place = find_running_instance(data)
    if place is None:
        print(f"no bot runs with the data folder {data}; `nekro run` starts one", file=sys.stderr)
        return 1
    written = WatchedFile(data / INSTANCE_FILE)
    written.changed()
    began = time.monotonic()
    try:
        os.kill(place.pid, RESTART_SIGNAL)
    except PermissionError:
        print(f"the bot (process {place.pid}) belongs to another user", file=sys.stderr)
        return 1
    with anyio.move_on_after(_LONG_S):
        while True:
            await anyio.sleep(0.05)
            if written.changed() and (place := find_running_instance(data)) is not None:
                print(f"the bot answers again at {place.address}, {time.monotonic() - began:.1f} s")
                return 0
    print(f"the bot does not answer after {_LONG_S:g} s: its log says why", file=sys.stderr)
    return 1
