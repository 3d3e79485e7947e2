"""Finds or starts a Docker engine, and measures how long Docker's own client takes to run an empty
program. Other figures are compared with this time."""

import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import anyio

from bench.figure import Figure, percentiles
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.docker.engine import give_image, running_engine

_IMAGE = "nekro-box/python"
_EMPTY = ("python3", "-I", "-S", "-c", "")
_TIMES = 10


def docker_run(host: str) -> Figure:
    """Measure how long it takes to run an empty program in a new container."""
    return _timed(host, "docker run --rm", "run", "--rm", "--network=none", _IMAGE)


def docker_exec(host: str) -> Figure:
    """Measure how long it takes to run an empty program in an existing container."""
    options = ("--detach", "--rm", "--network=none", _IMAGE, "sleep", "600")
    container = _docker(host, "run", *options)
    try:
        return _timed(host, "docker exec", "exec", container)
    finally:
        _docker(host, "kill", container)


def _timed(host: str, name: str, *command: str) -> Figure:
    samples = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        _docker(host, *command, *_EMPTY)
        samples.append((time.perf_counter() - began) * 1000)
    p50, p99 = percentiles(samples)
    return Figure(name=name, unit="ms", p50=p50, p99=p99)


def _docker(host: str, *command: str) -> str:
    done = subprocess.run(
        ["docker", *(("--host", host) if host else ()), *command],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@asynccontextmanager
async def find_or_start_engine() -> AsyncIterator[str]:
    """Yield the address of an engine. The address is ``""`` if an engine with an image for boxes
    runs already; otherwise an engine is started here. Raises `NoEngine`."""
    async with anyio.create_task_group() as tasks:
        there = DockerBackend(SandboxSettings(), tasks)
        checked = await there.self_check()
        await there.aclose()
        tasks.cancel_scope.cancel()
    if checked.ok:
        yield ""
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        host = stack.enter_context(running_engine(folder / "engine"))
        await give_image(host)
        yield host
