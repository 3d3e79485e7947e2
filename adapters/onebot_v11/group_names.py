"""Finds the names of groups. Some OneBot implementations send the name with each message. Others
are asked once for each group."""

from collections.abc import Awaitable, Callable, Mapping

from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.api.chat import ChatKey, ChatKind

from .connection import ActionError, NotConnected, OneBotConnection
from .incoming import Json, wire_id, words

NAME_S = 5.0
"""Time limit for the question, in seconds."""


class GroupNames:
    """The names of the groups of all connections, in memory. ``named`` stores a name that the
    implementation was asked for."""

    def __init__(self, tasks: TaskGroup, named: Callable[[ChatKey, str], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._named = named
        self._names: dict[ChatKey, str] = {}
        self._asked: set[ChatKey] = set()
        self._waiting: dict[ChatKey, OneBotConnection] = {}
        """The groups for whose names the implementations will be asked, one after another."""

    def of(self, connection: OneBotConnection, key: ChatKey, event: Json) -> str:
        """Return the name of the group in which an event happened; empty for a private chat, and if
        the name is not known yet.

        A message is not kept waiting for the name of its group. If the name is not known, the
        implementation is asked for it, once for each group, and ``named`` gets the answer.
        """
        if key.kind is not ChatKind.GROUP:
            return ""
        if name := words(event.get("group_name")):
            self._names[key] = name
        elif key not in self._names and key not in self._asked:
            self._asked.add(key)
            self._waiting[key] = connection
            if len(self._waiting) == 1:
                self._tasks.start_soon(self._ask_all, name="the names of groups")
        return self._names.get(key, "")

    async def _ask_all(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            try:
                await self._ask(self._waiting[key], key)
            except Exception as error:  # noqa: BLE001 - the host may raise anything
                logger.warning("{}: the name of the group is not stored: {!r}", key, error)
            del self._waiting[key]

    async def _ask(self, connection: OneBotConnection, key: ChatKey) -> None:
        group = {"group_id": wire_id(key.native_id)}
        try:
            answer = await connection.call("get_group_info", group, seconds=NAME_S)
        except NotConnected:
            self._asked.discard(key)  # the next connection is asked
            return
        except ActionError as error:
            logger.info("{}: the name of the group is not known: {}", key, error)
            return
        name = words(answer.get("group_name")) if isinstance(answer, Mapping) else ""
        if name:
            self._names.setdefault(key, name)
            await self._named(key, name)
