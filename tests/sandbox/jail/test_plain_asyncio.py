"""A web server starts the event loop itself, so callbacks of the loop have no anyio context."""

import asyncio

import anyio
import pytest

from nekro_core.sandbox.box import Answer, BoxSpec, CallReturn, GuestCall, GuestFunction, StopReason
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings


@pytest.mark.jail
def test_calls_are_answered_in_a_loop_that_anyio_did_not_start() -> None:
    async def double(call: GuestCall) -> Answer:
        return CallReturn(call.args[0] * 2)

    async def main() -> tuple[StopReason, str]:
        async with anyio.create_task_group() as tasks:
            backend = JailBackend(SandboxSettings(packages=False), tasks)
            try:
                box = await backend.create(BoxSpec())
                run = await box.start_run([GuestFunction(names=("double",))], double)
                await run.feed("print(double(4), double(5))\n", 1)
                result = await run.finish()
            finally:
                await backend.aclose()
                tasks.cancel_scope.cancel()
            return result.stop, result.output

    assert asyncio.run(main()) == (StopReason.FINISHED, "8 10\n")
