"""Owns one partition of the log on NATS.

A worker asks the partition's consumer for an item. The consumer has the priority policy
``pinned_client``: the first worker that gets an item is *pinned*, and the consumer gives nothing to
the other workers until the pinned worker gives the pin up or has not renewed it for ``pin_s``
seconds. A worker that is pinned becomes the owner: it stores the partition's next epoch in the
database. See https://docs.nats.io/nats-concepts/jetstream/consumers and NATS's decision ADR-42.

A worker that is alive but slow, for example because the machine is busy, can lose the pin although
nobody else wants it. It is still the owner, because its epoch is the newest. So it goes on, and
tries to get a new pin, until another worker has stored the next epoch.

The consumer gives out the next item only when the earlier one is handled. If it gave out several
items at a time and the owner ended, the next owner could get an unhandled item after later items of
the partition.
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
from nekro_core.cluster.subjects import PARTITION_STREAM, PARTITION_SUBJECT
from nekro_core.store import Ownership, OwnershipLost, StoreError

GROUP = "owner"
CLAIM = "Nekro-Claim"
"""Header of an item without content. The worker that gets the item is pinned, so it becomes the
owner of a partition in which no other item waits. Such a partition needs an owner too, because the
owner resumes the turns that an earlier owner left unfinished."""
_PIN = "Nats-Pin-Id"
_STATUS = "Status"
_PIN_LOST = "423"
_NO_ITEM = ("404", "408")
_READ_S = 2.0
"""Seconds for which an owner waits for an answer before it looks whether it has lost the pin and
must ask for a new one."""
_AGAIN_S = 0.2
"""Pause in seconds after NATS has refused a request for an item, for example because the server is
stopping."""
_HAND_OVER_S = 2.0
"""Time limit in seconds for giving a partition up. If NATS has not answered by then, the worker
loses the pin after `OwnershipTimes.pin_s`, because it no longer renews the pin."""
_SPARE_S = 1.0
"""A request tells NATS how long to wait for an item. The worker waits this many seconds longer for
NATS's answer."""


@dataclass(frozen=True, slots=True)
class OwnershipTimes:
    """The times, in seconds, after which an owner, an item in hand or a worker counts as lost, and
    how often workers ask.

    Attributes:
        pin_s: If an owner has not asked for an item for this time, another worker can become the
            owner.
        renew_s: The time between two requests of an owner for an item. It is less than a third of
            ``pin_s``, so that one late request does not cost the pin.
        ack_s: If an owner has not reported for this time that it is still handling an item, the
            item is given out again.
        look_s: The time after which a worker looks again for partitions without an owner.
        worker_s: A worker that has not reported for this time that it lives is not counted when the
            partitions are shared.
    """

    pin_s: float = 2.0
    renew_s: float = 0.6
    ack_s: float = 2.0
    look_s: float = 0.5
    worker_s: float = 6.0


def consumer_of(partition: int) -> str:
    """Return the name of a partition's consumer."""
    return f"partition_{partition}"


