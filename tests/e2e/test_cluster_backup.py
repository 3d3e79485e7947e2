"""A backup of a cluster is made under load. It is restored into another cluster, with an empty
database and an empty object store, and into one process. Both know the picture of a message and the
files of a box."""

import base64
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.bot_process import running_bot
from tests.e2e.test_backup import nekro
from tests.e2e.test_cluster import Cluster, running_cluster
from tests.e2e.test_cluster_files import WORDS, picture_with_words
from tests.e2e.whole_bot import LONG_S, TOKEN, fence, model_settings
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.onebot_v11.messages import image, text
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Asked, Reply, ScriptedModelServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

GROUPS = (40002, 40003)
"""A group of each gateway. The backup is made in the folder of the first one."""
LOADED = range(40010, 40016)
LOOK = fence(
    "import os\n"
    "(name,) = os.listdir('/app/uploads')\n"
    "data = open('/app/uploads/' + name, 'rb').read()\n"
    "words = data[data.index(b'the vermilion'):][:19].decode()\n"
    "open('note.txt', 'w').write('noted: ' + words)\n"
    "send_channel_message('it says: ' + words)"
)
RECALL = fence(
    "import os\n"
    "(name,) = os.listdir('/app/uploads')\n"
    "data = open('/app/uploads/' + name, 'rb').read()\n"
    "words = data[data.index(b'the vermilion'):][:19].decode()\n"
    "send_channel_message(open('note.txt').read() + '; seen: ' + words)"
)
COUNT = fence("open('count.txt', 'a').write('x')\nsend_channel_message('counted')")
RECALLED = f"noted: {WORDS.decode()}; seen: {WORDS.decode()}"


def reply(asked: Asked) -> Reply:
    """The model reads the words in the picture and writes them into a note. When a person asks what
    it was, it reads the note, and looks at the picture again. In other groups, it writes files."""
    said = asked.last_user_text
    if "what was it" in said:
        return RECALL
    return COUNT if "count" in said else LOOK


@pytest.mark.slow
async def test_a_backup_of_a_cluster_under_load_has_the_files_of_the_object_store(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    backup = tmp_path / "b.zip"
    async with running_cluster(tmp_path / "first", postgres, reply) as cluster:
        await _talk(cluster)
        settings: dict[str, Any] = {**cluster.gateways[0].environment}
        folder = cluster.gateways[0].data.parent
        async with anyio.create_task_group() as load:
            for group in LOADED:
                load.start_soon(_count, cluster, group)
            await anyio.sleep(1.0)
            said = await nekro(folder, "backup", str(backup), **settings)
            load.cancel_scope.cancel()
        assert "not in it: secrets" in said
        assert "object store" not in said
        assert "whole" in await nekro(folder, "backup", "--check", str(backup))

    second = tmp_path / "second"

    async def restore(settings: Mapping[str, Any]) -> None:
        (second / "gateway-1").mkdir(parents=True)
        said = await nekro(second / "gateway-1", "restore", str(backup), **settings)
        assert "were put into the object store" in said

    async with running_cluster(second, postgres, reply, before_start=restore) as cluster:
        for peer in cluster.peers:
            peer.account.ids = itertools.count(500_001).__next__
        for group in GROUPS:
            await cluster.say(group, "what was it?")
            assert await cluster.answers(group, 1) == [RECALLED]

    await _restore_into_one_process(tmp_path / "third", backup, await postgres.empty_database())


async def _talk(cluster: Cluster) -> None:
    """In a group of each gateway, a person sends a picture."""
    url = f"base64://{base64.b64encode(picture_with_words()).decode()}"
    for peer, group in zip(cluster.peers, GROUPS, strict=True):
        await peer.say_in_group(group, 10001, [image(url), text("look")], at_me=True)
        assert await cluster.answers(group, 1) == [f"it says: {WORDS.decode()}"]


async def _count(cluster: Cluster, group: int) -> None:
    for number in itertools.count(1):
        await cluster.say(group, "count")
        await cluster.answers(group, number)


async def _restore_into_one_process(folder: Path, backup: Path, database: str) -> None:
    folder.mkdir()
    async with ScriptedModelServer(reply) as model:
        settings: dict[str, Any] = {**model_settings(model), "NEKRO_DATABASE_URL": database}
        said = await nekro(folder, "restore", str(backup), **settings)
        assert "object store" not in said
        async with (
            running_bot(folder, **settings) as bot,
            OneBotPeer("20002", TOKEN, bot.onebot_url) as one,
            OneBotPeer("20003", TOKEN, bot.onebot_url) as two,
        ):
            for peer, group in zip((one, two), GROUPS, strict=True):
                peer.account.ids = itertools.count(500_001).__next__
                await peer.wait_connected()
                await peer.say_in_group(group, 10001, "what was it?", at_me=True)
                await peer.until(lambda p=peer, g=group: bool(_said(p, g)), LONG_S)  # type: ignore[misc]
                assert _said(peer, group) == [RECALLED]


def _said(peer: OneBotPeer, group: int) -> list[str]:
    """What the bot has sent to a group. It may also answer in the groups of the load."""
    return [call.text for call in peer.sends if call.params.get("group_id") == group]
