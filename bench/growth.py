"""Measures what a message, a turn and a chat leave behind, in the units from which docs/growth.md
reckons how many chats a machine carries: bytes and rows of the database, its write-ahead log, bytes
of NATS, memory, connections."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec

from bench.cluster import Place
from bench.figure import Figure
from bench.idle_boxes import pss
from bench.turn_load import TOKEN, PacedModel, TurnLoad, bot_settings
from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.nats_log import NatsPartitionLog
from nekro_core.cluster.record_items import RecordItem
from nekro_core.cluster.subjects import PARTITION_STREAM
from nekro_core.store import Store
from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.read_database import StoreLook
from tests.peers.nats import NatsServer
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import ScriptedModelServer

MESSAGES = 5000
TEXT = "somebody says something of about forty chars"
CHATS = 50
TURNS = 500
MANY_CHATS = 2000
SESSION_IDLE_S = 5
"""After this many seconds of silence the session of a chat leaves the memory. The default is 60 s,
and the figure is the same, but later."""
SETTLED_S = 8.0
"""Seconds after which the background work of the last messages has ended."""
ITEMS = 10_000


async def figures(*, small: bool = False) -> list[Figure]:
    """Return the figures of this part. With ``small``, a fifth of the messages are stored."""
    part = 5 if small else 1
    with PostgresServer() as postgres, tempfile.TemporaryDirectory() as folder:
        async with ScriptedModelServer(PacedModel()) as model:
            settings = bot_settings(model.base_url) | {
                "NEKRO_AGENT__SESSION_IDLE_S": str(SESSION_IDLE_S)
            }
            found = await _left_behind(Path(folder) / "sqlite", settings, None, part)
            found += await _left_behind(Path(folder) / "postgres", settings, postgres, part)
            found += await _connections(Place(Path(folder), postgres, settings))
    return [*found, await _item()]


async def _left_behind(
    folder: Path, settings: dict[str, str], postgres: PostgresServer | None, part: int
) -> list[Figure]:
    """What messages, turns and chats leave in the database and in memory."""
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs
    url = await postgres.empty_database() if postgres else ""
    name = "PostgreSQL" if postgres else "SQLite"
    given = settings | ({"NEKRO_DATABASE_URL": url} if url else {})
    async with (
        running_bot(folder, **given) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
        StoreLook(bot.data, url) as look,
    ):
        await peer.wait_connected()
        measured = _Database(bot, look, postgres, url)
        await measured.settle()

        before = await measured.sizes()
        count = MESSAGES // part
        for number in range(count):
            await peer.say_in_group(
                40_000 + number % CHATS, 10_001 + number % 500, f"{TEXT} {number}"
            )
        await measured.stored(count)
        message = (await measured.sizes()).minus(before, count)

        load = TurnLoad(peer, 41_000)
        async with load.busy(CHATS):
            await load.turns(CHATS)
        await measured.settle()
        before, done = await measured.sizes(), len(load.answered_at)
        async with load.busy(CHATS):
            await load.turns(TURNS // part)
        await measured.settle()
        turn = (await measured.sizes()).minus(before, len(load.answered_at) - done)

        memory = measured.memory()
        for group in range(MANY_CHATS):
            await peer.say_in_group(50_000 + group, 10_001, TEXT)
        await measured.stored(MANY_CHATS)
        await anyio.sleep(SESSION_IDLE_S + SETTLED_S)
        chat = (measured.memory() - memory) / MANY_CHATS
    text = len(TEXT.encode()) / 1024
    words = "the text of the message"
    found = [
        Figure(
            name=f"growth: {name}, a message", unit="KiB", p50=message.stored / 1024, floor=text,
            floor_name=words,
        ),
        Figure(name=f"growth: {name}, rows of a message", unit="rows", p50=message.rows, floor=1),
        Figure(
            name=f"growth: {name}, a turn with its question and answer", unit="KiB",
            p50=turn.stored / 1024, floor=2 * text, floor_name="two such texts",
        ),
        Figure(name=f"growth: {name}, rows of a turn", unit="rows", p50=turn.rows, floor=3),
        Figure(name=f"growth: memory of an idle chat, on {name}", unit="KiB", p50=chat / 1024),
    ]  # fmt: skip
    if postgres is not None:
        found += [
            Figure(
                name="growth: write-ahead log of a message", unit="KiB", p50=message.log / 1024,
                floor=message.stored / 1024, floor_name="what is stored of it",
            ),
            Figure(
                name="growth: write-ahead log of a turn", unit="KiB", p50=turn.log / 1024,
                floor=turn.stored / 1024, floor_name="what is stored of it",
            ),
        ]  # fmt: skip
    return found


class _Sizes:
    """The bytes of the database, its rows, and the bytes that its write-ahead log has carried."""

    def __init__(self, stored: float, rows: float, log: float) -> None:
        self.stored = stored
        self.rows = rows
        self.log = log

    def minus(self, before: "_Sizes", count: int) -> "_Sizes":
        """What came since ``before``, for each of ``count``."""
        return _Sizes(
            (self.stored - before.stored) / count,
            (self.rows - before.rows) / count,
            (self.log - before.log) / count,
        )


class _Database:
    """Measures the database and the memory of a bot."""

    def __init__(
        self, bot: BotProcess, look: StoreLook, postgres: PostgresServer | None, url: str
    ) -> None:
        self._bot = bot
        self._look = look
        self._postgres = postgres
        self._url = url
        self._messages = 0

    async def settle(self) -> None:
        """Wait until the background work has ended."""
        await anyio.sleep(SETTLED_S)

    async def stored(self, count: int) -> None:
        """Wait until this many more messages of people are stored, and until the background work
        has ended."""
        query = (
            "SELECT COUNT(*) FROM messages WHERE author = 'person' "
            "AND chat_key NOT LIKE '%group_41%'"
        )
        self._messages += count
        with anyio.fail_after(300):
            while (await self._look.column(query))[0] < self._messages:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.1)
        await self.settle()

    def memory(self) -> int:
        """The memory of the bot's process in bytes."""
        assert self._bot.process is not None
        return pss([self._bot.process.pid])

    async def sizes(self) -> _Sizes:
        """The present sizes."""
        if self._postgres is None:
            return await self._sizes_of_file()
        # `PostgresServer` switches ``full_page_writes`` off. Otherwise the log would also get the
        # whole page when a page changes for the first time after a checkpoint.
        await self._postgres.run("CHECKPOINT", url=self._url)
        tables = await self._look.column(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        )
        (size,) = await self._look.column(
            "SELECT SUM(pg_total_relation_size(tablename::regclass)) FROM pg_tables "
            "WHERE schemaname = 'public'"
        )
        (log,) = await self._look.column("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
        return _Sizes(float(size), await self._rows(tables), float(log))

    async def _sizes_of_file(self) -> _Sizes:
        tables = await self._look.column(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        (pages,) = await self._look.column("PRAGMA page_count")
        (free,) = await self._look.column("PRAGMA freelist_count")
        (page,) = await self._look.column("PRAGMA page_size")
        return _Sizes((pages - free) * page, await self._rows(tables), 0.0)

    async def _rows(self, tables: Sequence[str]) -> float:
        counted = 0
        for table in tables:
            counted += (await self._look.column(f'SELECT COUNT(*) FROM "{table}"'))[0]
        return counted


async def _connections(place: Place) -> list[Figure]:
    """How many connections to PostgreSQL the processes of a cluster open while they answer."""
    async with (
        place.cluster(2) as (cluster, _),
        OneBotPeer("20003", TOKEN, cluster.gateways[0].onebot_url) as peer,
    ):
        await peer.wait_connected()
        await anyio.sleep(SETTLED_S)
        load = TurnLoad(peer, 42_000)
        async with load.busy(CHATS):
            await load.turns(CHATS * 4)
            found = {
                role: max(_connections_to(place.postgres.port, each) for each in processes)
                for role, processes in (("gateway", cluster.gateways), ("worker", cluster.workers))
            }
    return [
        Figure(
            name=f"growth: connections of a {role} to PostgreSQL", unit="", p50=count, floor=1,
            floor_name="one that writes",
        )
        for role, count in found.items()
    ]  # fmt: skip


def _connections_to(port: int, bot: BotProcess) -> int:
    """The number of TCP connections of a process to a port of this machine."""
    assert bot.process is not None
    sockets = set()
    for each in Path(f"/proc/{bot.process.pid}/fd").iterdir():
        try:
            sockets.add(str(each.readlink()))
        except FileNotFoundError:
            continue  # It was closed meanwhile.
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    return sum(
        int(each[2].rpartition(":")[2], 16) == port and f"socket:[{each[9]}]" in sockets
        for each in fields
    )


async def _item() -> Figure:
    """How many bytes NATS stores for an item of a partition (for example, "a record was stored")
    until a worker has handled it."""
    with NatsServer() as nats, tempfile.TemporaryDirectory() as folder:
        async with (
            Store.open(f"sqlite://{folder}/epochs.sqlite3") as store,
            NatsConnection.open(read_cluster_url(nats.url), name="bench", role="gateway") as link,
        ):
            log = await NatsPartitionLog.open(link, store.partitions)
            item = msgspec.json.encode(RecordItem("onebot_v11-group_123456789", 1_234_567_890))
            for number in range(ITEMS):
                await log.publish(number % log.partitions, item, item_id=f"item {number}")
            state = (await link.api(f"STREAM.INFO.{PARTITION_STREAM}"))["state"]
    return Figure(
        name="growth: an item in NATS until it is handled", unit="bytes",
        p50=state["bytes"] / state["messages"], floor=len(item), floor_name="its content",
    )  # fmt: skip
