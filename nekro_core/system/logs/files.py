"""Writes log entries to files, one line of JSON for each entry. The files are bounded in size, and
only their owner can read them.

The newest lines are in ``bot.log``. When this file is full, it is renamed to ``bot.1.log``, an
older ``bot.1.log`` to ``bot.2.log``, and so on. The oldest files are deleted.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec

from nekro_core.system.logs.line import LogLine

NAME = "bot"
MOST_BYTES = 10 * 1024 * 1024
"""Size in bytes at which a file is full."""
MOST_FILES = 5

_AGAIN_S = 30.0
"""Seconds in which no line is written after the disk has refused a line. Lines that are logged in
this time are only in memory and on stdout."""
_PIECE = 64 * 1024
_NUMBERED = re.compile(rf"{NAME}(?:\.([1-9][0-9]{{0,3}}))?\.log")


class RotatedLogFiles:
    """The log files in a folder. The methods may be called from any thread. `write` never
    raises."""

    def __init__(
        self,
        folder: Path,
        *,
        size: int = MOST_BYTES,
        files: int = MOST_FILES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self._size = size
        self._files = files
        self._clock = clock
        self._refused_until = 0.0
        self._lock = threading.Lock()

    def write(self, line: LogLine) -> None:
        """Append a line. If the disk refuses a line, no line is written for `_AGAIN_S` seconds."""
        with self._lock:
            if self._refused_until and self._clock() < self._refused_until:
                return
            try:
                self._append(msgspec.json.encode(line) + b"\n")
                self._refused_until = 0.0
            except OSError:
                self._refused_until = self._clock() + _AGAIN_S

    def forget(self, unwanted: Callable[[bytes], bool]) -> int:
        """Remove lines. Return their number. Raises `OSError`.

        Args:
            unwanted: Gets a line as it is in the file, and returns whether to remove it.
        """
        with self._lock:
            gone = 0
            for path in self.paths():
                fresh = path.with_name(f".{path.name}.new")
                with path.open("rb") as old, os.fdopen(_opened(fresh, os.O_TRUNC), "wb") as new:
                    for line in old:
                        if unwanted(line):
                            gone += 1
                        else:
                            new.write(line)
                fresh.replace(path)
            return gone

    def paths(self) -> list[Path]:
        """Return the files that exist, oldest first. These can be more than are kept, if the
        number was larger earlier: they are deleted when the newest file is full. Raises
        `OSError`."""
        return [path for _, path in self._numbered()]

    def pieces(self) -> Generator[bytes, None, None]:
        """Yield the content of all files, oldest first. Reading blocks. A file that is renamed
        meanwhile is read to its end. Raises `OSError`."""
        opened = []
        try:
            for path in self.paths():
                try:
                    opened.append(path.open("rb"))
                except FileNotFoundError:
                    continue
            for file in opened:
                while piece := file.read(_PIECE):
                    yield piece
        finally:
            for file in opened:
                file.close()

    def _append(self, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The file is opened for each line, so that an operator may delete or move it. That takes 10
        # µs.
        file = _opened(self._path(0), os.O_APPEND)
        try:
            if os.fstat(file).st_size + len(data) > self._size:
                self._rotate()
                os.close(file)
                file = _opened(self._path(0), os.O_APPEND)
            os.write(file, data)
        finally:
            os.close(file)

    def _rotate(self) -> None:
        for number, path in self._numbered():
            if number + 1 < self._files:
                path.replace(self._path(number + 1))
            else:
                path.unlink(missing_ok=True)

    def _numbered(self) -> list[tuple[int, Path]]:
        """Return the files that exist with their numbers, oldest first."""
        found = []
        for path in self.folder.glob(f"{NAME}*.log"):
            match = _NUMBERED.fullmatch(path.name)
            if match and path.is_file():
                found.append((int(match[1] or 0), path))
        return sorted(found, reverse=True)

    def _path(self, number: int) -> Path:
        return self.folder / (f"{NAME}.{number}.log" if number else f"{NAME}.log")


def _opened(path: Path, how: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
