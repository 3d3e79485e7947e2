"""Writes the result of a call as text for the store, and reads it again.

A replay of a turn uses recorded results instead of calling plugins. Long results, and results that
cannot be written as JSON, such as bytes and pictures, are not recorded.
"""

import json
from typing import Any, assert_never

from nekro_core.tools.content import TextContent
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    Outcome,
    RichObservation,
    ToolCallFailed,
    ToolReturn,
    ToolReturnMedia,
)

MAX_RESULT = 16_384
"""Maximum number of characters of a recorded result."""


def result_text(outcome: Outcome, *, sent: bool) -> str:
    """Return the result of a call as JSON; empty if it must not be recorded. ``sent`` says whether
    the call sent a message."""
    fields: dict[str, Any] = {"sent": True} if sent else {}
    match outcome:
        case ToolReturn(value, text, ends):
            fields |= {"value": value, "text": text, "ends": ends}
        case BehaviorReturn(text):
            fields["behavior"] = text
        case Observation(text):
            fields["observation"] = text
        case RichObservation(parts) if all(isinstance(each, TextContent) for each in parts):
            fields["parts"] = [each.text for each in parts if isinstance(each, TextContent)]
        case ToolCallFailed(message):
            fields["failed"] = message
        case ToolReturnMedia() | RichObservation():
            return ""
        case _:
            assert_never(outcome)
    fields = {key: each for key, each in fields.items() if each or key in ("value", "behavior")}
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""
    return text if len(text) <= MAX_RESULT and json.loads(text) == fields else ""


def recorded_outcome(text: str) -> tuple[Outcome, bool] | None:
    """Return the outcome of a recorded result, and whether the call sent a message. Return None if
    the result was not recorded."""
    if not text:
        return None
    fields = json.loads(text)
    sent = bool(fields.get("sent"))
    if "failed" in fields:
        return ToolCallFailed(fields["failed"]), sent
    if "behavior" in fields:
        return BehaviorReturn(fields["behavior"]), sent
    if "observation" in fields:
        return Observation(fields["observation"]), sent
    if "parts" in fields:
        return RichObservation(tuple(map(TextContent, fields["parts"]))), sent
    ends, words = bool(fields.get("ends")), fields.get("text", "")
    return ToolReturn(fields.get("value"), words, ends), sent


def has_sent(text: str) -> bool:
    """Return whether a recorded result says that the call sent a message."""
    return bool(text) and bool(json.loads(text).get("sent"))
