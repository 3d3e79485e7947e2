"""Switches a plugin off while its files change, so that its code ends before it is replaced."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nekro_core.plugins.host.switches import FILE_NAME, LIST_NAME, PluginSwitches, read_list
from nekro_core.store import data_folder_in_use

_FOLLOWS_S = 15.0
"""How long a running bot may take to read the choice, clean the plugin up and end its tasks."""


@contextmanager
def switched_off(data_dir: Path, item: str, key: str) -> Iterator[None]:
    """Switch a plugin off for a ``with`` block, and afterwards back to what it was.

    If a bot runs, the block begins when the bot has switched the plugin off, or after 15 s.
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
    """Wait until a running bot has read the choice and then listed the plugin as off."""
    chosen = (data_dir / FILE_NAME).stat().st_mtime_ns
    until = time.monotonic() + _FOLLOWS_S
    while data_folder_in_use(data_dir) and time.monotonic() < until:
        listed = data_dir / LIST_NAME
        if listed.exists() and listed.stat().st_mtime_ns > chosen:
            state = {each.item: each.state for each in read_list(data_dir)}.get(item)
            if state in (None, "disabled"):
                return
        time.sleep(0.1)
