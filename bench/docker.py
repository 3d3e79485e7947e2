"""Measures boxes in containers, compared with the Docker engine's own client on the same machine.

Only the jail has targets (`bench.sandbox`); the figures of this module have none. A running engine
is used if it has an image for boxes. Otherwise an engine is started, if ``dockerd`` is installed
and the benchmark runs as root.
"""

import dataclasses
import time
from collections.abc import AsyncIterator

import anyio

from bench.engine import docker_exec, docker_run, find_or_start_engine
from bench.figure import Figure, percentiles
from bench.sandbox import ON_ANY_BACKEND
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.docker.engine import NoEngine

_TIMES = 10


async def figures() -> list[Figure]:
    """Every figure of this module; none if there is no engine."""
    try:
        async with find_or_start_engine() as host, anyio.create_task_group() as tasks:
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
    run = await anyio.to_thread.run_sync(docker_run, host)
    executed = await anyio.to_thread.run_sync(docker_exec, host)
    neighbours = {"pooled": executed, "used": executed, "cold": run}
    for name, measure in ON_ANY_BACKEND.items():
        figure = dataclasses.replace(await measure(backend), target=None)
        if neighbour := neighbours.get(name):
            figure = dataclasses.replace(figure, floor_name=neighbour.name, floor=neighbour.p50)
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
