"""Carries the activity of workers to the pages of gateways.

The bot's messages and turns are in the workers, and pages are in the gateways. A worker tells all
gateways on NATS which record is new or has changed, and when a turn begins or ends. A gateway reads
the record from the database, so a page shows only what is stored. While NATS cannot be reached,
nothing is told: pages show the messages when they read the history again.
"""

import anyio
import msgspec
from loguru import logger
from nats.aio.msg import Msg

from nekro_core.chat import ChatKey
from nekro_core.chat.key import ChatKeyError
from nekro_core.cluster.errors import ClusterUnavailable
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.subjects import ACTIVITY_SUBJECT
from nekro_core.delivery.activity import QUEUE, Activity, Broadcast, Recorded, Working
from nekro_core.store import Store, StoreError
from nekro_core.store.messages import with_final_seq


class _StoredRecord(msgspec.Struct, frozen=True, tag="record"):
    seq: int


class _TurnState(msgspec.Struct, frozen=True, tag="turn"):
    chat_key: str
    busy: bool


async def send_activity(connection: NatsConnection, activity: Broadcast) -> None:
    """Tell the gateways the activity of this worker until cancelled."""
    while True:
        async with activity.watch() as activities:
            async for each in activities:
                try:
                    await connection.send(ACTIVITY_SUBJECT, msgspec.json.encode(_told(each)))
                except ClusterUnavailable as error:
                    logger.debug("the gateways are not told what is new: {}", error)
        logger.debug("this worker has more activity than it can tell the gateways")


def _told(activity: Activity) -> _StoredRecord | _TurnState:
    match activity:
        case Recorded(record):
            return _StoredRecord(int(with_final_seq(record).seq))
        case Working(chat_key, busy):
            return _TurnState(str(chat_key), busy)


class ActivityReceiver:
    """Publishes in a gateway what the workers tell."""

    def __init__(self, connection: NatsConnection, store: Store, activity: Broadcast) -> None:
        self._client = connection.client
        self._store = store
        self._activity = activity

    async def live(self) -> None:
        """Publish the activity of all workers until cancelled."""
        send, receive = anyio.create_memory_object_stream[bytes](QUEUE)

        async def take(message: Msg) -> None:
            # If no page is open, nothing is read from the database.
            if self._activity.follower_count:
                try:
                    send.send_nowait(message.data)
                except (anyio.WouldBlock, anyio.BrokenResourceError):
                    logger.debug("this gateway is too slow to show what the workers tell")

        subscription = await self._client.subscribe(ACTIVITY_SUBJECT, cb=take)
        try:
            with send, receive:
                async for data in receive:
                    await self._publish(data)
        finally:
            if not self._client.is_closed:
                with anyio.CancelScope(shield=True):
                    await subscription.unsubscribe()

    async def _publish(self, data: bytes) -> None:
        try:
            match msgspec.json.decode(data, type=_StoredRecord | _TurnState):
                case _StoredRecord(seq):
                    if (record := await self._store.messages.get(seq)) is not None:
                        self._activity.publish(Recorded(record))
                case _TurnState(chat_key, busy):
                    self._activity.publish(Working(ChatKey.parse(chat_key), busy))
        except (msgspec.MsgspecError, ChatKeyError, StoreError) as error:
            logger.warning("a page does not show what a worker told: {}", error)
