"""Prints what the bot needs, for ``pip install --requirement``: the dependencies in pyproject.toml,
and those of the extras that the first argument lists, separated by commas
(``postgres,telegram``)."""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


def requirements(pyproject: str, extras: str) -> Iterator[str]:
    """Yield the requirements. Ends the program if an extra is unknown."""
    project = tomllib.loads(pyproject)["project"]
    yield from project["dependencies"]
    known = project["optional-dependencies"]
    for name in filter(None, (each.strip() for each in extras.split(","))):
        if name not in known:
            sys.exit(f"EXTRAS: {name!r} is no extra; known are {', '.join(known)}")
        yield from known[name]


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    print("\n".join(requirements(Path("pyproject.toml").read_text("utf-8"), given)))
