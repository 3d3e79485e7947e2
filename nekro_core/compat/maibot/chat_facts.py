"""Remembers data about a chat that MaiBot plugins read, and for which messages have no field. These
are the group's name, and the values that a plugin's message gateway, which connects the bot to a
platform, sent with the newest message."""

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import anyio
from loguru import logger

from nekro_core.chat import ChatKey, ChatKind

_MOST_CHATS = 2000
_ASK_S = 2.0
"""Time limit for the question to the platform, in seconds. A message waits for the answer."""
_WAIT_S = 1.0
"""How many of the `_ASK_S` seconds to wait for the answer to the adapter's own question: the
adapter for OneBot asks the platform when the first message of a group comes."""
_AGAIN_S = 600.0
"""Seconds until the platform is asked again if it did not answer."""
_LONGEST_VALUE = 4096
_ONEBOT = "onebot_v11"

Value = TypeVar("Value")


class ChatFacts:
    """The facts of up to 2,000 chats. The chats that were not used for the longest time are
    forgotten first."""

    def __init__(self) -> None:
        self._names = _Recent[str]()
        self._configs = _Recent[tuple[str, dict[str, Any]]]()
        self._ask_again = _Recent[float]()

    def group_name(self, chat: ChatKey) -> str:
        """The name of a group. If it is not known, the platform's id of the group. Empty for a
        private chat."""
        if chat.kind is ChatKind.PRIVATE:
            return ""
        return self._names.get(chat) or chat.native_id

    def set_group_name(self, chat: ChatKey, name: str) -> None:
        """Remember a group's name. An empty name changes nothing."""
        if name.strip():
            self._names.put(chat, name.strip())

    async def learn_group_name(
        self,
        chat: ChatKey,
        *,
        adapter: str,
        account: str,
        named: Callable[[ChatKey], Awaitable[str]],
    ) -> None:
        """Find out a group's name if it is not known. Only OneBot can be asked. ``named`` waits
        until the adapter has found out the name. If this takes too long, for example because the
        bot has no message of the group, the platform is asked here. This method returns after at
        most 2 s. If no name comes, the first call after `_AGAIN_S` tries again."""
        if chat.kind is ChatKind.PRIVATE or adapter != _ONEBOT or self._names.get(chat):
            return
        if anyio.current_time() < (self._ask_again.get(chat) or -math.inf):
            return
        self._ask_again.put(chat, anyio.current_time() + _AGAIN_S)
        with anyio.move_on_after(_ASK_S):
            with anyio.move_on_after(_WAIT_S):
                self.set_group_name(chat, await named(chat))
                return
            self.set_group_name(chat, await _onebot_group_name(account, chat.native_id))

    def config(self, chat: ChatKey, message_id: str = "") -> Mapping[str, Any]:
        """The ``additional_config`` of the newest message that a gateway received in a chat; empty
        if there is none. With ``message_id``, it is also empty if the newest message has another
        id."""
        newest, config = self._configs.get(chat) or ("", {})
        return config if message_id in ("", newest) else {}

    def set_config(self, chat: ChatKey, message_id: str, config: Any) -> None:
        """Remember the ``additional_config`` of a message that a gateway received. Values about a
        single notice, and values of more than 4,096 characters, are left out."""
        if isinstance(config, Mapping):
            kept = {
                str(key): value
                for key, value in config.items()
                if "notice" not in str(key) and len(str(value)) <= _LONGEST_VALUE
            }
            self._configs.put(chat, (message_id, kept))


class _Recent(Generic[Value]):
    def __init__(self) -> None:
        self._values: OrderedDict[ChatKey, Value] = OrderedDict()

    def get(self, chat: ChatKey) -> Value | None:
        if chat in self._values:
            self._values.move_to_end(chat)
        return self._values.get(chat)

    def put(self, chat: ChatKey, value: Value) -> None:
        self._values[chat] = value
        self._values.move_to_end(chat)
        while len(self._values) > _MOST_CHATS:
            self._values.popitem(last=False)


async def _onebot_group_name(account: str, group: str) -> str:
    import nonebot  # noqa: PLC0415 - slow to import; only OneBot needs it

    try:
        bot = nonebot.get_bot(account)
        info = await bot.call_api("get_group_info", group_id=int(group))
    except Exception as error:  # noqa: BLE001 - adapters raise errors of different classes
        logger.debug("the name of group {} is not known: {!r}", group, error)
        return ""
    return str(info.get("group_name") or "") if isinstance(info, Mapping) else ""
