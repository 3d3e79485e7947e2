"""Ends with 0 if the bot of this container answers. The image's HEALTHCHECK runs this file twice a
minute, and it imports no package outside of Python's standard library, so that a check takes little
time."""

import json
import os
import sys
import urllib.request
from pathlib import Path

PATH = "/healthz"
LONGEST_S = 8.0
"""If the bot does not answer within this many seconds, it counts as hung. The HEALTHCHECK ends this
program after 10 s."""


def fault(data: Path) -> str:
    """Ask the bot whose data folder this is. Returns what is wrong; empty if it answers."""
    try:
        address = json.loads((data / "running.json").read_bytes())["address"]
    except (OSError, ValueError, KeyError):
        return f"no bot is ready: {data / 'running.json'} is not there"
    # Use no proxy: the proxy that the environment names is for requests to other machines.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(address + PATH, timeout=LONGEST_S).close()
    except OSError as error:  # also an answer with another status than 200
        return f"{address}{PATH}: {error}"
    return ""


if __name__ == "__main__":
    wrong = fault(Path(os.environ.get("NEKRO_DATA_DIR") or "data"))
    print(wrong or "the bot answers")
    sys.exit(bool(wrong))
