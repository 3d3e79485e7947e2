"""Containers of a real Docker engine pass the suite for backends."""

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from docker.api.client import APIClient

from nekro_core.sandbox.box import (
    Answer,
    Backend,
    BackendUnavailable,
    Box,
    BoxConnectionError,
    BoxLost,
    GuestCall,
    GuestFunction,
    ImageUnavailable,
    RunLimits,
    StopReason,
)
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.docker.build import build_on
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.attacks.attack import Attack
from tests.sandbox.attacks.campaign import Outcome
from tests.sandbox.attacks.suite import AttackSuite, carry_out_chosen
from tests.sandbox.conformance import BackendConformance
from tests.sandbox.conftest import SMALL
from tests.sandbox.docker.remote_engine import far_engine, make_certificates
from tests.sandbox.reused_boxes import ReusableBoxes, reusable_boxes
from tests.sandbox.run_code import Tools, play
from tests.sandbox.test_uploads import fill

pytestmark = [pytest.mark.docker, pytest.mark.long]


@pytest.fixture(scope="module")
async def reusable(docker: Backend) -> AsyncIterator[ReusableBoxes]:
    async with reusable_boxes(docker) as opened:
        yield opened


@pytest.fixture
async def box(reusable: ReusableBoxes) -> AsyncIterator[Box]:
    taken = await reusable.take()
    yield taken
    await reusable.give_back(taken)


@pytest.fixture(scope="module")
async def used_box(reusable: ReusableBoxes) -> AsyncIterator[Box]:
    taken = await reusable.take()
    yield taken
    await reusable.give_back(taken)


class TestDocker(BackendConformance):
    @pytest.fixture
    def backend(self, docker: Backend) -> Backend:
        return docker


@pytest.fixture(scope="module")
async def outcomes(
    reusable: ReusableBoxes, request: pytest.FixtureRequest
) -> Mapping[Attack, Outcome]:
    return await carry_out_chosen(reusable.backend, request, reusable)


class TestAttacks(AttackSuite):
    pass


# Processes that the kernel killed for memory


@pytest.mark.parametrize("then", ["run", "command"])
async def test_an_earlier_kill_for_memory_does_not_end_later_runs_or_commands(
    box: Box, then: str
) -> None:
    hungry = """
        import os, time
        for _ in range(2):
            if os.fork() == 0:
                kept = bytearray(b"x") * (150 * 1024 * 1024)
                time.sleep(60)
        print(os.wait()[1])
    """
    killed = await play(box, hungry)
    assert killed.output == "9\n" or killed.stop is StopReason.OUT_OF_MEMORY, killed
    if then == "run":
        later = await play(box, "import time\ntime.sleep(1)\nprint('well')")
        assert (later.output, later.stop) == ("well\n", StopReason.FINISHED), later
    else:
        assert (await box.execute("sleep 1; echo well")).stdout.text == "well\n"


# What containers leave behind


def containers(host: str) -> list[dict[str, Any]]:
    client = APIClient(host, version="auto")
    try:
        found: list[dict[str, Any]] = client.containers(all=True, filters={"label": "nekro.box"})
        return found
    finally:
        client.close()


async def until_gone(host: str, known: set[str]) -> None:
    with anyio.fail_after(30):
        while {each["Id"] for each in containers(host)} - known:
            await anyio.sleep(0.05)


