"""Code in containers can import the packages that all boxes share, with the Python of the image."""

import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import Backend, Box, BoxSpec
from nekro_core.sandbox.box_packages import packages_parent
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.docker.container import packages_mount
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.docker.images import GuestImage, ImageResolver
from nekro_core.sandbox.docker.orphans import box_labels
from nekro_core.sandbox.docker.package_filling import fill_volume
from nekro_core.sandbox.docker.package_volumes import remove_old_volumes
from nekro_core.sandbox.package_fetch import (
    NAMES,
    PLACE,
    PackagesUnavailable,
    failure_of,
    packages_tag,
)
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.conformance_packages import PackageConformance
from tests.sandbox.docker.other_python import NAME, find_other_python, give_other_image
from tests.sandbox.docker.remote_engine import far_engine
from tests.sandbox.run_code import play

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(1800)]


@asynccontextmanager
async def opened(host: str) -> AsyncIterator[DockerBackend]:
    async with anyio.create_task_group() as tasks:
        backend = DockerBackend(SandboxSettings(docker_host=host), tasks)
        try:
            yield backend
        finally:
            await backend.aclose()
            tasks.cancel_scope.cancel()


async def fetch(backend: DockerBackend) -> None:
    """Make a first box, and fetch the packages. Skips the tests if pip cannot fetch them."""
    await (await backend.create(BoxSpec())).destroy()
    assert backend.packages is not None
    try:
        await backend.packages.fetch()
    except PackagesUnavailable as error:
        if "pip could not fetch" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="module")
async def backend(docker_host: str) -> AsyncIterator[DockerBackend]:
    async with opened(docker_host) as backend:
        await fetch(backend)
        yield backend


@pytest.fixture
async def box(backend: Backend) -> AsyncIterator[Box]:
    box = await backend.create(BoxSpec())
    yield box
    await box.destroy()


class TestDockerPackages(PackageConformance):
    pass


# An image that has one of the packages too


@asynccontextmanager
async def image_of(host: str, name: str, *steps: str) -> AsyncIterator[None]:
    """Make an image from the tests' image with these steps of a Dockerfile. The image is removed
    when the block ends."""
    text = "\n".join(("FROM nekro-box/python", *steps)).encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    context.seek(0)
    engine = await DockerEngine.connect(host, build=True)

    def build() -> list[str]:
        said = engine.client.build(
            fileobj=context,
            custom_context=True,
            tag=f"nekro-box/{name}",
            rm=True,
            network_mode="none",
            decode=True,
        )
        return [line["error"] for line in said if "error" in line]

    try:
        assert await engine.ask(build) == []
        yield
    finally:
        await engine.ask(engine.client.remove_image, f"nekro-box/{name}", force=True)
        engine.close()


OWN_SYMPY = """RUN python3 -c "import os, site; \
folder = site.getsitepackages()[-1]; os.makedirs(folder, exist_ok=True); \
open(folder + '/sympy.py', 'w').write('own = 1')" """


async def test_packages_of_the_image_come_first(backend: DockerBackend, docker_host: str) -> None:
    async with image_of(docker_host, "own-packages", OWN_SYMPY):
        box = await backend.create(BoxSpec(template="own-packages"))
        look = "import sympy, numpy; print(sympy.own, int(numpy.arange(4).sum()))"
        assert (await play(box, look)).output == "1 6\n"
        done = await box.execute(["python3", "-c", look])
        assert (done.stdout.text, done.stderr.text) == ("1 6\n", "")
        await box.destroy()


# Engines on other machines, and later starts


async def test_a_later_start_finds_the_packages_in_the_engine(
    backend: DockerBackend, docker_host: str
) -> None:
    async with far_engine(docker_host) as far, opened(far.address) as later:
        box = await later.create(BoxSpec())
        assert later.packages is not None
        assert later.packages.names == NAMES
        assert (await play(box, "import numpy\nprint(numpy.arange(4).sum())")).output == "6\n"


