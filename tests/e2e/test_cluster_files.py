"""Files on a cluster. What a gateway receives is in the box of the worker that answers. The files
of a box follow the chat to another worker, and an erasure deletes all these files everywhere."""

import base64
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.agent.pictures import PNG
from tests.e2e.test_cluster import Cluster, running_cluster
from tests.e2e.whole_bot import LONG_S, fence
from tests.peers.onebot_v11.messages import image, text
from tests.peers.postgres import PostgresServer
from tests.peers.s3_servers import BUCKET, JuiceServer, missing
from tests.peers.scripted_model import Asked, Reply

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

WORDS = b"the vermilion heron"
GROUP = 40002
LOOK = fence(
    "import os\n"
    "(name,) = os.listdir('/app/uploads')\n"
    "data = open('/app/uploads/' + name, 'rb').read()\n"
    "words = data[data.index(b'the vermilion'):][:19].decode()\n"
    "open('note.txt', 'w').write(words)\n"
    "send_channel_message('it says: ' + words)"
)
RECALL = fence(
    "import os\n"
    "send_channel_message(open('note.txt').read() + ', ' + str(len(os.listdir('/app/uploads'))))"
)


def picture_with_words() -> bytes:
    """A picture whose file contains words as a comment."""
    end = PNG.rindex(b"IEND") - 4
    body = b"tEXtComment\0" + WORDS
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return PNG[:end] + chunk + PNG[end:]


def reply(asked: Asked) -> Reply:
    """The model reads the words in the picture and writes them into a note. When a person asks what
    it was, the model reads the note."""
    return RECALL if "what was it" in asked.last_user_text else LOOK


async def test_files_follow_a_chat_and_are_erased_everywhere(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with running_cluster(tmp_path, postgres, reply) as cluster:
        await files_follow_a_chat_and_are_erased_everywhere(cluster, tmp_path, cluster.nats.holds)


@pytest.mark.slow
async def test_files_on_s3_follow_a_chat_and_are_erased_everywhere(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    if lacks := missing(JuiceServer):
        pytest.skip(lacks)
    with JuiceServer() as s3:
        more = {"NEKRO_CLUSTER_OBJECTS": f"s3://{BUCKET}/bot", **s3.environment}
        async with running_cluster(tmp_path, postgres, reply, lambda _: more) as cluster:
            await files_follow_a_chat_and_are_erased_everywhere(cluster, tmp_path, s3.holds)
            assert not cluster.nats.holds(WORDS)
            await a_picture_waits_while_s3_is_away(cluster, s3)


async def a_picture_waits_while_s3_is_away(cluster: Cluster, s3: JuiceServer) -> None:
    """The gateway keeps the picture, and the worker gets it when the server is back."""
    group = GROUP + 2
    s3.stop()
    url = f"base64://{base64.b64encode(picture_with_words()).decode()}"
    await cluster.peers[0].say_in_group(group, 10001, [image(url), text("keep this")])
    with anyio.fail_after(LONG_S):
        while not await cluster.postgres.run(
            "SELECT 1 FROM messages WHERE segments LIKE '%keep this%'", url=cluster.database
        ):
            await anyio.sleep(0.1)
    s3.start()
    with anyio.fail_after(LONG_S):
        while not s3.holds(WORDS):
            await anyio.sleep(0.1)
    await cluster.peers[0].say_in_group(group, 10001, [text("look")], at_me=True)
    assert await cluster.answers(group, 1) == [f"it says: {WORDS.decode()}"]


async def files_follow_a_chat_and_are_erased_everywhere(
    cluster: Cluster, folder: Path, holds: Callable[[bytes], bool]
) -> None:
    """``holds`` says whether the object store has these bytes in one of its files."""
    url = f"base64://{base64.b64encode(picture_with_words()).decode()}"
    await cluster.peers[0].say_in_group(GROUP, 10001, [image(url), text("look")], at_me=True)
    assert await cluster.answers(GROUP, 1) == [f"it says: {WORDS.decode()}"]
    assert holds(WORDS)

    with anyio.fail_after(LONG_S):  # so that the next message begins another turn
        query = "SELECT 1 FROM turns WHERE running_chat IS NOT NULL"
        while await cluster.postgres.run(query, url=cluster.database):
            await anyio.sleep(0.05)
    first = await cluster.owner(GROUP)
    await cluster.workers[first].kill()
    with anyio.fail_after(LONG_S):
        await cluster.say(GROUP, "what was it?")
        said = await cluster.answers(GROUP, 2)
    assert said[1] == f"{WORDS.decode()}, 1"
    assert await cluster.owner(GROUP) != first
    await cluster.workers[first].start()
    await cluster.shared_out("ada", "bob", "eva")
    assert files_with(WORDS, folder)

    await cluster.say(GROUP, "/erase me sure")
    (erased,) = (await cluster.answers(GROUP, 3))[2:]
    assert erased.startswith("Forgotten: "), erased
    with anyio.move_on_after(LONG_S):
        while files_with(WORDS, folder) or holds(WORDS):
            await anyio.sleep(0.1)
    assert files_with(WORDS, folder) == []
    assert not holds(WORDS)


def files_with(words: bytes, folder: Path) -> list[str]:
    """The files of all processes that contain these bytes."""
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and words in path.read_bytes():
                found.append(str(path.relative_to(folder)))
        except FileNotFoundError:
            continue  # It was deleted meanwhile.
    return found
