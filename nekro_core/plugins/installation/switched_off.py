"""Switches a plugin off while its files change, so that its code ends before the files are
replaced."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nekro_core.plugins.host.switches import FILE_NAME, LIST_NAME, PluginSwitches, read_list
from nekro_core.store import data_folder_in_use

_FOLLOWS_S = 15.0
"""Maximum wait in seconds until a running bot has read the switch, run the plugin's cleanup and
ended the plugin's tasks."""


@contextmanager
def switched_off(data_dir: Path, item: str, key: str) -> Iterator[None]:
    """Switch a plugin off for the duration of a ``with`` block, and restore its switch afterwards.

    If a bot runs, the block begins when the bot has unloaded the plugin, at the latest after 15 s.
    """
    choices = PluginSwitches(data_dir)
    wanted = choices.wanted(item)
    choices.choose(item, key, wanted=False)
    try:
        _await_end(data_dir, item)
        yield
    finally:
        choices.choose(item, key, wanted=wanted)


def _await_end(data_dir: Path, item: str) -> None:
    """Wait until a running bot has read the switch and lists the plugin as disabled, at most 15
    s."""
    chosen = (data_dir / FILE_NAME).stat().st_mtime_ns
    until = time.monotonic() + _FOLLOWS_S
    while data_folder_in_use(data_dir) and time.monotonic() < until:
        listed = data_dir / LIST_NAME
        if listed.exists() and listed.stat().st_mtime_ns > chosen:
            state = {each.item: each.state for each in read_list(data_dir)}.get(item)
            if state in (None, "disabled"):
                return
        time.sleep(0.1)
