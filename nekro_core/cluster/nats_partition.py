"""Owns one partition of the log on NATS.

A worker asks the partition's consumer for an item. The consumer has the priority policy
``pinned_client``: the first worker that gets an item is *pinned*, and the others get nothing until
the pin is given up or was not renewed for ``pin_s``. See
https://docs.nats.io/nats-concepts/jetstream/consumers and NATS's decision ADR-42.

At most one item is under way for each partition. With more, the items behind an unhandled one would
come before it when another worker takes over.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Self

import anyio
import nats.errors
from loguru import logger
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.partition_log import (
    EpochBook,
    PartitionItem,
    PartitionWork,
)
from nekro_core.cluster.subjects import PARTITION_STREAM
from nekro_core.store import Ownership, OwnershipLost, StoreError

GROUP = "owner"
CLAIM = "Nekro-Claim"
"""Header of an item that only pins the worker that gets it, so that a partition without items has
an owner too, which resumes the partition's turns."""
_PIN = "Nats-Pin-Id"
_STATUS = "Status"
_PIN_LOST = "423"
_NO_ITEM = ("404", "408")
_AGAIN_S = 0.2
"""Pause in seconds after NATS has refused a request for an item, for example while it stops."""
_HAND_OVER_S = 2.0
"""Time limit in seconds for giving a partition up. After it, the pin runs out by itself."""
_SPARE_S = 1.0
"""How much longer than asked for an answer is awaited, in seconds."""


@dataclass(frozen=True, slots=True)
class OwnershipTimes:
    """How long things of an ownership last, in seconds.

    Attributes:
        pin_s: If an owner has asked for nothing for so long, another worker becomes the owner.
        renew_s: How often an owner asks. Less than half of ``pin_s``, so that one late request
            loses nothing.
        ack_s: If an owner does not say for so long that it is still at an item, the item is given
            out again.
        look_s: How often a worker looks for partitions without an owner.
        worker_s: A worker that has not said for so long that it lives does not count.
    """

    pin_s: float = 2.0
    renew_s: float = 0.7
    ack_s: float = 2.0
    look_s: float = 0.5
    worker_s: float = 3.0


def consumer_of(partition: int) -> str:
    """Return the name of a partition's consumer."""
    return f"partition_{partition}"


def nanoseconds(seconds: float) -> int:
    """Return a time as JetStream's API has it."""
    return round(seconds * 1e9)


