"""A child process dies while the bot writes to it."""

import asyncio
import gc
import os
import signal
import time
from subprocess import PIPE
from typing import Any

import anyio
import pytest

from nekro_core.system.child_processes import tolerate_exit


async def test_the_death_of_a_child_is_reported_by_its_streams_and_not_logged() -> None:
    """CPython 3.11.2 also logged the broken pipe when the process object was collected."""
    loop = asyncio.get_running_loop()
    before, logged = loop.get_exception_handler(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: logged.append(context))
    try:
        process = tolerate_exit(await anyio.open_process(["cat"], stdin=PIPE, stdout=PIPE))
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(b"there")
        assert await process.stdout.receive() == b"there"
        os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.2)  # this blocks the loop, so it notices the death only after the write
        await process.stdin.send(b"and now")
        with pytest.raises(anyio.EndOfStream):
            await process.stdout.receive()
        await process.aclose()
        await anyio.sleep(0.05)
        del process
        gc.collect()
        await anyio.sleep(0)
    finally:
        loop.set_exception_handler(before)
    assert logged == []
