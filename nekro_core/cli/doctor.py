"""Implements ``nekro doctor``: says which parts of the bot work on this machine, and how to repair
those that do not."""

import argparse
import sys

from nekro_core.app.health import examine
from nekro_core.app.logs import RedactingStream, stored_secrets
from nekro_core.app.settings import Settings


async def run(_: argparse.Namespace) -> int:
    """Print a line for each finding, with its remedy. Return 1 if something does not work."""
    settings = Settings.load()
    # Remove secrets from the output, because people paste it into bug reports, and an error from a
    # server may contain a key.
    out = RedactingStream(sys.stdout)
    out.add_secrets([*settings.secrets(), *stored_secrets(settings.nekro_data_dir)])
    marks = {True: "ok  ", False: "FAIL", None: "    "}
    bad = 0
    async for finding in examine(settings):
        print(f"{marks[finding.ok]} {finding.area:9} {finding.seen}", file=out, flush=True)
        if finding.ok is False:
            bad += 1
            for line in finding.remedy.splitlines():
                print(f"{'':15}{line}", file=out, flush=True)
    print("everything works" if not bad else f"{bad} to mend")
    return min(bad, 1)