async def test_a_setting_switches_the_packages_off(docker_host: str) -> None:
    async with anyio.create_task_group() as tasks:
        settings = SandboxSettings(docker_host=docker_host, packages=False)
        without = DockerBackend(settings, tasks)
        box = await without.create(BoxSpec())
        assert without.packages is None
        look = f"import os\nprint(os.path.exists('{PLACE}/.complete'), 'PYTHONPATH' in os.environ)"
        assert (await play(box, look)).output == "False False\n"
        await without.aclose()
        tasks.cancel_scope.cancel()


# Another version of Python


@pytest.mark.slow
async def test_an_image_with_another_python_gets_packages_for_it(
    backend: DockerBackend, docker_host: str
) -> None:
    own = await backend.create(BoxSpec())
    told = (await play(own, "import sys\nprint(*sys.version_info[:2])")).output.split()
    await own.destroy()
    found = find_other_python((int(told[0]), int(told[1])))
    if found is None:
        pytest.skip("this machine has no second Python of 3.10 to 3.13 with a folder of its own")
    prefix, version = found
    await give_other_image(docker_host, prefix, version)
    box = await backend.create(BoxSpec(template=NAME))
    tag = packages_tag(version, backend_machine(docker_host))
    complete = f"import os\nprint(os.path.exists('{PLACE}/.complete'))"
    with anyio.fail_after(1700):
        while (await play(box, complete)).output != "True\n":
            failure = failure_of(packages_parent(), tag)
            if "pip could not fetch" in failure:
                pytest.skip(failure)
            assert not failure, failure
            await anyio.sleep(0.5)
    look = "import sys, numpy, pandas; print(*sys.version_info[:2], int(numpy.arange(4).sum()))"
    wanted = "{} {} 6\n".format(*version)
    assert (await play(box, look)).output == wanted, "the box is older than its packages"
    done = await box.execute(["python3", "-c", look])
    assert (done.stdout.text, done.stderr.text) == (wanted, "")
    # The image also has the Python of the tests' image. That Python must not get these packages,
    # which were made for another version of Python.
    done = await box.execute(["/usr/bin/python3", "-c", "import numpy"])
    assert "No module named 'numpy'" in done.stderr.text
    await box.destroy()


def backend_machine(host: str) -> str:
    """Return the processor architecture of the machine on which the engine runs."""
    from docker.api.client import APIClient  # noqa: PLC0415

    client = APIClient(host, version="auto")
    try:
        return str(client.info()["Architecture"])
    finally:
        client.close()


# Filling a volume

VOLUME = "nekro-tests-packages"


