"""Finds a message of the bot in a platform's history. Does no I/O."""

import unicodedata
from collections import Counter
from collections.abc import Sequence

from nekro_core.chat import (
    DeliveryState,
    Mention,
    Receipt,
    Reply,
    Segment,
    Segments,
    Text,
    Unknown,
)
from nekro_core.delivery.adapter import PlatformMessage, UncertainDelivery

CLOCKS_S = 120.0
"""Maximum difference in seconds between our clock and the platform's. Used if only the time
distinguishes old messages from new ones."""


def match_delivery(
    doubt: UncertainDelivery, shown: Sequence[PlatformMessage], *, faithful: bool = True
) -> Receipt:
    """Search a gapless piece of a chat's history for the message of a delivery.
    `SupportsConfirmation.confirm` uses this.

    A match is a message of the bot with the same text and the same kinds of media. It is newer than
    all messages in ``doubt.before``; if the history shows none of these, its time must be later
    than ``doubt.since``, with a tolerance of `CLOCKS_S`. Its id is not in ``doubt.taken``, so it is
    not the message of another delivery. If there are several matches, the oldest is taken.

    If there is no match, the outcome is ``rejected`` only if the history reaches back to a message
    in ``doubt.before`` and shows a message of the bot that certainly arrived. This is required
    because some servers of platforms store no history, omit the bot's messages, or renumber
    messages. A platform that is not ``faithful`` may show a message with changed content. So if it
    shows a new message of the bot with an unknown id, this may be the delivery's message, and the
    outcome is ``unknown``.

    Args:
        doubt: The call, and the data that distinguishes its message from others.
        shown: A piece of the chat's history without gaps, oldest first.
        faithful: Whether the platform shows messages with the content that was sent.

    Returns:
        ``sent`` with the message's id, ``rejected`` if the message did not arrive, ``unknown`` if
        the history does not show whether the message arrived.
    """
    wanted = _likeness(doubt.delivery.segments)
    places = [place for place, each in enumerate(shown) if each.message_id in doubt.before]
    reaches = bool(places)
    begins = places[-1] + 1 if places else 0
    unexplained = False
    for each in shown[begins:]:
        young = reaches or each.time >= doubt.since - CLOCKS_S
        fresh = each.own and young and each.message_id not in doubt.taken
        if fresh and _likeness(each.segments) == wanted:
            return Receipt(state=DeliveryState.SENT, message_id=each.message_id)
        unexplained = unexplained or fresh
    if unexplained and not faithful:
        reason = "the platform shows another message of ours, which may be this one"
        return Receipt(state=DeliveryState.UNKNOWN, reason=reason)
    if reaches and any(each.own and each.message_id in doubt.taken for each in shown):
        return Receipt(state=DeliveryState.REJECTED, reason="the platform's history has it not")
    reason = "the platform's history shows too little to tell"
    return Receipt(state=DeliveryState.UNKNOWN, reason=reason)


def _likeness(segments: Segments) -> tuple[str, Counter[str]]:
    """Return the parts of a message that platforms preserve: text without white space, mentions,
    and the number of media of each kind. The reply mark is left out, because some platforms show it
    as text and some drop it."""
    words = "".join(segment.text for segment in segments if isinstance(segment, Text))
    things = Counter(
        segment.user_id if isinstance(segment, Mention) else _kind(segment)
        for segment in segments
        if not isinstance(segment, Text | Reply)
    )
    return "".join(unicodedata.normalize("NFC", words).split()), things


def _kind(segment: Segment) -> str:
    """Return the kind of a segment. Some platforms show a `Forward` in their history as a JSON or
    XML card, or without its messages. So these kinds of `Unknown` count as a `Forward`."""
    card = isinstance(segment, Unknown) and segment.kind in ("forward", "json", "xml")
    return "Forward" if card else type(segment).__name__
