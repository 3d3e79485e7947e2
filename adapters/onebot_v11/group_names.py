"""Finds the names of groups. Some OneBot implementations send the name with each message. Others
are asked once for each group."""

from collections.abc import Mapping

from loguru import logger

from nekro_core.api.chat import ChatKey, ChatKind

from .connection import ActionError, NotConnected, OneBotConnection
from .incoming import Json, wire_id, words

NAME_S = 2.0
"""Time limit for the question, in seconds. The first message of a group waits for the answer."""


class GroupNames:
    """The names of the groups of all connections, in memory."""

    def __init__(self) -> None:
        self._names: dict[ChatKey, str] = {}

    async def of(self, connection: OneBotConnection, key: ChatKey, event: Json) -> str:
        """Return the name of the group in which an event happened; empty for a private chat. It is
        also empty if the OneBot implementation does not give the name. In this case, this method
        does not ask again. Never raises."""
        if key.kind is not ChatKind.GROUP:
            return ""
        if name := words(event.get("group_name")):
            self._names[key] = name
        elif key not in self._names:
            await self._ask(connection, key)
        return self._names.get(key, "")

    async def _ask(self, connection: OneBotConnection, key: ChatKey) -> None:
        group = {"group_id": wire_id(key.native_id)}
        try:
            answer = await connection.call("get_group_info", group, seconds=NAME_S)
        except NotConnected:
            return  # nothing is stored, so the next connection is asked
        except ActionError as error:
            logger.info("{}: the name of the group is not known: {}", key, error)
            answer = {}
        self._names[key] = words(answer.get("group_name")) if isinstance(answer, Mapping) else ""
