"""Measures boxes: the time until code makes its first call, the cost of a tool call, and the time
to get a box."""

import asyncio
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio

from bench import idle_boxes
from bench.engine import docker_exec, docker_run, find_or_start_engine
from bench.figure import Figure, percentiles
from bench.idle_boxes import PYTHON, first_call
from nekro_core.sandbox.box import (
    Answer,
    Backend,
    Box,
    BoxSpec,
    CallReturn,
    GuestCall,
    GuestFunction,
    RunLimits,
    StopReason,
)
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.package_fetch import PackagesUnavailable
from nekro_core.sandbox.pool import BoxPool
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.docker.engine import NoEngine

FUNCTIONS = [
    GuestFunction(names=(f"tool_{number}", f"room.tool_{number}"), doc="What a tool does. " * 20)
    for number in range(20)
]
_SPEC = BoxSpec()
_REST_S = 5.0


async def figures() -> list[Figure]:
    """Measure every figure of this module."""
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(rest_seconds=_REST_S), tasks)
        bare = JailBackend(SandboxSettings(packages=False), tasks)
        try:
            await fetch_packages(backend)
            found = [
                await _pooled(backend),
                await pooled_without_packages(bare),
                await _used(backend),
                await _kept(backend),
                await _round_trip(backend),
                await _cold(backend),
                await _come_and_go(backend),
                *await _numpy(backend),
                *await idle_boxes.of_boxes(backend, FUNCTIONS, _fork(), _REST_S),
                await _one_file(backend),
                await _tree(backend),
                await _cancelled(backend),
                await _out_of_time(backend),
            ]
        finally:
            await bare.aclose()
            await backend.aclose()
            tasks.cancel_scope.cancel()
    return [*found, *await idle_boxes.of_the_bot(), *await _neighbours()]


async def fetch_packages(backend: Backend) -> None:
    """Fetch the Python packages that boxes share, so that boxes are measured with these packages on
    their import path. If they cannot be fetched, print that."""
    await (await backend.create(_SPEC)).destroy()
    try:
        assert backend.packages is not None
        await backend.packages.fetch()
    except PackagesUnavailable as error:
        print(f"the boxes of {backend.name} have no packages on their path: {error}")


async def pooled_without_packages(backend: Backend) -> Figure:
    """Measure how long a pooled box takes if the settings of the backend switch the shared packages
    off."""
    figure = await _pooled(backend)
    return replace(figure, name="the same, boxes without packages on their path", target=None)


async def _first_call(box: Box, source: str = "tool_1('hello')\n", **options: bool) -> float:
    return await first_call(box, FUNCTIONS, source, **options)


async def _neighbours() -> list[Figure]:
    """Return baselines: how long `fork` and Docker take to run a program that does nothing."""
    name, forked = await asyncio.to_thread(_fork)
    found = [Figure(name=f"beside it: {name}, a program that does nothing", unit="ms", p50=forked)]
    try:
        async with find_or_start_engine() as host:
            for measure in (docker_exec, docker_run):
                figure = await asyncio.to_thread(measure, host)
                found.append(replace(figure, name=f"beside it: {figure.name}, the same"))
    except NoEngine as reason:
        print(f"no docker run and docker exec beside it: {reason}")
    return found


async def _pooled(backend: Backend) -> Figure:
    samples = []
    async with BoxPool(backend, _SPEC, 1) as pool:
        for _ in range(25):
            while pool.ready < 1:  # noqa: ASYNC110 - a benchmark may poll
                await anyio.sleep(0.05)
            await anyio.sleep(
                0.7
            )  # by then the spare box has finished the imports that it makes while it is idle
            began = time.perf_counter()
            box = await pool.take()
            taken = (time.perf_counter() - began) * 1000
            samples.append(taken + await _first_call(box))
            await box.destroy()
    return _figure("code handed over to first tool call, pooled box", "ms", samples, 4, _fork())


async def _used(backend: Backend) -> Figure:
    box = await backend.create(_SPEC)
    await anyio.sleep(1)
    samples = []
    for _ in range(200):
        samples.append(await _first_call(box))
        await anyio.sleep(0.01)
    await box.destroy()
    return _figure("the same in a box already used", "ms", samples, 2.5, _fork())


