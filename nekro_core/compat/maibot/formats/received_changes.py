"""Applies a plugin's changes of a received message to the segments of its record."""

from collections.abc import Mapping
from typing import Any

from nekro_core.chat import Mention, Reply, Segment, Segments, Text
from nekro_core.chat.rewording import reworded
from nekro_core.compat.maibot.formats.message_text import message_text
from nekro_core.compat.maibot.formats.messages import segment_of


def rewritten(
    segments: Segments, before: Mapping[str, Any], now: Mapping[str, Any]
) -> Segments | None:
    """Apply the changes of a message's text and mentions.

    Pictures and other media stay, because an erasure must still find the files of the record. A
    plugin that does not want the media can hide the message.

    Args:
        segments: The segments of the message.
        before: The message in MaiBot's form before the changes.
        now: The message after the changes. A plugin may change ``raw_message``,
            ``processed_plain_text`` or both.

    Returns:
        The new segments; None if nothing was changed.
    """
    raw, text = now.get("raw_message"), now.get("processed_plain_text")
    of_raw = None
    if raw != before["raw_message"]:
        of_raw = _of_raw(segments, raw)
    if not isinstance(text, str) or text == before["processed_plain_text"]:
        return of_raw
    if of_raw is not None and message_text(of_raw) == text:
        return of_raw
    return reworded(segments, before["processed_plain_text"], text)


def _of_raw(segments: Segments, raw: Any) -> Segments | None:
    """The segments for a changed ``raw_message``."""
    if isinstance(raw, str):
        raw = [{"type": "text", "data": raw}]
    if not isinstance(raw, list):
        return None
    left = [(segment_of(each), each) for each in segments]
    made: list[Segment] = []
    for each in raw:
        place = next((i for i, (shown, _) in enumerate(left) if _names(shown, each)), None)
        if place is not None:
            made.append(left.pop(place)[1])
        elif (plain := _plain_segment(each)) is not None:
            made.append(plain)
    made += [each for _, each in left if not isinstance(each, Text | Mention | Reply)]
    return tuple(each for each in made if not (isinstance(each, Text) and not each.text))


def _names(shown: Mapping[str, Any], given: Any) -> bool:
    """Return True if a dict is the dict of a segment, or names the same medium."""
    if shown == given:
        return True
    number = shown.get("hash")
    return bool(number) and isinstance(given, Mapping) and given.get("hash") == number


def _plain_segment(given: Any) -> Text | Mention | None:
    """The text or mention of a dict; None for any other dict."""
    if isinstance(given, str):
        return Text(given)
    if not isinstance(given, Mapping):
        return None
    data = given.get("data", given.get("content"))
    match str(given.get("type", "")).strip().lower():
        case "text":
            return Text(str(data.get("text", "") if isinstance(data, Mapping) else data or ""))
        case "at" | "mention" if isinstance(data, Mapping):
            user = data.get("target_user_id") or data.get("user_id") or data.get("qq")
            name = data.get("target_user_cardname") or data.get("target_user_nickname") or ""
            return Mention(str(user), str(name)) if user else None
    return None
