"""Switches a plugin off while its files change, so that its code has ended before."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nekro_core.plugins.host.switches import FILE_NAME, LIST_NAME, PluginSwitches, read_list
from nekro_core.store import data_folder_in_use

_FOLLOWS_S = 15.0
"""How long a running bot may take to switch a plugin off: its look, its cleanup, its tasks."""


@contextmanager
def switched_off(data_dir: Path, item: str, key: str) -> Iterator[None]:
    """Switch a plugin off for the time of the context, then back to what it was."""
    choices = PluginSwitches(data_dir)
    wanted = choices.wanted(item)
    choices.choose(item, key, wanted=False)
    try:
        _await_end(data_dir, item)
        yield
    finally:
        choices.choose(item, key, wanted=wanted)


def _await_end(data_dir: Path, item: str) -> None:
    """Wait until a bot that runs has read the choice and written its list after it."""
    chosen = (data_dir / FILE_NAME).stat().st_mtime_ns
    until = time.monotonic() + _FOLLOWS_S
    while data_folder_in_use(data_dir) and time.monotonic() < until:
        listed = data_dir / LIST_NAME
        if listed.exists() and listed.stat().st_mtime_ns > chosen:
            state = {each.item: each.state for each in read_list(data_dir)}.get(item)
            if state in (None, "disabled"):
                return
        time.sleep(0.1)