async def _kept(backend: Backend) -> Figure:
    box = await backend.create(_SPEC)
    samples = [await _first_call(box, keep_globals=True) for _ in range(210)][10:]
    await box.destroy()
    name, floor = await asyncio.to_thread(_socket_round_trip)
    return _figure("the same with globals kept", "ms", samples, 0.3, (name, floor / 1000))


async def _round_trip(backend: Backend) -> Figure:
    box = await backend.create(_SPEC)
    moments: list[float] = []

    async def handler(_: GuestCall) -> Answer:
        moments.append(time.perf_counter())
        return CallReturn("sent")

    run = await box.start_run(FUNCTIONS, handler)
    await run.feed("for n in range(1000):\n    tool_1('a line of text', n=n)\n", 1)
    await run.finish()
    await box.destroy()
    samples = [(b - a) * 1e6 for a, b in itertools.pairwise(moments[100:])]
    floor = await asyncio.to_thread(_socket_round_trip)
    return _figure("one tool call, guest to host to guest", "µs", samples, 150, floor)


async def _cold(backend: Backend) -> Figure:
    samples = []
    for _ in range(30):
        began = time.perf_counter()
        box = await backend.create(_SPEC)
        created = (time.perf_counter() - began) * 1000
        samples.append(created + await _first_call(box))
        await box.destroy()
    return _figure("box created cold to first tool call", "ms", samples, 60, _interpreter())


async def _come_and_go(backend: Backend) -> Figure:
    samples = []
    for _ in range(20):
        began = time.perf_counter()
        await (await backend.create(_SPEC)).destroy()
        samples.append((time.perf_counter() - began) * 1000)
    p50, p99 = percentiles(samples)
    name, floor = _interpreter()
    return Figure(
        name="box created and destroyed", unit="ms", p50=p50, p99=p99, floor=floor, floor_name=name
    )


async def _numpy(backend: Backend) -> list[Figure]:
    if "python-data" not in await backend.images():
        return []
    box = await backend.create(replace(_SPEC, template="python-data"))
    await anyio.sleep(3)
    source = "import numpy\ntool_1(int(numpy.arange(10).sum()))\n"
    samples = []
    for _ in range(30):
        samples.append(await _first_call(box, source))
        await anyio.sleep(0.03)
    await box.destroy()
    return [_figure("import numpy in a run, numpy preloaded", "ms", samples, 15, _fork())]


async def _one_file(backend: Backend) -> Figure:
    prepare = "with open('it', 'wb') as file:\n    for _ in range(256): file.write(bytes(2**20))\n"
    samples = await _transfers(backend, prepare, 256, 6)
    floor = await asyncio.to_thread(_shell, "cp {0}/it {0}/copy", _make_file, 256)
    return _rate("one file of 256 MB, box to box", samples, 1000, ("cp in memory", floor))


async def _tree(backend: Backend) -> Figure:
    prepare = (
        "import os\nos.mkdir('it')\nfor n in range(2000):\n"
        "    with open(f'it/{n}', 'wb') as file: file.write(os.urandom(36 * 1024))\n"
    )
    samples = await _transfers(backend, prepare, 72, 6)
    pipe = "mkdir {0}/copy; tar -C {0} -c it | tar -C {0}/copy -x"
    floor = await asyncio.to_thread(_shell, pipe, _make_tree, 72)
    return _rate("2,000 files of 72 MB, box to box", samples, 200, ("tar to tar in memory", floor))


async def _transfers(backend: Backend, prepare: str, megabytes: int, many: int) -> list[float]:
    """Measure ``many`` times how fast a file or folder is copied to another box, in MB/s. The code
    ``prepare`` runs in the first box. It must make the file or folder, with the name ``it``."""
    spec = replace(_SPEC, disk_bytes=600 * 1024**2)
    giver, taker = await backend.create(spec), await backend.create(spec)
    await _first_call(giver, f"{prepare}tool_1()\n")
    samples = []
    for _ in range(many):
        began = time.perf_counter()
        await taker.unpack("copy", giver.pack("it"))
        samples.append(megabytes / (time.perf_counter() - began))
        await taker.execute(["rm", "-rf", "/home/user/copy"])
    await giver.destroy()
    await taker.destroy()
    return samples