async def test_nothing_is_left_of_destroyed_boxes(docker_host: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    settings = SandboxSettings(docker_host=docker_host, runtime_dir=tmp_path)
    known = {each["Id"] for each in containers(docker_host)}
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    async with anyio.create_task_group() as tasks:
        backend = DockerBackend(settings, tasks)
        boxes = [await backend.create(SMALL) for _ in range(3)]
        await boxes[0].write_file("/app/uploads/x", b"x")
        run = await boxes[0].start_run([], Tools({}).handle)
        await run.feed("import time\ntime.sleep(1000)\n", 1)
        await boxes[0].destroy()
        assert (await run.finish()).stop is StopReason.DIED
        await boxes[1].execute("sleep 1000 &")
        await boxes[1].destroy()
        await boxes[2].destroy()
        last = await backend.create(SMALL)
        await backend.aclose()
        assert not last.alive
        tasks.cancel_scope.cancel()
    await until_gone(docker_host, known)
    assert not list(tmp_path.iterdir())
    with anyio.fail_after(30):  # the event loop closes some objects late
        while len(list(Path("/proc/self/fd").iterdir())) > descriptors:
            await anyio.sleep(0.05)


async def test_the_uploads_of_all_containers_together_are_limited(docker_host: str) -> None:
    settings = SandboxSettings(docker_host=docker_host, uploads_mb=2)
    async with anyio.create_task_group() as tasks:
        backend = DockerBackend(settings, tasks)
        try:
            await fill(backend)
        finally:
            await backend.aclose()
            tasks.cancel_scope.cancel()


BOT = """
import anyio, sys
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.docker.container import container_config
from nekro_core.sandbox.docker.users import BoxUserIds
from nekro_core.sandbox.settings import SandboxSettings

async def main():
    async with anyio.create_task_group() as tasks:
        backend = DockerBackend(SandboxSettings(docker_host=sys.argv[1]), tasks)
        box = await backend.create(SandboxSettings().spec)
        async def never(call): ...
        run = await box.start_run([], never)
        await run.feed("while True: pass\\n", 1)
        prepared = backend._prepared
        image = await prepared.images.choose("python")
        config = container_config(image=image, spec=box.spec, users=BoxUserIds(70000, 70001),
            labels=prepared.launcher._labels, processors=1)
        await prepared.engine.ask(prepared.engine.client.create_container_from_config, config)
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


TWENTY = """
import anyio, sys
from nekro_core.sandbox.box import GuestFunction
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.settings import SandboxSettings
from pathlib import Path
from tests.sandbox.conftest import SMALL
from tests.sandbox.jail.test_lifecycle import BUSY

async def main():
    async with anyio.create_task_group() as tasks:
        settings = SandboxSettings(docker_host=sys.argv[1], runtime_dir=Path(sys.argv[2]))
        backend = DockerBackend(settings, tasks)
        waiting = anyio.Semaphore(0)
        async def handler(call):
            waiting.release()
            await anyio.sleep_forever()
        for number in range(20):
            box = await backend.create(SMALL)
            await box.write_file("/app/uploads/a.txt", b"of a chat")
            run = await box.start_run([GuestFunction(names=("ready",))], handler)
            await run.feed(BUSY[number % len(BUSY)], 1)
        for _ in range(20):
            await waiting.acquire()
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.slow
async def test_the_next_start_removes_twenty_busy_boxes_of_a_killed_bot(
    docker_host: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o711)
    known = {each["Id"] for each in containers(docker_host)}
    words = [sys.executable, "-c", TWENTY, docker_host, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as bot:
        try:
            assert bot.stdout is not None
            assert await anyio.to_thread.run_sync(bot.stdout.readline) == b"ready\n"
            made = {each["Id"] for each in containers(docker_host)} - known
        finally:
            began = time.monotonic()
            bot.kill()
    settings = SandboxSettings(docker_host=docker_host, runtime_dir=tmp_path)
    async with anyio.create_task_group() as tasks:
        next_start = DockerBackend(settings, tasks)
        await next_start.images()
        left = [each for each in containers(docker_host) if each["Id"] not in known]
        seconds = time.monotonic() - began
        await next_start.aclose()
        tasks.cancel_scope.cancel()
    assert left == []
    assert not list(tmp_path.rglob("*"))
    groups = [path.name for path in Path("/sys/fs/cgroup").glob("**/docker/*") if path.is_dir()]
    assert len(made) >= 20
    assert not made.intersection(groups), (
        "the cgroups of these boxes must be gone; other tests may have cgroups"
    )
    print(f"the next start found and removed 20 busy boxes; {seconds:.1f} s after kill -9")


async def test_after_a_bot_is_killed_nothing_is_left_behind(docker_host: str) -> None:
    known = {each["Id"] for each in containers(docker_host)}
    with subprocess.Popen([sys.executable, "-c", BOT, docker_host], stdout=subprocess.PIPE) as bot:
        try:
            assert bot.stdout is not None
            assert await anyio.to_thread.run_sync(bot.stdout.readline) == b"ready\n"
            async with anyio.create_task_group() as tasks:
                beside = DockerBackend(SandboxSettings(docker_host=docker_host), tasks)
                await beside.images()  # this removes orphans, but no containers of a living bot
                await beside.aclose()
                tasks.cancel_scope.cancel()
            left = [each for each in containers(docker_host) if each["Id"] not in known]
            assert sorted(each["State"] for each in left) == ["created", "running"]
        finally:
            bot.kill()
    # The supervisor of a busy container also notices that its bot has ended.
    with anyio.fail_after(30):
        while any(
            each["State"] == "running" and each["Id"] not in known
            for each in containers(docker_host)
        ):
            await anyio.sleep(0.05)
    async with anyio.create_task_group() as tasks:
        next_start = DockerBackend(SandboxSettings(docker_host=docker_host), tasks)
        await next_start.images()
        await next_start.aclose()
        tasks.cancel_scope.cancel()
    await until_gone(docker_host, known)


# Images


async def test_an_image_without_python_is_refused(docker: Backend, docker_host: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as opened:
        opened.addfile(tarfile.TarInfo("empty"))
    client = APIClient(docker_host, version="auto")
    client.import_image_from_data(archive.getvalue(), repository="nekro-box/empty", tag="latest")
    try:
        with pytest.raises(ImageUnavailable, match="no python3, and boxes need"):
            await docker.create(replace(SMALL, template="empty"))
        assert "python" in await docker.images()
    finally:
        client.remove_image("nekro-box/empty", force=True)
        client.close()


@pytest.mark.parametrize("name", ["node:22", "../../etc", "UPPER CASE", "", "x" * 500, "a:b:c"])
async def test_a_missing_image_is_refused(docker: Backend, name: str) -> None:
    with pytest.raises(ImageUnavailable) as caught:
        await docker.create(replace(SMALL, template=name))
    assert "python" in caught.value.available


async def test_only_images_that_the_operator_named_are_used_for_boxes(docker_host: str) -> None:
    client = APIClient(docker_host, version="auto")
    client.tag("nekro-box/python", "private-app", "1")
    try:
        async with anyio.create_task_group() as tasks:
            named = SandboxSettings(docker_host=docker_host, images={"app": "private-app:1"})
            for settings, there in (
                (SandboxSettings(docker_host=docker_host), False),
                (named, True),
            ):
                backend = DockerBackend(settings, tasks)
                assert ("private-app:1" in await backend.images()) is there
                if not there:
                    with pytest.raises(ImageUnavailable):
                        await backend.create(replace(SMALL, template="private-app:1"))
                await backend.aclose()
            tasks.cancel_scope.cancel()
    finally:
        client.remove_image("private-app:1", force=False)
        client.close()


# Uploads


async def test_uploads_are_changed_only_by_the_host(box: Box) -> None:
    await box.write_file("/app/uploads/pic/a.png", b"one")
    attack = """
        import os, shutil, subprocess
        def tried(action):
            try:
                action()
            except OSError:
                return
            print("NOT HELD")
        path = "/app/uploads/pic/a.png"
        for action in (
            lambda: os.chmod(path, 0o666), lambda: os.unlink(path), lambda: open(path, "ab"),
            lambda: os.rename("/app/uploads/pic", "/app/uploads/x"),
            lambda: os.rename("/app/uploads", "/app/x"), lambda: os.mkdir("/app/uploads/x"),
            lambda: os.link(path, "/app/uploads/l"), lambda: os.chmod("/app/uploads", 0o777),
            lambda: os.chown(path, os.getuid(), -1), lambda: os.utime(path),
            lambda: os.symlink("/home/user", "/app/uploads/s"),
        ):
            tried(action)
        print(open(path).read())
    """
    assert (await play(box, attack)).output == "one\n"
    await box.write_file("/app/uploads/pic/a.png", b"two")
    assert (await play(box, "print(open('/app/uploads/pic/a.png').read())")).output == "two\n"


async def test_an_upload_works_while_code_uses_up_all_processes(box: Box) -> None:
    run = await box.start_run([], Tools({}).handle, RunLimits(seconds=30))
    bomb = "import os, time\nwhile True:\n    try:\n        if not os.fork(): time.sleep(99)\n"
    await run.feed(f"{bomb}    except OSError: time.sleep(0.1)\n", 1)
    await anyio.sleep(0.3)
    await box.write_file("/app/uploads/late", b"x" * 100_000)
    await run.cancel()
    look = "import os\nprint(os.path.getsize('/app/uploads/late'))"
    assert (await play(box, look)).output == "100000\n"


# Engines on other machines


@asynccontextmanager
async def box_on(address: str) -> AsyncIterator[Box]:
    async with anyio.create_task_group() as tasks:
        backend = DockerBackend(SandboxSettings(docker_host=address), tasks)
        yield await backend.create(SMALL)
        await backend.aclose()
        tasks.cancel_scope.cancel()


async def talk(box: Box) -> None:
    """Send everything over the stream that it can carry: code, calls, files in both directions,
    uploads, connections."""
    data = os.urandom(3_000_000)
    await box.write_file("data", data)
    assert await box.read_file("data", limit=len(data)) == data
    assert (await play(box, "print(double(21))", double=lambda call: call.args[0] * 2)).output == (
        "42\n"
    )
    await box.write_file("/app/uploads/x", data[:200_000])
    served = await box.execute("python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &")
    assert served.exit_code == 0
    with anyio.fail_after(30):
        while True:
            try:
                connection = await box.connect(8123)
                break
            except BoxConnectionError:
                await anyio.sleep(0.1)
    async with connection:
        await connection.send(b"GET /data HTTP/1.0\r\n\r\n")
        answer = b"".join([piece async for piece in connection])
    assert answer.endswith(data)


@pytest.mark.parametrize("encrypted", [False, True], ids=["tcp", "tls"])
async def test_a_box_on_an_engine_of_another_machine_works(
    docker_host: str, encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_certificates(tmp_path) if encrypted else None
    if encrypted:
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    async with far_engine(docker_host, context) as far, box_on(far.address) as box:
        await talk(box)


async def test_an_engine_that_disappears_during_a_call_loses_its_boxes_and_may_return(
    docker_host: str,
) -> None:
    async with far_engine(docker_host) as far, anyio.create_task_group() as tasks:
        backend = DockerBackend(SandboxSettings(docker_host=far.address), tasks)
        box = await backend.create(SMALL)
        called = anyio.Event()

        async def handler(call: GuestCall) -> Answer:
            called.set()
            await anyio.sleep_forever()
            raise AssertionError

        run = await box.start_run([GuestFunction(names=("tool",))], handler)
        await run.feed("tool()\n", 1)
        await called.wait()
        far.disappear()
        with anyio.fail_after(30):
            result = await run.finish()
        assert (result.stop, box.alive) == (StopReason.DIED, False)
        assert "the box was lost" in result.error
        with pytest.raises(BoxLost):
            await box.write_file("/app/uploads/x", b"x")
        with pytest.raises(BackendUnavailable, match="no answer from an engine"):
            await backend.create(SMALL)
        far.reachable = True
        again = await backend.create(SMALL)
        assert (await play(again, "print('back')")).output == "back\n"
        await backend.aclose()
        tasks.cancel_scope.cancel()


# Making an image


async def test_an_image_is_made_from_another_without_a_registry(docker_host: str) -> None:
    engine = await DockerEngine.connect(docker_host, build=True)
    said: list[str] = []
    try:
        made = await build_on(engine, "derived:1", "nekro-box/python", said.append)
        assert made.has_shared
        assert any("Successfully built" in line for line in said)
        with pytest.raises(BackendUnavailable, match="could not be built"):
            await build_on(engine, "derived:2", "127.0.0.1:1/nothing", said.append)
    finally:
        await engine.ask(engine.client.remove_image, "nekro-box/derived:1", force=True)
        engine.close()
