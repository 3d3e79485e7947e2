"""A room waits only once for media that the homeserver cannot deliver, and keeps its order."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio

from adapters.matrix.homeserver import Homeserver, HomeserverOutcomeUnknown
from adapters.matrix.intake import MatrixIntake
from adapters.matrix.rooms import Room, Rooms
from nekro_core.api.adapter import KeyedQueue
from nekro_core.api.chat import Image
from nekro_core.testing.memory_host import MemoryHost

ROOM = "!room:example.org"


class Slow(Homeserver):
    """A homeserver that delivers only the medium ``quick``. It refuses the others when all of them
    have been asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.all_asked = anyio.Event()

    async def download(self, server: str, media_id: str, *, seconds: float = 60.0) -> bytes:
        self.asked.append(media_id)
        if media_id != "quick":
            if len({*self.asked} - {"quick"}) == 4:
                self.all_asked.set()
            await self.all_asked.wait()
            raise HomeserverOutcomeUnknown("not there in time")
        return b"bytes"


class Known(Rooms):
    """Knows one room, so that the adapter need not ask the homeserver about it."""

    def __init__(self) -> None:
        super().__init__(Slow(), "@bot:example.org")

    async def known(self, room_id: str) -> Room:
        return self.room(room_id)

    async def name_of(self, room_id: str, user: str) -> str:
        return user


def picture(number: int, media_id: str) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": f"${number}",
        "sender": "@lin:example.org",
        "origin_server_ts": 1_700_000_000_000,
        "content": {
            "msgtype": "m.image",
            "body": f"picture {number}",
            "url": f"mxc://far.example/{media_id}",
        },
    }


async def test_slow_media_delay_a_room_only_once_and_do_not_change_its_order(
    tmp_path: Path,
) -> None:
    host, server = MemoryHost(tmp_path), Slow()
    intake = MatrixIntake(host, server, Known(), instance="matrix", account="@bot:example.org")
    events = [picture(number, f"slow{number}") for number in range(4)] + [picture(4, "quick")]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            queue = KeyedQueue(tasks)
            for event in events:
                medium = intake.medium(ROOM, event, queue)
                await queue.submit(ROOM, partial(intake.take, ROOM, event, medium=medium))
            await queue.idle()
    assert [message.message_id for message in host.accepted] == ["$0", "$1", "$2", "$3", "$4"]
    kept = [message.segments[0] for message in host.accepted]
    problems = [each.media.problem for each in kept if isinstance(each, Image)]
    assert problems == [*["cannot be fetched: not there in time"] * 4, ""]
    assert sorted(server.asked) == ["quick", "slow0", "slow1", "slow2", "slow3"]