def _shell(command: str, prepare: Callable[[Path], None], megabytes: int) -> float:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        prepare(Path(folder))
        samples = _measure(
            1, lambda: subprocess.run(command.format(folder), shell=True, check=True)
        )
    return megabytes / samples[0]


def _make_file(folder: Path) -> None:
    (folder / "it").write_bytes(bytes(256 * 1024**2))


def _make_tree(folder: Path) -> None:
    (folder / "it").mkdir()
    for number in range(2000):
        (folder / "it" / str(number)).write_bytes(os.urandom(36 * 1024))


async def _nothing(_: GuestCall) -> Answer:
    return CallReturn(None)


async def _cancelled(backend: Backend) -> Figure:
    box = await backend.create(_SPEC)
    samples = []
    for _ in range(20):
        run = await box.start_run(FUNCTIONS, _nothing)
        await run.feed("while True:\n    pass\n", 1)
        await anyio.sleep(0.05)
        began = time.perf_counter()
        await run.cancel()
        samples.append((time.perf_counter() - began) * 1000)
    await box.destroy()
    return _figure("cancelled to killed", "ms", samples, 100, _fork())


async def _out_of_time(backend: JailBackend) -> Figure:
    """Measure the time from the time limit of a run until all its processes have ended."""
    box = await backend.create(_SPEC)
    samples = []
    for _ in range(20):
        run = await box.start_run(FUNCTIONS, _nothing, RunLimits(seconds=0.1))
        began = time.perf_counter()
        await run.feed("import os\nos.fork()\nwhile True: pass\n", 1)
        result = await run.finish()
        samples.append((time.perf_counter() - began - 0.1) * 1000)
        assert result.stop is StopReason.TIMEOUT
        assert len(backend.processes_of(box)) <= 3
    await box.destroy()
    return _figure("killed after its timeout, late by", "ms", samples, 100, _fork())


def _rate(name: str, samples: list[float], target: float, floor: tuple[str, float]) -> Figure:
    p50, _ = percentiles(samples)
    return Figure(
        name=name,
        unit="MB/s",
        p50=p50,
        floor=floor[1],
        floor_name=floor[0],
        target=target,
        more_is_better=True,
    )


def _figure(
    name: str, unit: str, samples: list[float], target: float, floor: tuple[str, float]
) -> Figure:
    p50, p99 = percentiles(samples)
    return Figure(
        name=name, unit=unit, p50=p50, p99=p99, floor=floor[1], floor_name=floor[0], target=target
    )


def _measure(many: int, once: Callable[[], object]) -> list[float]:
    samples = []
    for _ in range(many):
        began = time.perf_counter()
        once()
        samples.append(time.perf_counter() - began)
    return samples


def _fork() -> tuple[str, float]:
    command = (
        "import os, time\nfound = []\nfor _ in range(50):\n began = time.perf_counter()\n"
        " pid = os.fork()\n if not pid: os._exit(0)\n os.waitpid(pid, 0)\n"
        " found.append(time.perf_counter() - began)\nprint(sorted(found)[25] * 1000)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", command], capture_output=True, check=True
    )
    return "fork and wait", float(done.stdout)


def _socket_round_trip() -> tuple[str, float]:
    ours, theirs = socket.socketpair()

    def echo() -> None:
        while data := theirs.recv(4096):
            theirs.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()

    def once() -> None:
        ours.sendall(b"x" * 100)
        ours.recv(4096)

    samples = _measure(1000, once)
    ours.close()
    thread.join()
    theirs.close()
    return "unix socket there and back", percentiles(samples)[0] * 1e6


def _interpreter() -> tuple[str, float]:
    samples = _measure(10, lambda: subprocess.run([PYTHON, "-I", "-S", "-c", ""], check=True))
    return "interpreter start", percentiles(samples)[0] * 1000


ON_ANY_BACKEND = {
    "pooled": _pooled,
    "used": _used,
    "kept": _kept,
    "round trip": _round_trip,
    "cold": _cold,
    "one file": _one_file,
    "cancelled": _cancelled,
}
"""The measurements for every backend: each function takes a backend and returns a figure."""
