"""Fetches data that a message only refers to: media, quoted messages, bundles."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import anyio
from loguru import logger

from nekro_core.api.adapter import Expected, MediaKeeper
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    Forward,
    ForwardedMessage,
    Media,
    Reply,
    Unknown,
    plain_text,
)

from .connection import ActionError, OneBotConnection
from .incoming import Json, person_of, read_segments, time_of, wire_id, words

LOOKUP_S = 5.0
"""Time limit for one call to the OneBot implementation, in seconds."""
MESSAGE_S = 15.0
"""Time limit for all lookups of a message, in seconds from its arrival. Media that are not fetched
by then are marked as missing. The chat's next messages wait for this message. While they wait, the
download of their own media begins."""
HISTORY_S = 30.0
"""Time limit, in seconds, for all lookups of one chat's missed messages together."""
AT_ONCE = 4
"""Maximum number of media of one message that use the chat's download slots at once. Thus the media
of the chat's next messages can be fetched while a message with twenty media is being fetched."""
MEDIA_PER_MESSAGE = 20
"""Maximum number of media of a message that are fetched. QQ lets a person send 20 pictures at once.
Only a bundle has more, or a message of an attacker."""
BUNDLE_MESSAGES = 100
BUNDLE_DEPTH = 3
QUOTED_LENGTH = 500
"""A reply quotes at most this many characters of the message that it answers."""

_EXPECTED: Mapping[str, Expected] = {"image": "image", "record": "audio", "video": "video"}
_ACTIONS = {"image": "get_image", "record": "get_record", "video": "get_file", "file": "get_file"}


FetchSlot = Callable[[], AbstractAsyncContextManager[Any]]
"""Takes one of the chat's download slots for the time of the context."""


