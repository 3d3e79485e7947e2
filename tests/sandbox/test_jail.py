"""The jail passes what every backend must pass."""

from collections.abc import AsyncIterator

import anyio
import pytest

from nekro_core.sandbox.box import Backend, Box
from nekro_core.sandbox.jail.backend import JailBackend
from tests.sandbox.conformance import BackendConformance
from tests.sandbox.conformance_streams import StreamConformance
from tests.sandbox.conftest import SMALL
from tests.sandbox.play import play

pytestmark = pytest.mark.jail


class TestJail(BackendConformance):
    @pytest.fixture
    def backend(self, jail: Backend) -> Backend:
        return jail


async def test_commands_that_use_too_much_memory_are_ended_and_nothing_else(box: Box) -> None:
    hungry = "import os, time\nfor _ in range(5):\n if not os.fork(): break\n"
    hungry += "x = bytearray(b'x') * (70 * 1024 * 1024)\ntime.sleep(30)"
    with anyio.fail_after(25):
        result = await box.execute(["python3", "-IS", "-c", hungry], timeout_s=20)
    assert result.exit_code == 137
    # Where the kernel took the parent first, its children go with the next command.
    answers = [(await box.execute("echo well; sleep 0.3")).stdout.text for _ in range(3)]
    assert answers[-1] == "well\n"
    assert (await play(box, "print('well')")).output == "well\n"


class TestWithoutDoor(StreamConformance):
    """Connections are relayed in frames, as they are behind an engine on another machine."""

    @pytest.fixture
    async def box(self, jail: JailBackend) -> AsyncIterator[Box]:
        made = await jail.create(SMALL, with_door=False)
        yield made
        await made.destroy()

    @pytest.fixture
    def used_box(self, box: Box) -> Box:
        return box
