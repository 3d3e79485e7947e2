"""Finds and fetches the messages that an account missed, after each connection."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from loguru import logger

from nekro_core.api.chat import ChatKind

from .connection import ActionError, OneBotConnection
from .incoming import Json, stamp_of, time_of, wire_id, words

QUESTION_S = 10.0
"""Time limit for one page or list, in seconds."""
PAGE = 100
"""Messages per request. NapCat's default is 20."""
PAGES = 20
"""Maximum number of pages of one chat, which are 2,000 messages. Older missed messages are not
read."""
CONFIRM_PAGES = 5
"""Maximum number of pages that are searched for a message of the bot. They are the chat's last 500
messages."""
CHATS = 200
"""Maximum number of entries that are read from the list of recent contacts, of groups, and of
friends. In these lists new chats are found."""
OVERLAP_S = 60.0
"""A new chat's history is read from this many seconds before the newest stored message. The store
may have messages of two chats in another order than they were sent. For a new account, the history
is read from this many seconds before the first connection. An earlier process may have received
messages of the account, and may have been killed before it stored the account."""

ChatTarget = tuple[ChatKind, str]


@dataclass(frozen=True, slots=True)
class Gap:
    """A chat that may have missed messages from the time ``since`` on (seconds since 1970)."""

    place: ChatTarget
    since: float


async def find_gaps(
    connection: OneBotConnection, known: Mapping[ChatTarget, float], begun: float
) -> list[Gap]:
    """Return the chats whose history must be read.

    ``known`` maps each chat to the time of its newest stored message. These chats come first,
    sorted by this time, newest first. New chats follow. The history of a new chat is read from
    `OVERLAP_S` before the newest message of all known chats on. If there is no known chat, the
    history is read from `OVERLAP_S` before ``begun`` on (seconds since 1970), because a crash may
    have lost the first messages. If the OneBot implementation lists recent contacts, chats without
    newer messages are left out.
    """
    since = max(known.values(), default=begun) - OVERLAP_S
    recent = await _recent(connection)
    if recent is None:
        gaps = [Gap(chat, newest_time) for chat, newest_time in known.items()]
        new = [chat for chat in await _everywhere(connection) if chat not in known]
    else:
        # If the list is full, the last message of an unlisted chat is older than every
        # listed time.
        unlisted = min(recent.values()) if len(recent) >= CHATS else 0.0
        gaps = [
            Gap(chat, newest_time)
            for chat, newest_time in known.items()
            if recent.get(chat, unlisted) >= newest_time
        ]
        new = [chat for chat, newest in recent.items() if chat not in known and newest >= since]
    gaps.sort(key=lambda gap: gap.since, reverse=True)
    return [*gaps, *(Gap(chat, since) for chat in new)]


async def missed_messages(connection: OneBotConnection, gap: Gap) -> list[Json]:
    """Return the message events of a chat since ``gap.since``, oldest first; empty if the
    OneBot implementation has no history."""
    messages = await _pages(
        connection, gap.place, PAGES, lambda page: min(map(_time, page)) < gap.since
    )
    # The sort is stable: messages of the same second keep the order in which the OneBot
    # implementation listed them.
    return sorted((event for event in messages if _time(event) >= gap.since), key=_time)


async def newest(
    connection: OneBotConnection, place: ChatTarget, known: Collection[str]
) -> list[Json]:
    """Return the newest message events of a chat, oldest first; empty if the OneBot implementation
    has no history. Reads pages until one has an id in ``known``, at most `CONFIRM_PAGES` pages."""
    return await _pages(
        connection,
        place,
        CONFIRM_PAGES,
        lambda page: any(words(event.get("message_id")) in known for event in page),
    )


async def _pages(
    connection: OneBotConnection, place: ChatTarget, most: int, enough: Callable[[list[Json]], bool]
) -> list[Json]:
    """Read a chat's history backwards, at most ``most`` pages, until ``enough`` returns True for a
    page."""
    kind, native = place
    action = "get_group_msg_history" if kind is ChatKind.GROUP else "get_friend_msg_history"
    where = {"group_id" if kind is ChatKind.GROUP else "user_id": wire_id(native)}
    messages: dict[str, Json] = {}
    before: Any = None
    for _ in range(most):
        # The call does not name an order: OneBot implementations have different names for the
        # order, and all return the newest messages by default.
        question = {**where, "count": PAGE} | ({} if before is None else {"message_seq": before})
        answer = await _ask(connection, action, question)
        page = answer.get("messages") if isinstance(answer, Mapping) else None
        if not isinstance(page, list):
            break
        fresh = {
            words(event.get("message_id")): event
            for event in page
            if isinstance(event, Mapping) and words(event.get("message_id")) not in messages
        }
        if not fresh:
            break
        messages = {**fresh, **messages}
        if enough([*fresh.values()]):
            break
        oldest = min(fresh.values(), key=_time)
        before = oldest.get("message_seq") or oldest.get("message_id")
    return [*messages.values()]


async def _recent(connection: OneBotConnection) -> dict[ChatTarget, float] | None:
    """Return the time of each recent chat's last message. None if the OneBot implementation has
    no such list; NapCat and LLBot have it."""
    entries = await _ask(connection, "get_recent_contact", {"count": CHATS})
    if not isinstance(entries, list):
        return None
    return {
        (_KINDS[str(entry["chatType"])], words(entry["peerUin"])): stamp_of(
            entry.get("msgTime"), 0.0
        )
        for entry in entries
        if isinstance(entry, Mapping)
        and str(entry.get("chatType")) in _KINDS
        and entry.get("peerUin")
    }


async def _everywhere(connection: OneBotConnection) -> list[ChatTarget]:
    """List groups and friends, at most `CHATS` of each."""
    chats = []
    for kind, key, action in (
        (ChatKind.GROUP, "group_id", "get_group_list"),
        (ChatKind.PRIVATE, "user_id", "get_friend_list"),
    ):
        entries = await _ask(connection, action, {})
        chats += [
            (kind, words(entry[key]))
            for entry in (entries if isinstance(entries, list) else [])[:CHATS]
            if isinstance(entry, Mapping) and entry.get(key)
        ]
    return chats


_KINDS = {"1": ChatKind.PRIVATE, "2": ChatKind.GROUP}
"""The values of ``chatType`` in QQ's own client."""


async def _ask(connection: OneBotConnection, action: str, params: Mapping[str, Any]) -> Any:
    try:
        return await connection.call(action, params, seconds=QUESTION_S)
    except ActionError as error:
        logger.info("{}: the call {} failed: {}", connection.source, action, error)
        return None


def _time(event: Json) -> float:
    return time_of(event, 0.0)
