"""If a run is lost with its box, its result says why."""

import time
from typing import Any

import pytest

from nekro_core.sandbox.box import RunLimits, StopReason
from nekro_core.sandbox.link.box_run import BoxRun
from tests.sandbox.run_code import Tools


@pytest.mark.parametrize("starved", [True, False])
async def test_a_lost_run_is_out_of_memory_if_the_kernel_killed_a_process(starved: bool) -> None:
    nothing: Any = None
    run = BoxRun(
        channel=nothing,
        names=frozenset(),
        handler=Tools().handle,
        limits=RunLimits(),
        workers=nothing,
        clock=time.monotonic,
        tear_down=lambda _: None,
        starved=lambda: starved,
    )
    run.lost("its processes ended")
    result = await run.wait()
    assert result.stop is (StopReason.OUT_OF_MEMORY if starved else StopReason.DIED)
    assert "lost" in result.error