def nanoseconds(seconds: float) -> int:
    """Return a time in whole nanoseconds, the unit of JetStream's API."""
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
        self.pinned = 0.0
        """When this worker got its pin, on the event loop's clock."""
        self._pins_lost = 0
        self._lost = False
        self._came: Msg | None = None
        self._given: Msg | None = None
        self._handled = 0
        """The sequence number, in the stream, of the last handled item."""
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

    @property
    def taken(self) -> Ownership | None:
        """The ownership; None until it is stored."""
        return self._ownership

    async def seek(self) -> bool:
        """Ask once for an item. Returns True if this worker has become the owner. Raises
        `ClusterError`."""
        message = await self._pull(self._times.renew_s)
        if message is None:
            return False
        self._keep_pin(message)
        await self._take_in(message)
        return bool(self._pin)

    def pin_ran_out(self) -> None:
        """Note that this worker has no pin any more, so that its next request asks for a new one.
        (While nobody is pinned, NATS answers requests with an old pin as if there were no item.)"""
        if self._pin:
            logger.debug("partition {}: the pin ran out", self._partition)
            self._pins_lost += 1
        self._pin = ""

    def _keep_pin(self, message: Msg) -> None:
        self._pin = (message.headers or {}).get(_PIN, "")
        self.pinned = anyio.current_time()

    async def hold(self, book: EpochBook, worker: str, work: PartitionWork) -> None:
        """Own the partition and run ``work``, until ``work`` ends, another worker becomes the
        owner, or the caller cancels. Then give the partition up. An error that ``work`` raises is
        logged."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew)
                tasks.start_soon(self._receive, book, tasks.cancel_scope)
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

    async def _renew(self) -> None:
        """Ask for an item every ``renew_s`` seconds. Each request also renews the pin. The requests
        do not wait for the answers to earlier ones: on a busy machine, an answer may be read late.
        """
        while True:
            await self._ask()
            await anyio.sleep(self._times.renew_s)

    async def _ask(self) -> None:
        # NATS keeps the request beyond the time of the next one, so that one always waits there.
        with suppress(ClusterError):
            await self._request(self._times.renew_s * 1.5)

    async def _receive(self, book: EpochBook, scope: anyio.CancelScope) -> None:
        """Take in the items. If another worker has become the owner, cancel ``scope``, in which the
        work runs."""
        while True:
            try:
                message = await self._answer_within(_READ_S)
            except OwnershipLost:
                self.pin_ran_out()
                message = None
            except ClusterError:
                await anyio.sleep(_AGAIN_S)
                message = None
            if not self._pin and await self._has_lost(book, message):
                self._lost = True
                scope.cancel()
                return
            if message is not None:
                await self._take_in(message)
                await self._ask()

    async def _has_lost(self, book: EpochBook, message: Msg | None) -> bool:
        """Return whether another worker has become the owner since this one lost the pin; True too
        if this worker has no ownership yet. ``message`` is an item that has come with a new pin;
        None if none has come."""
        if self._ownership is None:
            return True
        if message is not None:
            self._keep_pin(message)
        try:
            if await book.invalid([self._ownership]):
                return True
        except (StoreError, ClusterError):
            return False
        if message is None and self._given is None and self._came is None:
            await self._claim()
        return False

    async def _claim(self) -> None:
        """Publish an item without content, so that a worker gets a pin with it."""
        call = f"{PARTITION_SUBJECT}.{self._partition}"
        claim_id = f"claim.{self._partition}.{self.ownership.epoch}.{self._pins_lost}"
        with suppress(ClusterError, nats.errors.Error):
            await self._connection.request(
                call, b"", headers={"Nats-Msg-Id": claim_id, CLAIM: "1"}, within_s=_READ_S
            )

    async def _take_in(self, message: Msg) -> None:
        """Keep an item for `__anext__`. If the consumer gives the item out again, because our
        report or acknowledgement was late, the new copy replaces the earlier one. A claim, or an
        item that was handled already, is only acknowledged."""
        number = _number(message)
        if number <= self._handled or CLAIM in (message.headers or {}):
            await self._answer(message, Msg.Ack.Ack)
        elif self._given is not None and number == _number(self._given):
            self._given = message
        else:
            self._came = message
            self._item_came.set()

    async def _report_progress(self) -> None:
        """Tell the consumer every third of ``ack_s`` that the items of this worker are still being
        handled, so that they are not given out again."""
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
                # This does no harm: the next owner gets a greater epoch, and then writes with this
                # one are refused.
                logger.debug("{} was not released: {}", self._ownership, error)
        if self._lost:
            return
        with suppress(ClusterError):
            of = f"{PARTITION_STREAM}.{consumer_of(self._partition)}"
            info = await self._connection.api(f"CONSUMER.INFO.{of}")
            if self._pin and pinned_client(info) == self._pin:
                await self._connection.api(f"CONSUMER.UNPIN.{of}", {"group": GROUP})
        for message in (self._given, self._came):
            if message is not None:
                await self._answer(message, Msg.Ack.Nak)

    async def _answer(self, message: Msg, word: bytes) -> None:
        """Tell the consumer that an item was handled, is still being handled, or was given back
        (``word``). If this cannot be sent, the consumer gives the item out again."""
        with suppress(ClusterError):
            await self._connection.send(message.reply, word)

    async def _pull(self, seconds: float) -> Msg | None:
        """Ask the consumer for an item, and wait at most ``seconds`` for it. Returns None if there
        was none. Raises `OwnershipLost` if another worker is pinned, and `ClusterError`."""
        await self._request(seconds)
        return await self._answer_within(seconds + _SPARE_S)

    async def _request(self, seconds: float) -> None:
        """Ask the consumer for an item. The request waits there for ``seconds``. Raises
        `ClusterError`."""
        body = {"batch": 1, "expires": nanoseconds(seconds), "group": GROUP}
        if self._pin:
            body["id"] = self._pin
        call = f"$JS.API.CONSUMER.MSG.NEXT.{PARTITION_STREAM}.{consumer_of(self._partition)}"
        try:
            await self._connection.client.publish(
                call, json.dumps(body).encode(), reply=self._inbox
            )
        except (nats.errors.Error, OSError) as error:
            raise ClusterError(f"NATS takes no request: {error}") from error

    async def _answer_within(self, seconds: float) -> Msg | None:
        """Wait for an item, at most ``seconds``. Returns None if none came. Raises `OwnershipLost`
        if another worker is pinned, or none is, and `ClusterError`."""
        try:
            message = await self._answers.next_msg(timeout=seconds)
        except nats.errors.TimeoutError:
            return None
        except (nats.errors.Error, OSError) as error:
            raise ClusterError(f"NATS answers nothing: {error}") from error
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
    """Return the id of a consumer's present pin; empty if no worker is pinned. ``info`` is
    JetStream's answer to ``CONSUMER.INFO``."""
    groups = info.get("priority_groups")
    if not isinstance(groups, list) or not groups:
        return ""
    return str(groups[0].get("pinned_client_id") or "")


def _number(message: Msg) -> int:
    return message.metadata.sequence.stream
