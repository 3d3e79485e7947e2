"""Run the command ``nekro`` as a child process."""

import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

LONG_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    out: str
    err: str


def nekro(folder: Path, *arguments: str, typed: str | Path = "") -> Ended:
    """Run ``nekro ARGUMENTS`` in a folder until it ends. ``typed`` is its input: text or a file."""
    run = partial(
        subprocess.run,
        [sys.executable, "-m", "nekro_core", *arguments],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    if isinstance(typed, Path):
        with typed.open() as file:
            process = run(stdin=file)
    else:
        process = run(input=typed)
    return Ended(process.returncode, process.stdout, process.stderr)


async def nekro_meanwhile(folder: Path, *arguments: str, typed: str | Path = "") -> Ended:
    """Like `nekro`, but while the command runs, this process can answer requests of the command."""
    return await anyio.to_thread.run_sync(partial(nekro, folder, *arguments, typed=typed))
