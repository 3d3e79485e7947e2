"""Reloads a plugin many times and counts the objects of the process. The counts must not grow.

It works for any plugin and any registry::

    grown = await grown_by_reloads(registry, "local/weather", first=10, last=100, use=talk)
    assert grown == {}

``use`` runs after each reload and lets the plugin work: it calls its tools or sends it a message.
"""

import asyncio
import gc
import heapq
import sys
import threading
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import anyio

from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.registry import PluginRegistry

LONG = (10, 100)
"""The first count is made after 10 reloads, the second after 100."""
_SETTLE = 4
_AGAIN = 4
"""A count is reported as growth only if it grows this many more times."""


class Broken(AssertionError):
    """The plugin could not be loaded or reloaded."""


async def nothing() -> None:
    """The default for ``use``: do nothing after a reload."""


async def grown_by_reloads(
    registry: PluginRegistry,
    plugin: str,
    *,
    first: int,
    last: int,
    use: Callable[[], Awaitable[Any]] = nothing,
) -> dict[str, int]:
    """Count, by kind, the objects that exist after ``last`` reloads and did not exist after
    ``first``.

    Kinds are for example ``task``, ``thread``, ``module`` and ``object builtins.function``. Raises
    `Broken` if the plugin cannot be loaded.
    """

    async def reload() -> None:
        info = await registry.enable(plugin)
        if info.state is not PluginState.LOADED:
            raise Broken(f"{plugin}: {info.problems[0]}")
        await use()

    for _ in range(first):
        await reload()
    before = await counted()
    for _ in range(last - first):
        await reload()
    after = await counted()
    grown = _more(before, after)
    for _ in range(_AGAIN):
        if not grown:
            break
        # Reload again, and drop each count that grows no further. Such a count grew because
        # something was made late, for example a thread of a pool.
        before = after
        for _ in range(first):
            await reload()
        after = await counted()
        again = _more(before, after)
        grown = {kind: more for kind, more in grown.items() if kind in again}
    return grown


def _more(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {kind: more for kind in after if (more := after[kind] - before.get(kind, 0)) > 0}


async def counted() -> dict[str, int]:
    """Count, by kind, the objects of this process that could accumulate."""
    for _ in range(_SETTLE):
        await anyio.sleep(0.002)
        _drop_cancelled_timers()
        gc.collect()
    found = {
        "task": len(asyncio.all_tasks()),
        "thread": threading.active_count(),
        "module": len(sys.modules),
        "path": len(sys.path),
        "finder": len(sys.meta_path),
        "task factory": _depth(asyncio.get_running_loop().get_task_factory()),
    }
    found |= {f"object {name}": number for name, number in Counter(_types()).items()}
    return found


def _drop_cancelled_timers() -> None:
    """Remove cancelled timers. asyncio stores them until they are half of all timers."""
    scheduled = getattr(asyncio.get_running_loop(), "_scheduled", [])
    scheduled[:] = [each for each in scheduled if not each.cancelled()]
    heapq.heapify(scheduled)
    asyncio.get_running_loop()._timer_cancelled_count = 0  # type: ignore[attr-defined]


def _types() -> Iterator[str]:
    for each in gc.get_objects():
        kind = type(each)
        # sqlite3 stores references to deleted cursors. It removes them each time when there are
        # 200.
        if kind is weakref.ReferenceType and each() is None:
            continue
        yield f"{kind.__module__}.{kind.__qualname__}"


def _depth(factory: Any) -> int:
    depth = 0
    while factory is not None:
        depth, factory = depth + 1, getattr(factory, "_before", None)
    return depth


async def bytes_kept(reload: Callable[[], Awaitable[Any]], first: int, last: int) -> int:
    """Measure by how many bytes Python's memory grew in one half of the reloads from ``first`` to
    ``last``.

    The smaller growth of the two halves is returned. Python sometimes builds a new table of
    strings. The table takes some megabytes but is no growth, and it is built in one half only.
    """
    marks = [first, (first + last) // 2, last]
    seen = []
    tracemalloc.start()
    try:
        for number in range(1, last + 1):
            await reload()
            if number in marks:
                await counted()
                seen.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return min(seen[1] - seen[0], seen[2] - seen[1])
