"""Gives one process and its children a slow or full disk, or a clock that jumps.

A small library replaces functions of the C library (``LD_PRELOAD``), so the fault also reaches
SQLite and Python. The machine's C compiler compiles the library.
"""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


class Machine:
    """The faults of one machine, stored in ``folder``. At first there is no fault."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler")
        self._library = folder / "machine.so"
        self._shared = folder / "machine.faults"
        self._now = {"clock_s": 0, "write_us": 0, "full": 0}
        self._shared.write_bytes(bytes(24))
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE)]
        subprocess.run([*command, "-ldl"], check=True)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that give a process the faults of this machine."""
        return {"LD_PRELOAD": str(self._library), "FAULT_MACHINE": str(self._shared)}

    def set_clock(self, seconds: int) -> None:
        """Shift the time of day by this many seconds. The monotonic clock is not changed."""
        self._set("clock_s", seconds)

    def slow_disk(self, milliseconds: float) -> None:
        """Delay each write and flush of a file by this time from now on."""
        self._set("write_us", int(milliseconds * 1000))

    def full_disk(self, *, full: bool) -> None:
        """Make every write to a database file fail for lack of space, or let writes work again."""
        self._set("full", int(full))

    def _set(self, name: str, value: int) -> None:
        self._now[name] = value
        with self._shared.open(
            "r+b"
        ) as file:  # The process has mapped this file, so it must not be replaced.
            file.write(struct.pack("<3q", *self._now.values()))
