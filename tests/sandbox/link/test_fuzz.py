"""A moment of what ``make attack`` does for long, and a supervisor that was taken over."""

import contextvars

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.box import BoxSpec, GuestFunction
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.box_connection import BoxConnection
from nekro_core.sandbox.link.channel import Channel
from nekro_core.sandbox.link.worker_pool import WorkerPool
from tests.sandbox.attacks.fuzz import EXAMPLES, TARGETS
from tests.sandbox.run_code import Tools


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    settings(max_examples=150, deadline=None)(given(EXAMPLES[name])(TARGETS[name]))()


class NoProcesses:
    """What a supervisor's box has beside its channel, without any."""

    def __init__(self) -> None:
        self.killed = False

    def kill(self) -> None:
        self.killed = True

    async def gone(self) -> None:
        self.kill()

    def write(self, path: str, data: bytes) -> None:
        raise AssertionError(path)


TEXTS = st.binary(max_size=30) | st.sampled_from(
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"stop":"finished"}',
        b'{"stop":"nonsense"}',
        b'["tool", [], {}]',
        b'{"code":"limit","message":"x"}',
        b'{"fd_socket":false}',
        b'{"value":[1]}',
    ]
)
FRAMES = st.lists(
    st.tuples(st.integers(0, 45), st.integers(0, 2**32 - 1) | st.integers(0, 3), TEXTS, TEXTS),
    max_size=8,
)


@given(FRAMES)
@settings(max_examples=150, deadline=None)
def test_a_supervisor_that_was_taken_over_can_lose_its_box_and_no_more(
    frames: list[wire.Frame],
) -> None:
    async def converse() -> None:
        async with anyio.create_task_group() as tasks:
            processes = NoProcesses()
            box = BoxConnection(
                box_id="box",
                spec=BoxSpec(),
                workers=WorkerPool(tasks),
                uploads=processes,
                processes=processes,
            )
            box.attach(Channel(box.handle, box.lose))
            run = await box.start_run([GuestFunction(names=("tool",))], Tools({"tool": 1}).handle)
            await run.feed("pass\n", 1)
            for frame in frames:
                box.handle(frame)
                await anyio.lowlevel.checkpoint()
            assert box.alive != processes.killed
            await box.destroy()
            with anyio.fail_after(30):
                await run.wait()
            tasks.cancel_scope.cancel()

    # The context of the tests may carry the loop of a fixture, which is not running now.
    contextvars.Context().run(anyio.run, converse)
