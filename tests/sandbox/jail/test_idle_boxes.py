"""Half a second after its last use, a box has one process and uses little memory."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import Answer, Backend, Box, CallFailure, GuestCall
from nekro_core.sandbox.jail import process_tree
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.pool import BoxPool
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import play

pytestmark = pytest.mark.jail

_MB = 1024 * 1024
_SLOW_S = 5
"""The usual time is half a second, but a busy machine is slow."""


def inside(jail: Backend, box: Box) -> list[int]:
    """The host's pids of a box's processes, without the launcher."""
    assert isinstance(jail, JailBackend)
    return jail.processes_of(box)[1:]


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the supervisor has ended or begun processes, or reported its memory."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.05)


async def until_at_rest(jail: Backend, box: Box) -> int:
    await anyio.sleep(1)
    with anyio.fail_after(_SLOW_S):
        while len(inside(jail, box)) > 1:
            await anyio.sleep(0.05)
        await anyio.sleep(0.1)  # the supervisor reports its memory
    (supervisor,) = inside(jail, box)
    return supervisor


async def test_after_a_run_only_the_supervisor_is_left_with_under_7_mb(
    jail: Backend, box: Box
) -> None:
    await anyio.sleep(1)  # the supervisor makes the interpreter that it keeps ready
    assert (await play(box, "import asyncio, pathlib; print('on')")).output == "on\n"
    supervisor = await until_at_rest(jail, box)
    own = process_tree.usage([supervisor]).memory_bytes
    assert own < 7 * _MB, f"{own / _MB:.1f} MB"
    await until(lambda: own < box.idle_bytes)
    if (rollup := _pss(supervisor)) is not None:
        await until(lambda: abs(box.idle_bytes - rollup) < 1.5 * _MB)
    assert (await play(box, "print('again')")).output == "again\n"


async def test_dropped_globals_leave_nothing_behind(jail: Backend, box: Box) -> None:
    run = await box.start_run((), _refuse, keep_globals=True)
    await run.feed("x = bytearray(b'x') * 40_000_000\n", 1)
    assert (await run.finish()).globals_kept
    await anyio.sleep(1)
    await until(lambda: len(inside(jail, box)) == 2)  # the supervisor and the stopped interpreter
    box.drop_globals()
    supervisor = await until_at_rest(jail, box)
    assert process_tree.usage([supervisor]).memory_bytes < 7 * _MB


async def test_the_executor_ends_after_a_command_unless_a_process_is_left(
    jail: Backend, box: Box
) -> None:
    assert (await box.execute("echo well")).exit_code == 0
    await until_at_rest(jail, box)
    left = int((await box.execute("sleep 60 & echo $!")).stdout.text)
    await anyio.sleep(1.5)
    assert len(inside(jail, box)) >= 3  # these are the supervisor, the executor and `sleep`
    assert (await box.execute(f"kill {left}")).exit_code == 0
    await until_at_rest(jail, box)


async def test_a_box_of_the_pool_keeps_its_ready_interpreter_and_its_memory_is_counted(
    jail: Backend,
) -> None:
    async with BoxPool(jail, SMALL, 1) as pool:
        with anyio.fail_after(30):
            while not pool.ready:
                await anyio.sleep(0.02)
        await anyio.sleep(2)
        (waiting,) = pool._ready
        await until(lambda: len(inside(jail, waiting)) == 2 and pool.idle_bytes > 5 * _MB)
        assert 5 * _MB < pool.idle_bytes == waiting.idle_bytes < 25 * _MB


async def _refuse(_: GuestCall) -> Answer:
    return CallFailure("no tools here")


def _pss(pid: int) -> int | None:
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except PermissionError:
        return None  # the process is not dumpable: only root may read this
    return (
        next(int(line.split()[1]) for line in told.splitlines() if line.startswith("Pss:")) * 1024
    )
