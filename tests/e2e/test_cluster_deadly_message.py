"""A message ends each worker that takes it up. After three workers it is given up, and no other
message is; its chat is told. The workers are processes, and a plugin's hook ends them."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests.e2e.bot_process import BotProcess
from tests.e2e.test_cluster import Cluster, running_cluster
from tests.peers.postgres import PostgresServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ENDED = 9
"""The exit status of a worker that the plugin ended."""
PLUGIN = f"""\
import os

from nekro_core.api.chat import ChatMessage, plain_text
from nekro_core.api.plugin import NekroPlugin
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(name="ends", module_name="ends", author="ann")


@plugin.mount_on_user_message()
async def ends(_ctx: AgentCtx, message: ChatMessage) -> None:
    if "deadly" in plain_text(message.segments):
        os._exit({ENDED})
"""


async def restart_ended(worker: BotProcess, name: str, ended: Counter[str]) -> None:
    """Start a worker again whenever it has ended by itself, as a supervisor does."""
    while True:
        process = worker.process
        if process is not None and process.returncode is not None:
            assert process.returncode == ENDED, worker.log[-2000:]
            ended[name] += 1
            await worker.start()
        await anyio.sleep(0.2)


async def test_a_message_that_ends_each_worker_is_given_up_after_three(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running_cluster(tmp_path, postgres, plugin=PLUGIN) as cluster:
        await a_message_that_ends_each_worker_is_given_up_after_three(cluster)


async def a_message_that_ends_each_worker_is_given_up_after_three(cluster: Cluster) -> None:
    ended: Counter[str] = Counter()
    groups = [40001, 40002, 40003, 40004]
    async with anyio.create_task_group() as tasks:
        for group in groups:
            await cluster.ask(group)
        await cluster.shared_out(*cluster.workers)
        for name, worker in cluster.workers.items():
            tasks.start_soon(restart_ended, worker, name, ended)
        deadly, *others = groups
        before = len(cluster.said(deadly))
        await cluster.say(deadly, "a deadly message")
        # Questions behind it, in its chat and in the others, are answered once each.
        await cluster.begin_to_ask(deadly)
        for group in others:
            await cluster.begin_to_ask(group)
        said = (await cluster.answers(deadly, before + 2, within=120))[before:]
        for group in others:
            await cluster.answers(group, 2, within=60)
        assert ended.total() == 3, ended
        for group in groups:
            await cluster.ask(group)
        assert ended.total() == 3, ended
        tasks.cancel_scope.cancel()
    (told,) = [each for each in said if "ended the process that handled it three times" in each]
    assert [each for each in said if each != told] == ["answer-2"]
    for group in others:
        assert cluster.said(group) == ["answer-1", "answer-2", "answer-3"]
    query = "SELECT decision, decision_detail FROM messages WHERE segments LIKE '%deadly message%'"
    (row,) = await cluster.postgres.run(query, url=cluster.database)
    assert (row["decision"], row["decision_detail"]) == ("failed", "ended_workers")
