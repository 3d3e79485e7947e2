"""A disk that is slow or full, and a clock that is set, for one process and its children.

A small library stands between the process and the C library (``LD_PRELOAD``), so that SQLite and
Python themselves meet the fault. It is compiled by the machine's C compiler.
"""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


class Machine:
    """The faults of one machine, kept in ``folder``. Nothing is wrong with it at first."""

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
        """What a process must have in its environment to be on this machine."""
        return {"LD_PRELOAD": str(self._library), "FAULT_MACHINE": str(self._shared)}

    def set_clock(self, seconds: int) -> None:
        """Put the time of day forward or back against the real one; other clocks go on."""
        self._set("clock_s", seconds)

    def slow_disk(self, milliseconds: float) -> None:
        """What every write and flush of a file takes from now on."""
        self._set("write_us", int(milliseconds * 1000))

    def full_disk(self, *, full: bool) -> None:
        """Whether a database file takes another byte."""
        self._set("full", int(full))

    def _set(self, name: str, value: int) -> None:
        self._now[name] = value
        with self._shared.open("r+b") as file:  # Mapped by the process: it must stay this file.
            file.write(struct.pack("<3q", *self._now.values()))
