"""Removes a person from stored values, if the person asks to be forgotten. This module does no
I/O."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from nekro_core.chat.segments import (
    Forward,
    ForwardedMessage,
    Mention,
    Notice,
    Reply,
    Segment,
    Segments,
    Text,
)

ERASED = "[erased]"
"""Replaces an id in a text."""
SHORTEST = 5
"""Minimum number of characters of an id that is replaced in texts. A shorter id may also be an
ordinary word or number."""


@dataclass(frozen=True)
class RedactionTarget:
    """The person to forget: all spellings of the person's id, and the ids of the person's
    messages."""

    ids: frozenset[str]
    message_ids: frozenset[str] = frozenset()

    @cached_property
    def _written(self) -> frozenset[str]:
        """The ids as they can appear in a text: unchanged, and escaped as in JSON."""
        in_json = (
            json.dumps(each, ensure_ascii=plain)[1:-1]
            for each in self.ids
            for plain in (True, False)
        )
        return self.ids.union(in_json)

    def text(self, text: str) -> str:
        """Return the text with `ERASED` in place of each id that is a separate word."""
        long = sorted((each for each in self._written if len(each) >= SHORTEST), key=len)[::-1]
        if not any(each in text for each in long):
            return text
        either = "|".join(map(re.escape, long))
        return re.sub(rf"(?<![0-9A-Za-z])(?:{either})(?![0-9A-Za-z])", ERASED, text)

    def segments(self, segments: Segments) -> Segments:
        """Return the segments without the person. Ids in texts are replaced. A mention of the
        person loses the id, and `ERASED` replaces the name. A reply to a message of the person
        loses the message's id, sender and text. The person's messages in a forwarded bundle are
        removed."""
        return tuple(map(self._segment, segments))

    def value(self, value: Any) -> Any:
        """Redact a value from a plugin's stored JSON. Entries whose key is the person's id, and
        objects about the person (`is_about`), are removed. A value that is only the id becomes
        None; if it is an item of a list, it is removed. Ids in texts are replaced."""
        match value:
            case dict():
                return {
                    key: self._blank(each)
                    for key, each in value.items()
                    if key not in self.ids and not self.is_about(each)
                }
            case list():
                kept = (each for each in value if not self._is(each) and not self.is_about(each))
                return [self.value(each) for each in kept]
            case str():
                return self.text(value)
        return value

    def stored(self, text: str) -> str:
        """Redact a plugin's stored text. If the text is JSON, its values are redacted."""
        if not any(each in text for each in self._written):
            return text
        try:
            value = json.loads(text)
        except ValueError:
            return self.text(text)
        if not isinstance(value, dict | list):
            return self.text(text)
        found = self.value(value)
        return text if found == value else json.dumps(found, ensure_ascii=False)

    def _blank(self, value: Any) -> Any:
        return None if self._is(value) else self.value(value)

    def _is(self, value: Any) -> bool:
        if isinstance(value, int) and not isinstance(value, bool):
            return len(str(value)) >= SHORTEST and str(value) in self.ids
        return isinstance(value, str) and value in self.ids

    def is_about(self, value: Any) -> bool:
        """Return True if a JSON object has the person's id as one of its values."""
        return isinstance(value, dict) and any(self._is(each) for each in value.values())

    def _segment(self, segment: Segment) -> Segment:
        match segment:
            case Text(text, markdown):
                return Text(self.text(text), markdown)
            case Mention(user_id=user_id) if user_id in self.ids:
                return Mention("", ERASED)
            case Reply(sender_id=sender, message_id=message):
                if sender in self.ids or message in self.message_ids:
                    return Reply("")
                return msgspec.structs.replace(segment, text=self.text(segment.text))
            case Forward(messages):
                kept = (each for each in messages if each.sender_id not in self.ids)
                return Forward(tuple(map(self._forwarded, kept)))
            case Notice():
                return msgspec.structs.replace(
                    segment,
                    actor_id="" if segment.actor_id in self.ids else segment.actor_id,
                    target_id="" if segment.target_id in self.ids else segment.target_id,
                    detail=self.text(segment.detail),
                )
        return segment

    def _forwarded(self, message: ForwardedMessage) -> ForwardedMessage:
        return msgspec.structs.replace(message, segments=self.segments(message.segments))


def id_spellings(user_id: str, places: Collection[str]) -> frozenset[str]:
    """Return the spellings of an id in the store. These are the id alone, and ``PLACE:ID`` for each
    of ``places``. A place is the name of an adapter or account."""
    return frozenset({user_id, *(f"{place}:{user_id}" for place in places)})
