"""Starts the profile ``cluster`` of compose.yaml as docs/deploying.md says."""

import re
from pathlib import Path

import anyio
from anyio import to_thread

from nekro_core.chat import ChatKey
from nekro_core.cluster.partition_log import DEFAULT_PARTITIONS, partition_of
from tests.deploy.composed import ROOT
from tests.deploy.local_images import Docker
from tests.e2e.whole_bot import TOKEN
from tests.peers.ports import free_port

START_S = 180.0
"""The longest time until all containers are ready. Five processes start at once."""
GATEWAYS = ("bot", "gateway2")
WORKERS = ("worker1", "worker2", "worker3")
_READY = (
    "import json, urllib.request as r; note = json.load(open('/nekro/data/running.json'));"
    "print(r.urlopen(note['address'] + '/readyz', timeout=5).status)"
)
"""Asks the process of a container whether it is ready."""


def steps_of_the_guide(title: str) -> tuple[list[str], dict[str, str]]:
    """Return the commands of a section of docs/deploying.md, and the settings that it puts into
    ``.env``."""
    text = (ROOT / "docs/deploying.md").read_text("utf-8").replace("\\\n", " ")
    section = text.split(f"\n### {title}\n")[1].split("\n### ")[0]
    commands, settings, *_ = re.findall(r"^```sh\n(.+?)```", section, re.DOTALL | re.MULTILINE)
    lines = (line.split("=", 1) for line in settings.splitlines())
    return commands.splitlines(), dict(lines)


class ComposedCluster:
    """The profile ``cluster``, made in a folder as the guide says."""

    def __init__(self, docker: Docker, folder: Path, model: str) -> None:
        self._docker = docker
        self._folder = folder
        self.ports = (free_port(), free_port())
        commands, settings = steps_of_the_guide("A cluster")
        printed = ""
        for command in commands:
            if command != "make image":
                printed = docker.run("sh", "-c", command, folder=folder)
        urls = dict(re.findall(r"^NEKRO_CLUSTER_URL of a (\w+): (\S+)$", printed, re.MULTILINE))
        settings |= {
            "NEKRO_CLUSTER_URL": urls["gateway"],
            "NEKRO_CLUSTER_URL_OF_WORKERS": urls["worker"],
            "NEKRO_LLM__BASE_URL": model,
            "NEKRO_LLM__MODEL": "scripted",
            "ONEBOT_ACCESS_TOKEN": TOKEN,
            "PORT": str(self.ports[0]),
            "PORT_OF_GATEWAY2": str(self.ports[1]),
        }
        lines = (f"{name}={value}\n" for name, value in settings.items())
        (folder / ".env").write_text("".join(lines))

    def compose(self, *words: str) -> str:
        """Run ``docker compose``."""
        return self._docker.run("docker", "compose", *words, folder=self._folder)

    async def up(self) -> None:
        """Start all containers, and wait until each process is ready."""
        await to_thread.run_sync(self.compose, "up", "--detach")
        await self.until_ready(*GATEWAYS, *WORKERS)

    async def until_ready(self, *services: str) -> None:
        """Wait until these processes say that they are ready."""
        with anyio.fail_after(START_S):
            for service in services:
                while not await to_thread.run_sync(self._ready, service):
                    await anyio.sleep(1.0)

    def _ready(self, service: str) -> bool:
        words = ("exec", "-T", service, "/opt/nekro/bin/python", "-c", _READY)
        try:
            return self.compose(*words).strip() == "200"
        except AssertionError:  # it has not started yet
            return False

    def statuses(self) -> dict[str, str]:
        """The status with which each process has ended, by service."""
        listed = self.compose("ps", "--all", "--format", "{{.Service}} {{.ExitCode}}")
        ended = dict(line.split() for line in listed.splitlines())
        return {service: ended[service] for service in (*GATEWAYS, *WORKERS)}

    def owner(self, group: int) -> str:
        """The worker that owns a group's chat."""
        database = ("exec", "-T", "postgres", "psql", "--username=nekro")
        ask_it = (*database, "--tuples-only", "--no-align", "--command")
        key = self.compose(
            *ask_it, f"SELECT chat_key FROM chats WHERE chat_key LIKE '%group_{group}'"
        )
        partition = partition_of(ChatKey.parse(key.strip()), DEFAULT_PARTITIONS)
        return self.compose(
            *ask_it, f"SELECT worker FROM partition_owners WHERE partition = {partition}"
        ).strip()
