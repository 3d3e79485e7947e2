"""Measures how fast messages are stored, compared with SQLite alone on the same rows."""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.figure import Figure, percentiles
from nekro_core.chat import (
    Author,
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    Receipt,
    Record,
    Sender,
    Text,
)
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import Store
from nekro_core.store.database import Value
from nekro_core.store.messages import INSERT, MessageRepository

_MESSAGES = 3_000
_CHATS = 50
_LATENCIES = 300


async def figures() -> list[Figure]:
    """Measure how many messages per second are stored under load, how long storing one message
    takes, and how much time passes between sending a message and the platform call."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.sqlite3"
        async with Store.open(f"sqlite://{path}") as store:
            await store.accounts.bind("bench", "bot")
            inbox = Inbox(store, Broadcast())
            rate = await _rate(inbox)
            accept = await _accept(inbox)
            send = await _send(store)
        shared, each = _raw(path, batch=256), _raw(path, batch=1)
        single = [1.0 / each] * 2
    return [
        Figure(
            name="store: messages accepted, many at once",
            unit="/s",
            p50=rate,
            floor=shared,
            floor_name="raw sqlite3, 256 rows a commit",
            more_is_better=True,
        ),
        _latency("store: one message accepted", accept, single),
        _latency("outbox: send to platform call", send, single),
    ]


def _latency(name: str, samples: list[float], floor: list[float]) -> Figure:
    p50, p99 = percentiles(samples)
    return Figure(
        name=name,
        unit="ms",
        p50=p50 * 1e3,
        p99=p99 * 1e3,
        floor=floor[0] * 1e3,
        floor_name="raw sqlite3, one row a commit",
    )


def _message(number: int) -> ChatMessage:
    chat = ChatKey.parse(f"bench-group_{number % _CHATS}")
    return ChatMessage(
        chat_key=chat,
        message_id=f"{time.perf_counter_ns()}-{number}",
        sender=Sender(str(number % 500), "somebody"),
        segments=(Text("a message of about forty characters or so"),),
        time=time.time(),
        account="bot",
    )


async def _store(inbox: Inbox, message: ChatMessage) -> None:
    await inbox.accept(inbox.stamp(message))


async def _rate(inbox: Inbox) -> float:
    messages = [_message(number) for number in range(_MESSAGES)]
    begun = time.perf_counter()
    await asyncio.gather(*(_store(inbox, message) for message in messages))
    return _MESSAGES / (time.perf_counter() - begun)


async def _accept(inbox: Inbox) -> list[float]:
    samples = []
    for number in range(_LATENCIES):
        begun = time.perf_counter()
        await _store(inbox, _message(number))
        samples.append(time.perf_counter() - begun)
    return samples


async def _send(store: Store) -> list[float]:
    adapter = _Stopwatch(time.perf_counter)
    settings = DeliverySettings(sends_per_window=_LATENCIES * 2)
    key = ChatKey.parse("bench-group_1")
    samples = []
    async with Outbox(store, {"bench": adapter}, Broadcast(), settings) as outbox:
        for number in range(_LATENCIES):
            begun = time.perf_counter()
            await outbox.send(key, (Text(str(number)),))
            samples.append(adapter.called - begun)
    return samples


class _Stopwatch:
    """An adapter that records when it gets a delivery."""

    name = "bench"

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.called = 0.0

    def capabilities(self, chat_key: ChatKey) -> Capabilities:  # noqa: ARG002 (the protocol's)
        return Capabilities(inline=frozenset({Text}), alone=frozenset())

    async def send(self, delivery: Delivery) -> Receipt:
        self.called = self._clock()
        return Receipt(state=DeliveryState.SENT, message_id=delivery.delivery_id)

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:  # noqa: ARG002
        return frozenset({"bot"})

    async def start(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


def _raw(like: Path, *, batch: int) -> float:
    """How many rows per second the driver alone inserts into a new file with the tables of the
    database ``like``. ``batch`` is the number of rows in one transaction."""
    rows = _MESSAGES if batch > 1 else _LATENCIES
    with closing(sqlite3.connect(like)) as database:
        tables = [sql for (sql,) in database.execute(_SCHEMA)]
    path = like.with_name(f"raw{batch}.sqlite3")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        for sql in tables:
            database.execute(sql)
        statements = [_row(number) for number in range(rows)]
        one = INSERT.sql(1)
        begun = time.perf_counter()
        for first in range(0, rows, batch):
            database.execute("BEGIN")
            database.executemany(one.partition(" RETURNING")[0], statements[first : first + batch])
            database.execute("COMMIT")
        return rows / (time.perf_counter() - begun)


def _row(number: int) -> tuple[Value, ...]:
    message = _message(number)
    record = Record(
        seq=number + 1,
        chat_key=message.chat_key,
        author=Author.PERSON,
        segments=message.segments,
        time=message.time,
        message_id=message.message_id,
        sender=message.sender,
    )
    return MessageRepository.insert_statement(record, message.message_id).values


_SCHEMA = "SELECT sql FROM sqlite_master WHERE tbl_name = 'messages' AND sql IS NOT NULL"
