"""Measures the lag of the event loop: by how much later than planned it continues its tasks."""

import time
from collections.abc import Callable

import anyio

from nekro_core.system.telemetry.recorders import Histogram

_EVERY_S = 1.0
"""Seconds between two measurements. Each measurement takes some microseconds."""


async def measure_loop_lag(lag: Histogram, clock: Callable[[], float] = time.perf_counter) -> None:
    """Measure until cancelled. Each measurement sleeps for `_EVERY_S` and records in ``lag`` by how
    many seconds the sleep was too long."""
    while True:
        began = clock()
        await anyio.sleep(_EVERY_S)
        lag.observe(max(clock() - began - _EVERY_S, 0.0))
