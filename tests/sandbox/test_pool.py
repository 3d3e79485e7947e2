"""A pool gives out boxes that are ready. It gives each box only once and leaves none behind."""

from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import Backend, BackendUnavailable, Box, BoxSpec, SelfCheck
from nekro_core.sandbox.pool import BoxPool, suggested_pool_size
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import play

pytestmark = pytest.mark.jail


async def until_ready(pool: BoxPool, count: int) -> None:
    with anyio.fail_after(30):
        while pool.ready < count:
            await anyio.sleep(0.02)


async def test_boxes_are_ready_and_no_box_is_given_twice(jail: Backend) -> None:
    async with BoxPool(jail, SMALL, 2) as pool:
        await until_ready(pool, 2)
        # the pool has two boxes, so the third is made on demand
        taken = [await pool.take() for _ in range(3)]
        assert len({box.box_id for box in taken}) == 3
        assert (await play(taken[0], "print('mine')")).output == "mine\n"
        await until_ready(pool, 2)
    assert all(box.alive for box in taken)
    for box in taken:
        await box.destroy()


async def test_a_box_that_died_while_it_waited_is_not_given(jail: Backend) -> None:
    async with BoxPool(jail, SMALL, 1) as pool:
        await until_ready(pool, 1)
        (waiting,) = pool._ready
        await waiting.destroy()
        assert pool.ready == 0
        box = await pool.take()
        assert box.alive
        assert box is not waiting
        await box.destroy()


class Broken:
    """A backend that makes no boxes until ``works`` is set."""

    name = "broken"

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.works = False
        self.asked = 0

    async def self_check(self) -> SelfCheck:
        return SelfCheck(backend=self.name)

    async def images(self) -> tuple[str, ...]:
        return await self.backend.images()

    crowded = False

    async def create(self, spec: BoxSpec) -> Box:
        self.asked += 1
        if not self.works:
            raise BackendUnavailable("not now")
        return await self.backend.create(spec)

    async def aclose(self) -> None:
        return


async def test_a_failing_backend_is_retried_at_most_once_a_second(jail: Backend) -> None:
    broken = Broken(jail)
    began = anyio.current_time()
    async with BoxPool(broken, SMALL, 1) as pool:
        with pytest.raises(BackendUnavailable):
            await pool.take()
        await anyio.sleep(0.3)
        assert broken.asked <= 2 + (anyio.current_time() - began), (
            "a failing backend must be asked at most once a second"
        )
        broken.works = True
        await until_ready(pool, 1)


@pytest.mark.parametrize(
    ("meminfo", "size"),
    [
        ("MemTotal: 900 kB\nMemAvailable:   300000 kB\n", 1),
        ("MemAvailable: 1200000 kB\n", 2),
        ("MemAvailable: 64000000 kB\n", 4),
        ("MemFree: 64000000 kB\n", 1),
        ("nonsense", 1),
    ],
)
def test_the_size_of_a_pool_follows_from_the_free_memory(
    tmp_path: Path, meminfo: str, size: int
) -> None:
    (tmp_path / "meminfo").write_text(meminfo)
    assert suggested_pool_size(tmp_path / "meminfo") == size
    assert suggested_pool_size(tmp_path / "nowhere") == 1
