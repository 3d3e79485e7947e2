"""``python -m bench [--small] [PART ...]``: measure the parts, print a table of figures, and list
the figures that miss their target.

Each module of this folder with ``async def figures()`` is a part. With ``--small``, a part whose
``figures`` takes ``small`` measures less. Benchmarks are not tests: on a busy machine a figure may
miss its target although nothing is wrong.
"""

import importlib
import inspect
import os
import pkgutil
import platform
import sys
import time
from functools import partial

import anyio

import bench
from bench.figure import Figure, table

_SMALL = "--small"


def main(arguments: list[str]) -> int:
    """Measure the named parts, or all if none is named. Returns 0 if every target was reached."""
    # Without this setting, a bot would download packages for its boxes while it is measured.
    os.environ.setdefault("NEKRO_SANDBOX__PACKAGES", "false")
    rooms = [each for each in arguments if each != _SMALL]
    known = [
        info.name
        for info in pkgutil.iter_modules(bench.__path__)
        if info.name not in {"__main__", "engine", "figure"}
    ]
    if unknown := set(rooms) - set(known):
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return 2
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}")
    found: list[Figure] = []
    for room in rooms or known:
        module = importlib.import_module(f"bench.{room}")
        if not hasattr(module, "figures"):
            continue
        began = time.monotonic()
        measure = module.figures
        if _SMALL in arguments and "small" in inspect.signature(measure).parameters:
            measure = partial(measure, small=True)
        found += (figures := anyio.run(measure, backend_options={"use_uvloop": True}))
        print(f"\n{room} ({time.monotonic() - began:.0f} s)\n{table(figures)}", flush=True)
    short = [figure.name for figure in found if figure.reached is False]
    print(f"\n{len(found)} figures, {len(short)} short{': ' + '; '.join(short) if short else ''}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
