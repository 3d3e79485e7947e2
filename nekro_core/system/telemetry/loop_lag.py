"""Measures how late the event loop continues its tasks."""

import time
from collections.abc import Callable

import anyio

from nekro_core.system.telemetry.recorders import Histogram

_EVERY_S = 1.0
"""Seconds between two measurements. Each of them wakes the process for some microseconds."""


async def measure_loop_lag(lag: Histogram, clock: Callable[[], float] = time.perf_counter) -> None:
    """Measure until cancelled. A value is the time by which a sleep was too long."""
    while True:
        began = clock()
        await anyio.sleep(_EVERY_S)
        lag.observe(max(clock() - began - _EVERY_S, 0.0))
