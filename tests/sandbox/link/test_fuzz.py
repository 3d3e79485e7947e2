"""Runs the fuzzers for a short time; ``make attack`` runs them for longer. Also tests frames of a
hostile supervisor."""

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
def test_any_bytes_are_decoded_or_refused(name: str) -> None:
    settings(max_examples=150, deadline=None)(given(EXAMPLES[name])(TARGETS[name]))()


class NoProcesses:
    """The processes and uploads of a box that has neither."""

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
def test_a_hostile_supervisor_can_lose_only_its_box(
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

    # The test's context may contain the event loop of a fixture, which is not running here.
    contextvars.Context().run(anyio.run, converse)
