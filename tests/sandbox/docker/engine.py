"""Starts a Docker engine for the tests, if one is installed. The engine keeps all its files in one
folder.

Its image is made from this machine's Python, as ``nekro sandbox image`` does without a registry.
``NEKRO_TEST_DOCKER_HOST`` can name another engine, which must have an image.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from nekro_core.sandbox.docker.build import import_this_machine
from nekro_core.sandbox.docker.engine import DockerEngine

_START_S = 60
_END_S = 30


class NoEngine(Exception):
    """No engine can be started. The message has the reason."""


@contextlib.contextmanager
def running_engine(folder: Path, *, own_network: bool = True) -> Iterator[str]:
    """Start an engine with its files below ``folder``. Yields its address. Raises `NoEngine`.

    The engine has a network of its own, without a way out. With ``own_network=False`` it has the
    one of this machine: its containers can publish ports here, and images can be built from
    packages of the registries.
    """
    program = shutil.which("dockerd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise NoEngine("dockerd is not installed (Debian: docker.io)")
    if os.geteuid() != 0:
        raise NoEngine("only root can start dockerd")
    unshare = shutil.which("unshare")
    if unshare is None:
        raise NoEngine("unshare is not installed (Debian: util-linux)")
    address = f"unix://{folder}/engine.sock"
    # With `--bridge=none`, dockerd deletes the bridge docker0 when it starts. That may be the
    # bridge of a developer's own engine. In a network of its own, there is none.
    has_bridge = not own_network and Path("/sys/class/net/docker0").exists()
    command = [
        *((unshare, "--net", "--") if own_network else ()),
        *(program, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
        *("--host", address, "--pidfile", f"{folder}/engine.pid"),
        *("--iptables=false", *(() if has_bridge else ("--bridge=none",))),
        # These namespaces separate the tests' containers from others of the same containerd.
        *("--containerd-namespace", "nekro-tests"),
        *("--containerd-plugins-namespace", "nekro-tests-plugins"),
    ]
    folder.mkdir(parents=True)
    with (folder / "engine.log").open("wb") as log, subprocess.Popen(command, stderr=log) as engine:
        try:
            _wait_for(engine, folder / "engine.sock", folder / "engine.log")
            yield address
        finally:
            engine.terminate()
            try:
                engine.wait(_END_S)
            except subprocess.TimeoutExpired:
                engine.kill()
            _unmount_below(folder)
            shutil.rmtree(folder)


def _wait_for(engine: "subprocess.Popen[bytes]", socket: Path, log: Path) -> None:
    for _ in range(_START_S * 20):
        if engine.poll() is not None:
            said = log.read_text(errors="replace").splitlines()
            raise NoEngine(f"dockerd does not run here: {said[-1] if said else 'it said nothing'}")
        if socket.exists() and "API listen on" in log.read_text(errors="replace"):
            return
        time.sleep(0.05)
    raise NoEngine(f"dockerd did not listen within {_START_S} s")


async def give_image(host: str) -> None:
    """Make the image for boxes, once. Raises `BackendUnavailable`."""
    engine = await DockerEngine.connect(host, build=True)
    try:
        await import_this_machine(engine, "python", lambda line: None)
    finally:
        engine.close()


def _unmount_below(folder: Path) -> None:
    """Unmount what a killed engine has left mounted."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        path = line.split()[1]
        if path.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", path], check=False)
