"""Checks the names of rooms and speakers, and converts them to chat keys. In this adapter, a room
is a chat of the page: a group, or a person's private chat."""

import unicodedata

from nekro_core.api.chat import EVERYONE, ChatKey, ChatKind
from nekro_core.api.console import WebApiError

BOT_ID = "bot"
"""The platform id of the bot's account. It is the same for every web chat."""
MAX_NAME = 64
"""Maximum number of characters of a room's or speaker's name."""
_FORBIDDEN = frozenset('/\\#%?@"<>')


def valid_name(what: str, text: str) -> str:
    """Return the name in Unicode's composed form. Raises `WebApiError` if it is not valid."""
    name = unicodedata.normalize("NFC", text.strip())
    if not name or len(name) > MAX_NAME:
        raise WebApiError(
            422, "name", f"{what}: expected 1 to {MAX_NAME} characters, got {len(name)}"
        )
    for character in name:
        # The categories "C...": control characters, invisible formats (zero width, right-to-left
        # override), lone surrogates.
        if character in _FORBIDDEN or unicodedata.category(character)[0] == "C":
            raise WebApiError(
                422, "name", f"{what}: the character {character!r} is not allowed in a name"
            )
        if character != " " and unicodedata.category(character)[0] == "Z":
            raise WebApiError(
                422, "name", f"{what}: the only white space allowed is the plain space"
            )
    if not name.strip("."):
        raise WebApiError(422, "name", f"{what}: {name!r} is no name")
    return name


def valid_speaker(text: str) -> str:
    """Check a speaker's name, which is also the speaker's id. Raises `WebApiError`, also for the
    ids of the bot and of "everyone"."""
    name = valid_name("speaker", text)
    if name.casefold() in {BOT_ID, EVERYONE}:
        raise WebApiError(422, "speaker", f"{name!r} is taken: choose another name for the speaker")
    return name


def room_key(instance: str, room: str) -> ChatKey:
    """Return the chat key of the room ``group_<name>`` or ``private_<speaker>``. A name without a
    prefix means a group."""
    kind_text, underscore, name = room.partition("_")
    if underscore and kind_text in {ChatKind.GROUP, ChatKind.PRIVATE}:
        kind = ChatKind(kind_text)
    else:
        kind, name = ChatKind.GROUP, room
    check = valid_speaker if kind is ChatKind.PRIVATE else _valid_room
    return ChatKey(instance, kind, check(name))


def room_name(key: ChatKey) -> str:
    """Return a room's name as it is used in addresses, before percent-encoding."""
    return f"{key.kind.value}_{key.native_id}"


def _valid_room(name: str) -> str:
    return valid_name("room", name)
