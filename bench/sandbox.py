"""Boxes: how long until code acts, what a tool call costs, how soon a box is there."""

import asyncio
import itertools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from bench.figure import Figure, percentiles
from nekro_core.sandbox.backends import make_backends
from nekro_core.sandbox.box import (
    Answer,
    Backend,
    Box,
    BoxSpec,
    GuestCall,
    GuestFunction,
    StopReason,
    Value,
)
from nekro_core.sandbox.pool import BoxPool
from nekro_core.sandbox.settings import SandboxSettings

_FUNCTIONS = [
    GuestFunction(names=(f"tool_{number}", f"room.tool_{number}"), doc="What a tool does. " * 20)
    for number in range(20)
]
_SPEC = BoxSpec()


async def figures() -> list[Figure]:
    """Every figure of this room."""
    async with anyio.create_task_group() as tasks:
        (backend, *_) = make_backends(SandboxSettings(), tasks)
        try:
            found = [
                await _pooled(backend),
                await _used(backend),
                await _round_trip(backend),
                await _cold(backend),
                await _killed(backend),
            ]
        finally:
            await backend.aclose()
            tasks.cancel_scope.cancel()
    return found


async def _first_call(box: Box) -> float:
    """Milliseconds from handing code over to its first tool call."""
    called: list[float] = []

    async def handler(_: GuestCall) -> Answer:
        called.append(time.perf_counter())
        return Value(None)

    began = time.perf_counter()
    run = await box.start_run(_FUNCTIONS, handler)
    await run.feed("tool_1('hello')\n", 1)
    result = await run.finish()
    assert result.stop is StopReason.FINISHED, result
    return (called[0] - began) * 1000


async def _pooled(backend: Backend) -> Figure:
    samples = []
    async with BoxPool(backend, _SPEC, 1) as pool:
        for _ in range(25):
            while pool.ready < 1:  # noqa: ASYNC110 - a measurement, not a protocol
                await anyio.sleep(0.05)
            await anyio.sleep(0.7)  # a box that waits has imported what it imports in idle time
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


async def _round_trip(backend: Backend) -> Figure:
    box = await backend.create(_SPEC)
    moments: list[float] = []

    async def handler(_: GuestCall) -> Answer:
        moments.append(time.perf_counter())
        return Value("sent")

    run = await box.start_run(_FUNCTIONS, handler)
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


async def _killed(backend: Backend) -> Figure:
    box = await backend.create(_SPEC)
    samples = []

    async def handler(_: GuestCall) -> Answer:
        return Value(None)

    for _ in range(20):
        run = await box.start_run(_FUNCTIONS, handler)
        await run.feed("while True:\n    pass\n", 1)
        await anyio.sleep(0.05)
        began = time.perf_counter()
        await run.cancel()
        samples.append((time.perf_counter() - began) * 1000)
    await box.destroy()
    return _figure("cancelled to killed", "ms", samples, 100, _fork())


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
    path = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    samples = _measure(10, lambda: subprocess.run([path, "-I", "-S", "-c", ""], check=True))
    return "interpreter start", percentiles(samples)[0] * 1000
