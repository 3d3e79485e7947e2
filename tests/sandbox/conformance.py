"""Tests that every `Backend` and every `Box` must pass. A backend's tests subclass
`BackendConformance`.

Read `conformance_runs` first: it shows the calls between code in a box and the bot.
"""

import anyio
import pytest

from nekro_core.sandbox.box import (
    Backend,
    Box,
    BoxLost,
    BoxSpec,
    ImageUnavailable,
    StopReason,
)
from tests.sandbox.conformance_archives import ArchiveConformance, box_spec
from tests.sandbox.conformance_commands import CommandConformance
from tests.sandbox.conformance_files import FileConformance
from tests.sandbox.conformance_globals import GlobalsConformance
from tests.sandbox.conformance_limits import LimitConformance
from tests.sandbox.conformance_programs import ProgramConformance
from tests.sandbox.conformance_runs import RunConformance
from tests.sandbox.conformance_sparse import SparseConformance
from tests.sandbox.conformance_streams import StreamConformance
from tests.sandbox.conformance_values import ValueConformance
from tests.sandbox.run_code import QUICK, Tools, play


class BackendConformance(
    RunConformance,
    ValueConformance,
    LimitConformance,
    ArchiveConformance,
    SparseConformance,
    CommandConformance,
    FileConformance,
    StreamConformance,
    GlobalsConformance,
    ProgramConformance,
):
    """Needs the fixtures ``backend``, ``box`` (new for each test) and ``used_box`` (shared)."""

    async def test_an_unknown_image_is_refused_with_a_list_of_images(
        self, backend: Backend
    ) -> None:
        images = await backend.images()
        assert "python" in images
        assert list(images) == sorted(images)
        with pytest.raises(ImageUnavailable, match=r"'no/such:1'.*python") as refused:
            await backend.create(BoxSpec(template="no/such:1"))
        assert refused.value.available == images

    # Lifetime

    async def test_a_destroyed_box_is_lost_for_every_caller(self, box: Box) -> None:
        run = await box.start_run([], Tools({}).handle, QUICK)
        await run.feed("import time\ntime.sleep(60)\n", 1)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                async def waiting() -> None:
                    with pytest.raises(BoxLost):
                        await box.start_run([], Tools({}).handle, QUICK)

                tasks.start_soon(waiting)
                await anyio.sleep(0.05)
                await box.destroy()
                await box.destroy()
            result = await run.finish()
        assert result.stop is StopReason.DIED
        assert "destroyed" in result.error
        assert not box.alive
        with pytest.raises(BoxLost):
            await box.read_file("x", limit=1)
        with pytest.raises(BoxLost):
            await box.write_file("/app/uploads/x", b"")

    async def test_boxes_do_not_see_each_other(self, backend: Backend, box: Box) -> None:
        other = await backend.create(box_spec(box))
        try:
            await box.write_file("mine", b"x")
            await box.write_file("/app/uploads/mine", b"x")
            look = "import os\nprint(os.listdir('.'), os.listdir('/app/uploads'))"
            assert (await play(other, look)).output == "[] []\n"
        finally:
            await other.destroy()

    async def test_the_self_check_passes(self, backend: Backend) -> None:
        checked = await backend.self_check()
        assert checked.ok, [check for check in checked.checks if not check.ok]
        assert len(checked.checks) >= 10