class MessageLookups:
    """The `OneBotLookups` of one message. The number of media and the total time are limited. If a
    lookup fails, its return value says so, and no error is raised."""

    def __init__(
        self,
        connection: OneBotConnection,
        media: MediaKeeper,
        chat_key: ChatKey,
        *,
        fetch_slot: FetchSlot = nullcontext,
        deadline: float | None = None,
        depth: int = 0,
    ) -> None:
        self._connection = connection
        self._keeper = media
        self._chat_key = chat_key
        self._depth = depth
        self._media_left = MEDIA_PER_MESSAGE
        self._fetch_slot = fetch_slot
        self._slots: anyio.CapacityLimiter | None = None
        """Limits the media that are fetched at once. Most messages have no media, so it is made
        with the first one."""
        # Only missed messages have a common deadline.
        self._limit_s = MESSAGE_S if deadline is None else HISTORY_S
        latest = anyio.current_time() + MESSAGE_S
        self._deadline = latest if deadline is None else deadline

    async def media(self, kind: str, data: Json) -> Media:
        """Fetch a medium from the address in its segment. If the segment has none, ask the OneBot
        implementation for an address."""
        name = words(data.get("name") or data.get("file") or data.get("file_id"))
        if name.startswith(("base64://", "data:", "http://", "https://")):
            name = ""
        if self._media_left <= 0:
            return Media(name=name, problem=f"only {MEDIA_PER_MESSAGE} media of a message are kept")
        self._media_left -= 1
        with anyio.move_on_after(self._deadline - anyio.current_time()):
            if self._slots is None:
                self._slots = anyio.CapacityLimiter(AT_ONCE)
            async with self._slots, self._fetch_slot():
                return await self._store(kind, data, name)
        return Media(name=name, problem=f"not fetched within {self._limit_s:g} s")

    async def _store(self, kind: str, data: Json, name: str) -> Media:
        address = _address(data) or await self._ask_for_address(kind, data)
        if not address:
            return Media(
                name=name, problem="the OneBot implementation offers no address to fetch it from"
            )
        return await self._keeper.keep_url(
            self._chat_key, address, name=name, expect=_EXPECTED.get(kind, "file")
        )

    async def quoted(self, message_id: str) -> Reply:
        """Request the quoted message with ``get_msg``. If that fails, the reply has only the id."""
        message = await self._ask("get_msg", {"message_id": wire_id(message_id)})
        if not isinstance(message, Mapping):
            return Reply(message_id)
        # The media of a quoted message are not fetched: a quotation shows only their names.
        segments = await read_segments(message.get("message"), OfflineLookups())
        return Reply(message_id, person_of(message), plain_text(segments)[:QUOTED_LENGTH])

    async def bundle(self, data: Json) -> Forward | Unknown:
        """Return the messages of a bundle. If the segment does not contain them, they are requested
        with ``get_forward_msg``."""
        identity = words(data.get("id"))
        if self._depth >= BUNDLE_DEPTH:
            return Unknown("forward", f"nested deeper than {BUNDLE_DEPTH}")
        content = data.get("content")
        if not isinstance(content, list):
            # The standard names the parameter "id", go-cqhttp "message_id". NapCat accepts both.
            answer = await self._ask("get_forward_msg", {"message_id": identity, "id": identity})
            content = (
                (answer.get("messages") or answer.get("message"))
                if isinstance(answer, Mapping)
                else None
            )
        if not isinstance(content, list):
            return Unknown("forward", identity)
        self._depth += 1
        messages = [
            await self._forwarded(node)
            for node in content[:BUNDLE_MESSAGES]
            if isinstance(node, Mapping)
        ]
        self._depth -= 1
        return Forward(tuple(messages))

    async def _forwarded(self, node: Json) -> ForwardedMessage:
        # A standard node has its fields in ``data``. Some implementations send a whole message
        # instead of a node.
        inner = node.get("data")
        part: Json = inner if isinstance(inner, Mapping) else node
        author = part.get("sender")
        sender: Json = author if isinstance(author, Mapping) else {}
        message = part.get("content") if part.get("content") is not None else part.get("message")
        return ForwardedMessage(
            person_of(part) or words(part.get("uin")),
            words(sender.get("card") or sender.get("nickname") or part.get("nickname")),
            await read_segments(message, self),
            time_of(part, 0.0),
        )

    async def _ask_for_address(self, kind: str, data: Json) -> str:
        file_id = words(data.get("file_id") or data.get("id"))
        file = words(data.get("file"))
        if kind == "file" and file_id:
            group = self._chat_key.kind is ChatKind.GROUP
            id_field = "group_id" if group else "user_id"
            answer = await self._ask(
                "get_group_file_url" if group else "get_private_file_url",
                {
                    id_field: wire_id(self._chat_key.native_id),
                    "file_id": file_id,
                    "busid": data.get("busid"),
                },
            )
            if address := _address(answer):
                return address
        question = {"file": file, "file_id": file_id or file}
        if kind == "record":
            question["out_format"] = "wav"
        return _address(await self._ask(_ACTIONS.get(kind, "get_file"), question))

    async def _ask(self, action: str, params: Mapping[str, Any]) -> Any:
        seconds = min(LOOKUP_S, self._deadline - anyio.current_time())
        if seconds <= 0:
            return None
        try:
            return await self._connection.call(action, params, seconds=seconds)
        except ActionError as error:
            logger.info("{}: the call {} failed: {}", self._chat_key, action, error)
            return None


class OfflineLookups:
    """`OneBotLookups` that make no calls: they return only names and ids."""

    async def media(self, _kind: str, data: Json) -> Media:
        """See `OneBotLookups.media`."""
        return Media(name=words(data.get("name") or data.get("file"))[:QUOTED_LENGTH])

    async def quoted(self, message_id: str) -> Reply:
        """See `OneBotLookups.quoted`."""
        return Reply(message_id)

    async def bundle(self, data: Json) -> Forward | Unknown:
        """See `OneBotLookups.bundle`."""
        return Unknown("forward", words(data.get("id")))


def _address(data: Any) -> str:
    """Return an address that can be fetched. Paths are ignored, because a path means a file on the
    machine of the OneBot implementation. If the bot read paths, a peer could make the bot send
    files of the bot's machine."""
    if not isinstance(data, Mapping):
        return ""
    encoded = data.get("base64")
    if isinstance(encoded, str) and encoded:
        return f"base64://{encoded}"
    for key in ("url", "file"):
        value = data.get(key)
        if isinstance(value, str) and value.startswith(
            ("http://", "https://", "base64://", "data:")
        ):
            return value
    return ""
