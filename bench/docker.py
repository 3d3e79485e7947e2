"""Boxes in containers, beside what the engine's own client does on the same machine.

The targets are the jail's (`bench.sandbox`); these figures have none. An engine that answers and
has an image for boxes is used; else one is started for this, where ``dockerd`` is installed and
root asks.
"""

import dataclasses
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import anyio

from bench.figure import Figure, percentiles
from bench.sandbox import ON_ANY_BACKEND
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.docker_engine import NoEngine, give_image, running_engine

_IMAGE = "nekro-box/python"
_EMPTY = ("python3", "-I", "-S", "-c", "")
_TIMES = 10


async def figures() -> list[Figure]:
    """Every figure of this room; none where no engine runs."""
    try:
        async with _engine() as host, anyio.create_task_group() as tasks:
            backend = DockerBackend(SandboxSettings(docker_host=host), tasks)
            try:
                return [figure async for figure in _measured(backend, host)]
            finally:
                await backend.aclose()
                tasks.cancel_scope.cancel()
    except NoEngine as reason:
        print(f"no figures of containers: {reason}")
        return []


async def _measured(backend: DockerBackend, host: str) -> AsyncIterator[Figure]:
    run = await anyio.to_thread.run_sync(_client, host, "run", "--rm", "--network=none", _IMAGE)
    executed = await anyio.to_thread.run_sync(_executed, host)
    neighbours = {"pooled": executed, "used": executed, "cold": run}
    for name, measure in ON_ANY_BACKEND.items():
        figure = dataclasses.replace(await measure(backend), target=None)
        if neighbour := neighbours.get(name):
            figure = dataclasses.replace(figure, floor_name=neighbour[0], floor=neighbour[1])
        yield figure
    yield await _upload(backend)


async def _upload(backend: DockerBackend) -> Figure:
    box = await backend.create(SandboxSettings().spec)
    samples = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        await box.write_file("/app/uploads/picture", b"x" * 1_000_000)
        samples.append((time.perf_counter() - began) * 1000)
    await box.destroy()
    p50, p99 = percentiles(samples)
    return Figure(name="an upload of 1 MB", unit="ms", p50=p50, p99=p99)


def _executed(host: str) -> tuple[str, float]:
    options = ("--detach", "--rm", "--network=none", _IMAGE, "sleep", "600")
    container = _docker(host, "run", *options)
    try:
        return _client(host, "exec", container)
    finally:
        _docker(host, "kill", container)


def _client(host: str, *command: str) -> tuple[str, float]:
    samples = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        _docker(host, *command, *_EMPTY)
        samples.append((time.perf_counter() - began) * 1000)
    return f"docker {command[0]}", percentiles(samples)[0]


def _docker(host: str, *command: str) -> str:
    done = subprocess.run(
        ["docker", *(("--host", host) if host else ()), *command],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@asynccontextmanager
async def _engine() -> AsyncIterator[str]:
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
