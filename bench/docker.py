"""Measures boxes in containers, compared with the Docker engine's own client on the same machine.

Of the target values in `bench.sandbox`, only the one for pooled boxes applies to containers. A
running engine is used if it has an image for boxes. Otherwise an engine is started, if ``dockerd``
is installed and the benchmark runs as root.
"""

import dataclasses
import time
from collections.abc import AsyncIterator

import anyio
from docker.api.client import APIClient

from bench import idle_boxes
from bench.engine import docker_exec, docker_run, find_or_start_engine
from bench.figure import Figure, percentiles
from bench.sandbox import FUNCTIONS, ON_ANY_BACKEND, fetch_packages, pooled_without_packages
from nekro_core.sandbox.box import BoxSpec
from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.docker.engine import NoEngine

_TIMES = 10
_IDLE = 30
"""Number of containers that run code before the memory of idle boxes is measured."""


async def figures() -> list[Figure]:
    """Measure every figure of this module. Returns an empty list if there is no engine."""
    try:
        async with find_or_start_engine() as host, anyio.create_task_group() as tasks:
            backend = DockerBackend(SandboxSettings(docker_host=host), tasks)
            bare = DockerBackend(SandboxSettings(docker_host=host, packages=False), tasks)
            try:
                await fetch_packages(backend)
                found = [figure async for figure in _measured(backend, host)]
                found.append(await pooled_without_packages(bare))
                for each, words in ((backend, "with packages"), (bare, "without packages")):
                    found.append(await _idle(each, host, words))
                return found
            finally:
                await bare.aclose()
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
        figure = await measure(backend)
        if name != "pooled":
            figure = dataclasses.replace(figure, target=None)
        if neighbour := neighbours.get(name):
            figure = dataclasses.replace(figure, floor_name=neighbour.name, floor=neighbour.p50)
        yield figure
    yield await _upload(backend)


async def _idle(backend: DockerBackend, host: str, words: str) -> Figure:
    """Measure the memory that boxes use one second after their run: the memory of their processes,
    and of the shim process with which the engine runs each container. The engine must run on this
    machine, because the processes are read from ``/proc``."""
    client = APIClient(host or None, version="auto")
    options = {"all": False, "filters": {"label": "nekro.box"}}
    known = {each["Id"] for each in client.containers(**options)}
    boxes = [await backend.create(BoxSpec()) for _ in range(_IDLE)]
    for box in boxes:
        await idle_boxes.first_call(box, FUNCTIONS)
    await anyio.sleep(idle_boxes.REST_S)
    made = {each["Id"] for each in client.containers(**options)} - known
    pids = [client.inspect_container(each)["State"]["Pid"] for each in made]
    client.close()
    boxes_bytes = idle_boxes.pss(one for pid in pids for one in idle_boxes.descendants(pid))
    shims_bytes = idle_boxes.pss(idle_boxes.parent(pid) for pid in pids)
    for box in boxes:
        await box.destroy()
    return Figure(
        name=f"idle boxes per GB, {words}",
        unit="boxes",
        p50=2**30 * _IDLE / (boxes_bytes + shims_bytes),
        floor=2**30 * _IDLE / shims_bytes,
        floor_name="shims alone",
        more_is_better=True,
    )


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
