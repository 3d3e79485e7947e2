"""Tells the processes that share a database which rows another process has changed.

A process holds some rows in memory, such as the bot's accounts. Code that changes such rows adds
the statements of `announcement` to its own. When the change is committed, PostgreSQL sends a
notification to all processes (``NOTIFY``), and each process calls its followers: functions that
read the changed rows again. While a process has lost its connection, it gets no notifications. So
after each connect, every follower reads everything again.

If only one process uses the database, there is nothing to announce, and this module does nothing.
"""

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from enum import StrEnum

import anyio
from loguru import logger

from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.errors import StoreError
from nekro_core.system.errors import NekroError

CHANNEL = "'nekro:' || current_schema()"
"""An SQL expression: the name of the PostgreSQL channel of the notifications."""
NODE_LOCK = 0x6E656B72
"""The first half of the key of the advisory lock that every process of a database holds: "nekr" in
ASCII. The second half is a hash of the schema's name."""
_PROCESSES = (
    "SELECT COUNT(*) AS number FROM pg_locks WHERE locktype = 'advisory' AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND classid = {NODE_LOCK} AND objsubid = 2 "
    "AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid"
)
_AGAIN_S = 1.0
"""Seconds before the next attempt to connect. While the server is away, each process tries once a
second."""
_MOST_QUEUED = 1000
"""Maximum number of changes for which the followers have not been called yet. If there are more,
these changes are dropped, and every follower reads everything again instead."""

Follower = Callable[[str], Awaitable[None]]


class ChangeTopic(StrEnum):
    """What has changed. The text below each member says which name an announcement has."""

    DOCUMENTS = "documents"
    """A document of the operator. The name is the document's name."""
    ACCOUNTS = "accounts"
    """The accounts of the bot. The name is an instance."""
    CHATS = "chats"
    """The name of a chat is new or has changed. The announcement has the chat key as its name."""
    TIMERS = "timers"
    """A timer. The name is the id of the timer."""
    MEDIA_FILES = "media_files"
    """Media of a chat were deleted. The name has an id of the process that deleted them, a space
    and the chat key."""
    BOX_FILES = "box_files"
    """The files of boxes of a chat were deleted. The name is as above."""
    ERASED = "erased"
    """Rows about a person were deleted. There is no name."""
    ERASE = "erase"
    """Processes ask each other to erase a person, and answer. No row is changed. The name is the
    message, see `nekro_core.agent.erasure.shared_erasure`."""
    MEMORY_CHATS = "memory_chats"
    """The link of a chat's memory, or the record up to which its notes were drawn. The name is the
    chat key."""
    MEMORY_OFF = "memory_off"
    """The people about whom nothing is remembered. There is no name."""
    PLUGINS = "plugins"
    """A plugin of all processes. The name is its item."""
    PLUGIN_REPORTS = "plugin_reports"
    """Which plugins a process cannot use. There is no name."""
    PLUGIN_OBJECTS = "plugin_objects"
    """A process asks for the files of a plugin, which are not in the object store. No row is
    changed. The name is the plugin's item."""


def announcement(database: Database, topic: ChangeTopic, name: str = "") -> list[SqlStatement]:
    """Return the statements that announce a change. When they are committed, PostgreSQL notifies
    the processes. There are no statements if no other process uses the database. Each statement
    adds one item to the results of a write."""
    if not database.shared:
        return []
    return [SqlStatement(f"SELECT pg_notify({CHANNEL}, ?)", (f"{topic} {name}",))]


class ChangeFeed:
    """Calls followers when another process has changed rows. Announcements of this process itself
    call them too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followers: defaultdict[str, list[Follower]] = defaultdict(list)
        self._queue: deque[tuple[str, str]] = deque()
        self._came = anyio.Event()
        self._problem = ""
        self.live = False
        """Whether this process gets all announcements at present. While this is False, rows in
        memory may be out of date."""

    def listen(self, topic: ChangeTopic, follower: Follower) -> None:
        """Call ``follower`` after each change of this topic, with the name of what changed. An
        empty name means that anything may have changed. Followers are called one after another. If
        a follower raises a `NekroError` or an `OSError`, the error is logged, and the follower is
        called again after the next connect."""
        self._followers[topic].append(follower)

    async def announce(self, topic: ChangeTopic, name: str) -> None:
        """Call the followers of a topic in all processes. Raises `StoreError`, for example if
        ``name`` is longer than 7,900 bytes."""
        if told := announcement(self._database, topic, name):
            await self._database.write(*told)

    async def processes(self) -> int:
        """Count the processes that use the database now, with this one. Raises `StoreError`."""
        if not self._database.shared:
            return 1
        (row,) = await self._database.read(_PROCESSES)
        return int(row["number"])

    async def follow(self) -> None:
        """Receive changes and call the followers until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._receive, name="changes of other processes")
            while True:
                while self._queue:
                    await self._call_followers(*self._queue.popleft())
                self._came = anyio.Event()
                await self._came.wait()

    async def _receive(self) -> None:
        while True:
            try:
                await self._database.listen(self._told, self._begun)
            except StoreError as error:
                if str(error) != self._problem:
                    logger.warning("changes of other processes are not told: {}", error)
                self._problem = str(error)
            self.live = False
            await anyio.sleep(_AGAIN_S)

    def _begun(self) -> None:
        self._problem = ""
        self.live = True
        self._all_again()

    def _told(self, text: str) -> None:
        topic, _, name = text.partition(" ")
        if len(self._queue) >= _MOST_QUEUED:
            self._all_again()
        else:
            self._queue.append((topic, name))
            self._came.set()

    def _all_again(self) -> None:
        self._queue = deque((topic, "") for topic in self._followers)
        self._came.set()

    async def _call_followers(self, topic: str, name: str) -> None:
        for follower in self._followers.get(topic, ()):
            try:
                await follower(name)
            except (NekroError, OSError) as error:
                logger.warning("a change of {} {} is not read yet: {}", topic, name, error)
