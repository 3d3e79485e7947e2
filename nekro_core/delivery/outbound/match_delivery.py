"""Finds a message of the bot among those that a platform shows. Does no I/O."""

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
"""Most seconds between our clock and the platform's. Used where only the time tells old from new.
"""


def match_delivery(
    doubt: UncertainDelivery, shown: Sequence[PlatformMessage], *, faithful: bool = True
) -> Receipt:
    """Search a gapless piece of the chat's history for a delivery, for
    `SupportsConfirmation.confirm`.

    The delivery's message is the first own one after all earlier messages that has the same text
    and the same kinds of media, and whose id is not known as another message's. ``rejected`` needs
    a history that reaches back to an earlier message and shows an own message that is known to have
    arrived. For some implementations store no history, or omit the bot's messages, or number
    messages anew. A platform that is not ``faithful`` may show a message otherwise than it was
    sent. There, any new own message with an unknown id may be the one, so the outcome stays
    ``unknown``.

    Args:
        doubt: The call, and what tells its message from others.
        shown: A piece of the chat's history without gaps, oldest first.
        faithful: Whether the platform shows messages as they were sent.

    Returns:
        ``sent`` with the message's id, ``rejected`` where it is not there, ``unknown`` where the
        history cannot tell.
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
    """The parts of a message that platforms preserve: text without white space, mentions, and the
    number of media of each kind. A reply's mark is left out: some platforms show it as text, some
    drop it."""
    words = "".join(segment.text for segment in segments if isinstance(segment, Text))
    things = Counter(
        segment.user_id if isinstance(segment, Mention) else _kind(segment)
        for segment in segments
        if not isinstance(segment, Text | Reply)
    )
    return "".join(unicodedata.normalize("NFC", words).split()), things


def _kind(segment: Segment) -> str:
    """The kind of a segment. Some histories show a bundle only as a card."""
    card = isinstance(segment, Unknown) and segment.kind in ("forward", "json", "xml")
    return "Forward" if card else type(segment).__name__