def small_packages(folder: Path, **changed: str) -> Path:
    """Make packages that have the names of the real ones, and modules that do nothing. ``changed``
    gives the source of some modules by the name of the package."""
    for name in (*NAMES, "matplotlib/backends"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(changed.get(name, "x = 1\n"))
    (folder / "matplotlib" / "pyplot.py").write_text("")
    (folder / "matplotlib" / "backends" / "backend_agg.py").write_text("")
    return folder


@pytest.fixture
async def filling(docker_host: str) -> AsyncIterator[tuple[DockerEngine, GuestImage]]:
    """An engine and its image. The tests fill the volume `VOLUME`, which is removed at the end."""
    engine = await DockerEngine.connect(docker_host)
    try:
        image = await ImageResolver(engine, {}, box_labels("")).choose("python")
        yield engine, image
        with anyio.fail_after(30):
            while any(VOLUME in str(each["Names"]) for each in engine.client.containers(all=True)):
                await anyio.sleep(0.1)
        await engine.ask(engine.client.remove_volume, VOLUME, force=True)
    finally:
        engine.close()


async def fill(to: tuple[DockerEngine, GuestImage], folder: Path) -> None:
    engine, image = to
    await fill_volume(engine, image, VOLUME, folder, labels=box_labels(""), processors=1)


def shown(to: tuple[DockerEngine, GuestImage]) -> set[str]:
    """Return the names of the files and folders that boxes see at the top of the volume."""
    engine, image = to
    mount = {"Type": "volume", "Source": VOLUME, "Target": PLACE}
    made = engine.client.create_container_from_config(  # type: ignore[no-untyped-call]
        {"Image": image.image_id, "Cmd": ["true"], "HostConfig": {"Mounts": [mount]}}
    )
    try:
        pieces, _ = engine.client.get_archive(made["Id"], PLACE)
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
            return {name.split("/")[1] for name in archive.getnames() if "/" in name}
    finally:
        engine.client.remove_container(made["Id"], force=True)


async def test_boxes_do_not_see_packages_that_do_not_work(
    filling: tuple[DockerEngine, GuestImage], tmp_path: Path
) -> None:
    broken = small_packages(
        tmp_path / "broken", lxml="raise ImportError('libstdc++.so.6: cannot open')"
    )
    with pytest.raises(PackagesUnavailable, match=r"libstdc\+\+.*nekro sandbox image"):
        await fill(filling, broken)
    assert shown(filling) == set()
    await fill(filling, small_packages(tmp_path / "good"))
    assert shown(filling) == {*NAMES, "startup", ".complete"}


async def test_a_volume_of_an_earlier_list_is_removed_unless_a_container_uses_it(
    docker_host: str,
) -> None:
    engine = await DockerEngine.connect(docker_host)
    client = engine.client
    # No list of packages is for this Python, so no other test has these volumes.
    old, used, present = (f"nekro-box-packages-cp20-x86_64-{each * 12}" for each in "abc")
    try:
        for volume in (old, used):
            client.create_volume(volume)
        image = await ImageResolver(engine, {}, box_labels("")).choose("python")
        mount = packages_mount(used, read_only=True)
        made = client.create_container_from_config(  # type: ignore[no-untyped-call]
            {"Image": image.image_id, "Cmd": ["true"], "HostConfig": {"Mounts": [mount]}}
        )
        client.create_volume(present)
        try:
            assert await remove_old_volumes(engine, "c" * 12) == 1
            here = {each["Name"] for each in client.volumes()["Volumes"]}
            assert here >= {used, present}
            assert old not in here
        finally:
            client.remove_container(made["Id"], force=True)
        assert await remove_old_volumes(engine, "c" * 12) == 1
        assert used not in {each["Name"] for each in client.volumes()["Volumes"]}
    finally:
        client.remove_volume(present, force=True)
        engine.close()


async def test_two_bots_fill_a_volume_one_after_the_other(
    filling: tuple[DockerEngine, GuestImage], tmp_path: Path
) -> None:
    folder = small_packages(tmp_path / "packages")
    async with anyio.create_task_group() as bots:
        bots.start_soon(fill, filling, folder)
        bots.start_soon(fill, filling, folder)
    assert shown(filling) == {*NAMES, "startup", ".complete"}


async def test_a_cancelled_fill_leaves_no_container_and_no_complete_volume(
    filling: tuple[DockerEngine, GuestImage], tmp_path: Path
) -> None:
    slow = small_packages(tmp_path / "packages", numpy="import time\ntime.sleep(60)\n")
    engine, _ = filling
    async with anyio.create_task_group() as bot:
        bot.start_soon(fill, filling, slow)
        with anyio.fail_after(30):
            while not any(VOLUME in str(each["Names"]) for each in engine.client.containers()):
                await anyio.sleep(0.05)
        await anyio.sleep(1)
        bot.cancel_scope.cancel()
    assert not any(VOLUME in str(each["Names"]) for each in engine.client.containers(all=True))
    assert ".complete" not in shown(filling)
    await fill(filling, small_packages(tmp_path / "again"))
    assert shown(filling) == {*NAMES, "startup", ".complete"}
