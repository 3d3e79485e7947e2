"""Small values that the parts of the layer exchange."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nekro_core.api.chat import ChatKey, ChatKind


@dataclass(frozen=True, slots=True)
class Address:
    """A chat without the account that is in it."""

    kind: ChatKind
    native_id: str
    thread: str | None = None

    def key(self, instance: str) -> ChatKey:
        """The chat's name. Raises `ChatKeyError`."""
        return ChatKey(instance, self.kind, self.native_id, self.thread)


_NAMES = ("message_id", "id", "msg_id", "message_seq")


def account_message_id(message_id: str, key: ChatKey) -> str:
    """An id that is unique in its chat, made unique in its account."""
    return f"{message_id}@{key.native_id}" if message_id else ""


def native_message_id(message_id: str) -> str:
    """The platform's own part of an id made by `account_message_id`."""
    return message_id.partition("@")[0]


def qualified_user_id(user_id: str, bot: Any) -> str:
    """A user of an adapter in front of several platforms: ``platform:user``. ``bot`` says which."""
    return f"{bot.platform}:{user_id}"


def native_user_id(person: str, bot: Any) -> str:
    """The platform's own part of what `qualified_user_id` made; a bare user id as it is."""
    return person.removeprefix(f"{bot.platform}:")


def sent_message_id(result: Any) -> str:
    """The message id in whatever an adapter's send returned: nothing, an id, an object or a table
    with one, or several of these, of which the last counts."""
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
