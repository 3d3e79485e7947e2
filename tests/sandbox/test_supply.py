"""Boxes are made from named images: names of the backend, and names that the operator defines."""

import tempfile
import time
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import BackendUnavailable, Box, ImageUnavailable
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from nekro_core.sandbox.supply import BoxSupply
from tests.sandbox.run_code import play

pytestmark = pytest.mark.jail


async def test_a_box_is_made_from_the_image_whose_name_is_given() -> None:
    settings = SandboxSettings(
        backend=BackendName.JAIL,
        default_image="house",
        images={"house": "python", "python:9.9": "python", "broken": "no/such"},
        pool_size=0,
    )
    async with BoxSupply.open(settings, clock=time.monotonic, report=pytest.fail) as supply:
        images = await supply.images()
        assert {"house", "python", "python:9.9"} <= set(images)
        assert "broken" not in images
        assert list(images) == sorted(images)
        for image in ("", "house", "python:9.9", "python"):
            box = await supply.take(image)
            assert (await play(box, "print(6 * 7)")).output == "42\n"
            await box.destroy()
        for image in ("no/such", "broken"):
            with pytest.raises(ImageUnavailable, match=f"there is no image '{image}'.*python") as e:
                await supply.take(image)
            assert e.value.available == images


async def test_the_error_on_a_machine_without_a_backend_says_why() -> None:
    reasons: list[str] = []
    settings = SandboxSettings(backend=BackendName.JAIL, interpreter="/no/such/python")
    async with BoxSupply.open(settings, clock=time.monotonic, report=reasons.append) as supply:
        assert not supply.unavailable  # the first try has not ended yet
        await supply.settled()
        assert "/no/such/python" in supply.unavailable
        with pytest.raises(BackendUnavailable):
            await supply.take("node:22")
        assert supply.unavailable == reasons[0]
        with pytest.raises(BackendUnavailable):
            await supply.images()
    assert len(reasons) == 1


async def test_a_supply_has_as_many_boxes_ready_as_its_pool_size_says() -> None:
    settings = SandboxSettings(backend=BackendName.JAIL, pool_size=1)
    async with BoxSupply.open(settings, clock=time.monotonic, report=pytest.fail) as supply:
        await supply.settled()
        assert supply.ready == 1
        assert supply.unavailable == ""
    none = SandboxSettings(backend=BackendName.JAIL, pool_size=0)
    async with BoxSupply.open(none, clock=time.monotonic, report=pytest.fail) as supply:
        with anyio.fail_after(20):
            await supply.settled()


async def test_boxes_are_made_again_once_the_backend_works() -> None:
    reasons: list[str] = []
    with tempfile.TemporaryDirectory() as name:  # only one user may enter pytest's folders
        Path(name).chmod(0o755)
        later = Path(name) / "later"
        settings = SandboxSettings(backend=BackendName.JAIL, runtime_dir=later)
        await _first_refused_then_served(settings, later, reasons)
    assert len(reasons) == 1


async def _first_refused_then_served(
    settings: SandboxSettings, later: Path, reasons: list[str]
) -> None:
    async with BoxSupply.open(
        settings, clock=time.monotonic, report=reasons.append, first_pause_s=0.05
    ) as supply:
        with pytest.raises(BackendUnavailable):
            await supply.take()
        later.mkdir(mode=0o755)
        with anyio.fail_after(30):
            box = await _as_soon_as_there_is_one(supply)
        assert not supply.unavailable
        assert (await play(box, "print('well')")).output == "well\n"
        await box.destroy()


async def _as_soon_as_there_is_one(supply: BoxSupply) -> Box:
    while True:
        try:
            return await supply.take()
        except BackendUnavailable:
            await anyio.sleep(0.05)
