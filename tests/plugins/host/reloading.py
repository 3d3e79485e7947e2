"""Loads a plugin again and again, and counts what a process has: nothing may be more afterwards.

For any plugin and any registry::

    grown = await grown_by_reloads(registry, "local/weather", first=10, last=100, use=talk)
    assert grown == {}

``use`` lets the plugin do something between two reloads: call its tools, send it a message.
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
"""Reloads after which is counted: what the issue asks for."""
_SETTLE = 4
_AGAIN = 4
"""How often what grew has to grow again."""


class Broken(AssertionError):
    """The plugin did not load, or not again."""


async def nothing() -> None:
    """What most plugins do between two reloads."""


async def grown_by_reloads(
    registry: PluginRegistry,
    plugin: str,
    *,
    first: int,
    last: int,
    use: Callable[[], Awaitable[Any]] = nothing,
) -> dict[str, int]:
    """What there was more of after the last reload than after the first one that counts, by kind:
    ``task``, ``thread``, ``module``, ``route`` and ``object builtins.function``.

    Raises `Broken` where the plugin does not load.
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
        # What was made late (a thread of the pool) is no growth: it does not come again and again.
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
    """Everything in this process that could pile up, by kind."""
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
    """asyncio keeps timers that were cancelled until they are half of all, which is no growth."""
    scheduled = getattr(asyncio.get_running_loop(), "_scheduled", [])
    scheduled[:] = [each for each in scheduled if not each.cancelled()]
    heapq.heapify(scheduled)
    asyncio.get_running_loop()._timer_cancelled_count = 0  # type: ignore[attr-defined]


def _types() -> Iterator[str]:
    for each in gc.get_objects():
        kind = type(each)
        # sqlite3 keeps those of cursors that are gone, and sweeps them after each 200.
        if kind is weakref.ReferenceType and each() is None:
            continue
        yield f"{kind.__module__}.{kind.__qualname__}"


def _depth(factory: Any) -> int:
    depth = 0
    while factory is not None:
        depth, factory = depth + 1, getattr(factory, "_before", None)
    return depth


async def bytes_kept(reload: Callable[[], Awaitable[Any]], first: int, last: int) -> int:
    """By how much Python's own memory grew in each half of the reloads between these two.

    The lesser of the two: Python's table of strings is made anew once in a while, some megabytes
    large, which is no growth.
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
