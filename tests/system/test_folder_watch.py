"""A folder is watched until the task is cancelled. Then the task ends at once."""

from pathlib import Path

import anyio
import pytest
from watchfiles import awatch

from nekro_core.system.folder_watch import stop_event_of_watch


async def test_a_cancelled_watch_ends_at_once(tmp_path: Path) -> None:
    watching = anyio.Event()

    async def watch() -> None:
        async with stop_event_of_watch() as stop:
            watching.set()
            # `awatch` waits for changes in a thread. If nothing changes, the thread returns only
            # every minute, but it looks at the stop event every 20 ms.
            async for _ in awatch(tmp_path, stop_event=stop, step=20, rust_timeout=60_000):
                pass

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await watching.wait()
            await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()


async def test_an_error_in_the_block_is_raised_unchanged(tmp_path: Path) -> None:
    seen: list[anyio.Event] = []

    async def watch() -> None:
        async with stop_event_of_watch() as stop:
            seen.append(stop)
            async for _ in awatch(
                tmp_path, stop_event=stop, step=20, rust_timeout=20, yield_on_timeout=True
            ):
                raise KeyError("the caller's")

    with pytest.raises(KeyError, match="the caller's"):
        await watch()
    assert seen[0].is_set()
