"""Defines chat addresses, and the formats of message and user ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nekro_core.api.chat import ChatKey, ChatKind


@dataclass(frozen=True, slots=True)
class Address:
    """A chat key without the account's instance."""

    kind: ChatKind
    native_id: str
    thread: str | None = None

    def key(self, instance: str) -> ChatKey:
        """Return the chat key. Raises `ChatKeyError`."""
        return ChatKey(instance, self.kind, self.native_id, self.thread)


_NAMES = ("message_id", "id", "msg_id", "message_seq")


def account_message_id(message_id: str, key: ChatKey) -> str:
    """Return a message id that is unique within the account: ``id@chat``."""
    return f"{message_id}@{key.native_id}" if message_id else ""


def native_message_id(message_id: str) -> str:
    """Return the platform's part of an id that `account_message_id` made."""
    return message_id.partition("@")[0]


def qualified_user_id(user_id: str, bot: Any) -> str:
    """Return ``platform:user``, for an adapter of NoneBot that serves several platforms. The
    argument ``bot`` names the platform."""
    return f"{bot.platform}:{user_id}"


def native_user_id(person: str, bot: Any) -> str:
    """Return the user's part of an id that `qualified_user_id` made. Other ids are returned
    unchanged."""
    return person.removeprefix(f"{bot.platform}:")


def sent_message_id(result: Any) -> str:
    """Return the message id in the result of an adapter's send; empty if there is none. The result
    may be an id, an object or mapping with an id, or a sequence of these. In a sequence, the last
    id counts."""
    match result:
        case None | bool():
            return ""
        case str() | int():
            return str(result)
        case Mapping():
            candidates = [result.get(name) for name in _NAMES]
        case Sequence():
            candidates = [sent_message_id(each) for each in reversed(result)]
        case _:
            candidates = [getattr(result, name, None) for name in _NAMES]
    return next((str(each) for each in candidates if each not in (None, "")), "")
