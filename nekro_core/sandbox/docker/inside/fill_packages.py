"""Fill the volume with the shared packages, in a separate container.

`boot.BOOT` defines ``receive`` and executes this program. The input is a piece of JSON and then a
tar archive of the packages. The program unpacks the archive, compiles the modules with the Python
of the image and imports each package once. Then it moves the files to where boxes see them. While
the program works, it prints dots, so that the host can see that it still runs. At the end it prints
a line of JSON.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:

    def receive() -> bytes:
        """Read the next piece of the input."""


_BEAT_S = 1.0
_IMPORT_S = 600.0
_READ_BYTES = 1024 * 1024


class _Input:
    """Standard input as a file, for `tarfile`."""

    def read(self, size: int) -> bytes:
        return os.read(0, size)


def unpack(target: Path, entries: int) -> None:
    """Write the files of the archive below ``target``. The archive should have ``entries`` entries.
    It has fewer if the bot on the host ended while it sent the archive. Raises OSError, also in
    this case."""
    left = entries
    with tarfile.open(mode="r|", fileobj=_Input()) as archive:  # type: ignore[call-overload]
        for entry in archive:
            left -= 1
            path = target / entry.name
            content = archive.extractfile(entry)
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)
            # A compiled module notes the time of its source file. It is valid only while the file
            # has this time.
            os.utime(path, (entry.mtime, entry.mtime))
    if left:
        raise OSError(f"{left} of {entries} files did not arrive")


def try_imports(folder: Path, names: list[str]) -> str:
    """Import the modules in a new process. Return the error, or an empty string."""
    code = f"import sys; sys.path.append({str(folder)!r}); import {', '.join(names)}"
    done = subprocess.run(  # noqa: S603 - no shell
        [sys.executable, "-I", "-B", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=_IMPORT_S,
    )
    return (done.stderr.strip().splitlines() or ["?"])[-1] if done.returncode else ""


def fill(place: Path, entries: int, modules: list[str], shown_last: list[str]) -> str:
    """Fill the folder ``place``. Return an error, or an empty string. Raises OSError.

    ``modules`` are imported once, as a test. The folders ``shown_last`` are moved into ``place``
    after all others: a box may import them as soon as they are there, and they need the others.
    """
    complete = place / ".complete"
    if complete.exists():
        return ""
    new = place / ".new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    try:
        unpack(new, entries)
        # Errors are ignored: a module that cannot be compiled could not be imported anyway.
        compileall.compile_dir(str(new), quiet=2, stripdir=str(new), prependdir=str(place))
        error = try_imports(new, modules)
        if error:
            return error
        for inner in sorted(new.iterdir(), key=lambda each: (each.name in shown_last, each.name)):
            old = place / inner.name
            if old.is_dir():
                shutil.rmtree(old)
            inner.replace(old)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    complete.write_text("{}.{}".format(*sys.version_info[:2]))
    return ""


def beat(ended: threading.Event) -> None:
    """Print a dot each second."""
    while not ended.wait(_BEAT_S):
        os.write(1, b".")


def main() -> None:
    """Fill the volume, and print a line of JSON with the error or an empty string."""
    os.umask(0o022)
    os.nice(10)
    told: dict[str, Any] = json.loads(receive())
    ended = threading.Event()
    beats = threading.Thread(target=beat, args=(ended,))
    beats.start()
    try:
        error = fill(Path(told["place"]), told["entries"], told["modules"], told["shown_last"])
    except (OSError, subprocess.SubprocessError, tarfile.TarError) as failed:
        error = f"{type(failed).__name__}: {failed}"
    finally:
        ended.set()
        beats.join()
    os.write(1, json.dumps({"error": error}).encode() + b"\n")
    # Read the rest of the input until the host, which has then read the answer, closes it.
    while os.read(0, _READ_BYTES):
        pass


main()