class NatsPartition:
    """Implements `OwnedPartition`. Use `NatsPartition.open`, then `seek`, then `hold`."""

    def __init__(
        self,
        connection: NatsConnection,
        partition: int,
        times: OwnershipTimes,
        inbox: str,
        answers: Subscription,
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._times = times
        self._inbox = inbox
        self._answers = answers
        self._pin = ""
        self._lost = False
        self._came: Msg | None = None
        self._given: Msg | None = None
        self._handled = 0
        """The number in the stream of the last handled item."""
        self._item_came = anyio.Event()
        self._ownership: Ownership | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, connection: NatsConnection, partition: int, times: OwnershipTimes
    ) -> AsyncIterator[Self]:
        """Subscribe to the answers of the partition's consumer until the block ends."""
        inbox = connection.client.new_inbox()
        answers = await connection.client.subscribe(inbox)
        try:
            yield cls(connection, partition, times, inbox, answers)
        finally:
            with suppress(nats.errors.Error, OSError):
                await answers.unsubscribe()

    @property
    def ownership(self) -> Ownership:
        """See `OwnedPartition.ownership`."""
        assert self._ownership is not None
        return self._ownership

    async def seek(self) -> bool:
        """Ask once for an item. Returns True if this worker has become the owner. Raises
        `ClusterError`."""
        message = await self._pull(self._times.renew_s)
        if message is None:
            return False
        self._pin = (message.headers or {}).get(_PIN, "")
        await self._take_in(message)
        return bool(self._pin)

    async def hold(self, book: EpochBook, worker: str, work: PartitionWork) -> None:
        """Do the work as the owner, until it ends, the ownership is lost or the caller cancels.
        Then give the partition up. Errors of the work are logged."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew, tasks.cancel_scope)
                tasks.start_soon(self._report_progress)
                try:
                    self._ownership = await book.take(self._partition, worker)
                    logger.debug("{} owns partition {}", worker, self._ownership)
                    await work(self)
                except OwnershipLost as error:
                    logger.info("partition {}: {}", self._partition, error)
                except Exception:  # noqa: BLE001 (a fault of one partition must not end the others)
                    logger.exception("the work of partition {} failed", self._partition)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(_HAND_OVER_S, shield=True):
                await self._hand_over(book)

    def items(self) -> AsyncIterator[PartitionItem]:
        """See `OwnedPartition.items`."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PartitionItem:
        if self._given is not None:
            self._handled = _number(self._given)
            await self._answer(self._given, Msg.Ack.Ack)
            self._given = None
        while self._came is None:
            self._item_came = anyio.Event()
            await self._item_came.wait()
        self._given, self._came = self._came, None
        return PartitionItem(self._given.data, self._given.metadata.num_delivered)

    async def _renew(self, scope: anyio.CancelScope) -> None:
        """Ask for items without end, which also renews the pin. If the pin is lost, cancel."""
        while True:
            try:
                message = await self._pull(self._times.renew_s)
            except OwnershipLost:
                self._lost = True
                scope.cancel()
                return
            except ClusterError:
                await anyio.sleep(_AGAIN_S)
                continue
            if message is not None:
                await self._take_in(message)

    async def _take_in(self, message: Msg) -> None:
        """Keep an item for `__anext__`. An item that is given out again, because our word of it was
        late, takes the place of its earlier copy."""
        number = _number(message)
        if number <= self._handled or CLAIM in (message.headers or {}):
            await self._answer(message, Msg.Ack.Ack)
        elif self._given is not None and number == _number(self._given):
            self._given = message
        else:
            self._came = message
            self._item_came.set()

    async def _report_progress(self) -> None:
        """Say that the item in hand is still being handled, before it is given out again."""
        while True:
            await anyio.sleep(self._times.ack_s / 3)
            for message in (self._given, self._came):
                if message is not None:
                    await self._answer(message, Msg.Ack.Progress)

    async def _hand_over(self, book: EpochBook) -> None:
        """Give the partition up, so that another worker can take it at once."""
        if self._ownership is not None:
            try:
                await book.release(self._ownership)
            except (StoreError, ClusterError) as error:
                # The next owner's number is greater anyway.
                logger.debug("{} was not released: {}", self._ownership, error)
        if self._lost:
            return
        with suppress(ClusterError):
            of = f"{PARTITION_STREAM}.{consumer_of(self._partition)}"
            info = await self._connection.api(f"CONSUMER.INFO.{of}")
            if pinned_client(info) == self._pin:
                await self._connection.api(f"CONSUMER.UNPIN.{of}", {"group": GROUP})
        for message in (self._given, self._came):
            if message is not None:
                await self._answer(message, Msg.Ack.Nak)

    async def _answer(self, message: Msg, word: bytes) -> None:
        """Tell the consumer what became of an item. If that fails, the item is given out again."""
        with suppress(ClusterError):
            await self._connection.send(message.reply, word)

    async def _pull(self, seconds: float) -> Msg | None:
        """Ask the consumer for an item, and wait for it for so long. Raises `OwnershipLost` if
        another worker is pinned, and `ClusterError`."""
        body = {"batch": 1, "expires": nanoseconds(seconds), "group": GROUP}
        if self._pin:
            body["id"] = self._pin
        call = f"$JS.API.CONSUMER.MSG.NEXT.{PARTITION_STREAM}.{consumer_of(self._partition)}"
        try:
            await self._connection.client.publish(
                call, json.dumps(body).encode(), reply=self._inbox
            )
            message = await self._answers.next_msg(timeout=seconds + _SPARE_S)
        except nats.errors.TimeoutError:
            return None
        except (nats.errors.Error, OSError) as error:
            raise ClusterError(f"NATS takes no request: {error}") from error
        status = (message.headers or {}).get(_STATUS, "")
        if status == _PIN_LOST:
            raise OwnershipLost(f"partition {self._partition} has another owner")
        if status in _NO_ITEM:
            return None
        if status:
            await anyio.sleep(_AGAIN_S)
            return None
        return message


def pinned_client(info: dict[str, object]) -> str:
    """Return the pin of a consumer, as its description in JetStream's API has it; empty if no
    worker is pinned."""
    groups = info.get("priority_groups")
    if not isinstance(groups, list) or not groups:
        return ""
    return str(groups[0].get("pinned_client_id") or "")


def _number(message: Msg) -> int:
    return message.metadata.sequence.stream
