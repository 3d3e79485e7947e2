"""``python -m bench [PART ...]``: measure, print, and say which figures miss their target.

Each module of this folder with ``async def figures()`` is a part. Benchmarks are not tests: on a
busy machine a figure may miss its target although nothing is wrong.
"""

import importlib
import pkgutil
import platform
import sys
import time

import anyio

import bench
from bench.figure import Figure, table


def main(rooms: list[str]) -> int:
    """Measure the parts in ``rooms``, or all if it is empty. Returns 0 if every target was
    reached."""
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
        found += (figures := anyio.run(module.figures, backend_options={"use_uvloop": True}))
        print(f"\n{room} ({time.monotonic() - began:.0f} s)\n{table(figures)}", flush=True)
    short = [figure.name for figure in found if figure.reached is False]
    print(f"\n{len(found)} figures, {len(short)} short{': ' + '; '.join(short) if short else ''}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
