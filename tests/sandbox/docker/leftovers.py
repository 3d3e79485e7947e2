"""Makes and destroys many containers, and checks what they leave on this machine.

``python -m tests.sandbox.docker.leftovers 100`` needs root and ``dockerd``. It takes about half a
second for each box.
"""

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import anyio
from docker.api.client import APIClient

from nekro_core.sandbox.docker.backend import DockerBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.docker.engine import NoEngine, give_image, running_engine
from tests.sandbox.jail.leftovers import come_and_go

_SETTLING_S = 20
"""How long the engine may clean up after it has reported that a container is removed."""


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Counts of what containers could leave behind."""

    containers: int
    volumes: int
    mounts: int
    groups: int
    fd_sockets: int
    shims: int

    @classmethod
    def of(cls, host: str, folder: Path) -> "Traces":
        client = APIClient(host, version="auto")
        try:
            containers = len(client.containers(all=True))
            volumes = len(client.volumes()["Volumes"] or ())
        finally:
            client.close()
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        commands = (path / "cmdline" for path in Path("/proc").iterdir() if path.name.isdigit())
        return cls(
            containers=containers,
            volumes=volumes,
            mounts=sum(str(folder) in line for line in mounts),
            groups=sum(path.is_dir() for path in Path("/sys/fs/cgroup").glob("**/docker/*")),
            fd_sockets=sum(1 for _ in (folder / "fd_sockets").rglob("*")),
            shims=sum(str(folder).encode() in _read(path) for path in commands),
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def _main(count: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "fd_sockets").mkdir()
        try:
            with running_engine(folder / "engine") as host:
                await give_image(host)
                return await _count(host, folder, count)
        except NoEngine as reason:
            print(f"not tried with containers: {reason}")
            return 0


async def _count(host: str, folder: Path, count: int) -> int:
    settings = SandboxSettings(docker_host=host, runtime_dir=folder / "fd_sockets")
    descriptors = _descriptors()
    async with anyio.create_task_group() as tasks:
        backend = DockerBackend(settings, tasks)
        await come_and_go(backend, 8)  # opens connections that the backend keeps for later calls
        await anyio.sleep(2)
        before = Traces.of(host, folder)
        began = time.monotonic()
        await come_and_go(backend, count)
        seconds = time.monotonic() - began
        deadline = time.monotonic() + _SETTLING_S
        while (after := Traces.of(host, folder)) != before and time.monotonic() < deadline:
            await anyio.sleep(0.5)
        await backend.aclose()
        tasks.cancel_scope.cancel()
    print(f"{count} boxes in {seconds:.0f} s, {seconds / count * 1000:.0f} ms each")
    more = _descriptors() - descriptors
    if after == before and more <= 0:
        print("nothing is left")
        return 0
    print(f"{more} more descriptors\nbefore: {before}\nafter: {after}")
    return 1


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


if __name__ == "__main__":
    sys.exit(anyio.run(_main, int(sys.argv[1]) if len(sys.argv) > 1 else 100))
