"""Shows a prompt to the hooks of MaiBot plugins, and applies their changes.

A hook gets the prompt twice: as ``messages``, dicts with ``role`` and ``content``, and as
``items``, the form of newer versions of MaiBot. A plugin changes one of the two forms. A hook also
gets the time as the last message, because MaiBot's own prompts end with it. This message is part of
the request only if a plugin has changed it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from nekro_core.compat.maibot.formats.prompt_messages import (
    Role,
    message_dicts,
    message_from,
    reworded,
)
from nekro_core.llm.model import PromptMessage, TextPart

_ITEM_TYPES: Mapping[Role, str] = {
    "system": "SystemMessageItem",
    "user": "UserMessageItem",
    "assistant": "AssistantMessageItem",
    "tool": "FunctionCallOutputItem",
}
_ROLES = {name: role for role, name in _ITEM_TYPES.items()}

PLAN_TIME, REPLY_TIME = "时间", "当前时间"
"""The words that MaiBot writes before the time in the prompts of planners and of repliers."""
Change = tuple[int | None, PromptMessage]
"""A message of a changed prompt, and its place in the original prompt. The place of a new message
is None."""


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """A prompt with the time at its end, as hooks get it."""

    originals: tuple[PromptMessage, ...]
    messages: list[dict[str, Any]]
    items: list[dict[str, Any]]

    @classmethod
    def of(cls, messages: Sequence[PromptMessage], now: datetime, label: str) -> "ShownPrompt":
        """Show a prompt. ``label`` is the word before the time. MaiBot has one word for planners
        and another for repliers."""
        time = PromptMessage.of("user", f"{label}：{now:%Y-%m-%d %H:%M:%S}")
        originals = (*messages, time)
        shown = message_dicts(originals)
        return cls(originals, shown, [_item(n, each, now) for n, each in enumerate(shown)])

    def kwargs(self) -> dict[str, Any]:
        """The arguments of a hook that describe the prompt."""
        return {"messages": self.messages, "items": self.items, "item_schema_version": 1}

    def changed(self, kwargs: Mapping[str, Any]) -> tuple[PromptMessage, ...]:
        """Apply the changes that are in a hook's arguments."""
        by_dict = _changes_of_messages(self.originals, self.messages, kwargs.get("messages"))
        by_item = _changes_of_items(self.originals, self.items, kwargs.get("items"))
        merged = _combined(self.originals, by_item, by_dict)
        last = len(self.originals) - 1
        kept = [
            (None if place == last else place, each)
            for place, each in merged
            if each is not self.originals[last]
        ]
        # A plugin that returns no messages has forgotten the argument, so the original prompt is
        # used.
        return tuple(_joined(kept)) if kept else self.originals[:last]


def _item(number: int, shown: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    meta = {
        "item_id": f"message-{number}",
        "logical_turn_id": None,
        "timestamp": now.isoformat(timespec="seconds"),
    }
    made: dict[str, Any] = {
        "item_type": _ITEM_TYPES[shown["role"]],
        "meta": meta,
        "parts": [{"type": "text", "text": shown["content"]}],
    }
    if shown["role"] == "tool":
        made |= {"output": shown["content"], "call_id": shown.get("tool_call_id", "")}
    if shown.get("tool_calls"):
        made["tool_calls"] = shown["tool_calls"]
    return made


def _changes_of_messages(
    originals: Sequence[PromptMessage], before: Sequence[Mapping[str, Any]], now: Any
) -> list[Change]:
    """Find the messages that a plugin changed. Messages that are exactly the same are found first.
    Then a message that differs only in its text is taken as the changed one."""
    if not isinstance(now, list):
        return [*enumerate(originals)]
    given = [each for each in now if isinstance(each, Mapping)]
    left = dict(enumerate(before))
    places: list[int | None] = []
    for each in given:
        place = next((n for n, shown in left.items() if shown == each), None)
        places.append(place)
        if place is not None:
            del left[place]
    made: list[Change] = []
    for each, place in zip(given, places, strict=True):
        if place is not None:
            made.append((place, originals[place]))
            continue
        alike = next((n for n, shown in left.items() if _is_alike(shown, each)), None)
        if alike is None:
            made.append((None, message_from(each)))
        else:
            del left[alike]
            made.append((alike, reworded(originals[alike], each)))
    return made


def _is_alike(shown: Mapping[str, Any], each: Mapping[str, Any]) -> bool:
    return all(shown.get(key) == each.get(key) for key in ("role", "tool_calls", "tool_call_id"))


def _changes_of_items(
    originals: Sequence[PromptMessage], before: Sequence[Mapping[str, Any]], now: Any
) -> list[Change]:
    """Find the items that a plugin changed, by their ids."""
    if not isinstance(now, list):
        return [*enumerate(originals)]
    places = {each["meta"]["item_id"]: number for number, each in enumerate(before)}
    made: list[Change] = []
    for each in now:
        if not isinstance(each, Mapping):
            continue
        meta = each.get("meta")
        place = places.pop(str(meta.get("item_id")), None) if isinstance(meta, Mapping) else None
        text = _text_of(each)
        if place is None:
            role = _ROLES.get(str(each.get("item_type")), "user")
            if text.strip():
                made.append((None, message_from({"role": role, "content": text})))
        elif text == _text_of(before[place]):
            made.append((place, originals[place]))
        else:
            made.append((place, reworded(originals[place], {"content": text})))
    return made


def _text_of(item: Mapping[str, Any]) -> str:
    parts = item.get("parts")
    texts = [
        str(part.get("text") or "")
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, Mapping) and part.get("type", "text") == "text"
    ]
    return "\n".join(texts)


def _combined(
    originals: Sequence[PromptMessage], base: list[Change], other: list[Change]
) -> list[Change]:
    """Apply the changes of ``other`` to ``base``. Both are changes of the same prompt: one in the
    form of ``messages``, the other in the form of ``items``. Different plugins or one plugin may
    have made them."""
    kept = {place for place, _ in other}
    new_words = {
        place: each for place, each in other if place is not None and each is not originals[place]
    }
    made: list[Change] = [
        (place, each if place is None else new_words.get(place, each))
        for place, each in base
        if place is None or place in kept
    ]
    known = {_words(each) for place, each in made if place is None}
    before: int | None = None
    for place, each in other:
        if place is not None:
            before = place
        elif _words(each) not in known:
            index = next((n for n, (at, _) in enumerate(made) if at == before), None)
            end = 0 if index is None else index + 1
            while end < len(made) and made[end][0] is None:
                end += 1
            made.insert(end, (None, each))
    return made


def _joined(changes: Iterable[Change]) -> list[PromptMessage]:
    """Join each new message with the message beside it if both have the same role.

    Some models accept system messages only at the beginning, and no two user messages in a row. A
    new system message elsewhere becomes a user message.
    """
    made: list[PromptMessage] = []
    was_new = False
    for place, each in changes:
        new = place is None
        message = each
        if new and each.role == "system" and any(other.role != "system" for other in made):
            message = replace(each, role="user")
        last = made[-1] if made else None
        joins = last is not None and last.role == message.role and message.role in _JOINED
        if last is not None and joins and (new or was_new):
            made[-1] = _one(last, message)
        else:
            made.append(message)
        was_new = new
    return made


_JOINED = ("system", "user")


def _one(first: PromptMessage, second: PromptMessage) -> PromptMessage:
    return replace(first, parts=(*first.parts, TextPart("\n\n"), *second.parts))


def _words(message: PromptMessage) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def with_words(messages: Sequence[PromptMessage], text: str) -> tuple[PromptMessage, ...]:
    """Add words to the newest message of the user. If the prompt has no message of the user, add a
    message with these words."""
    if not text:
        return tuple(messages)
    added = PromptMessage.of("user", text)
    place = next((n for n in reversed(range(len(messages))) if messages[n].role == "user"), None)
    if place is None:
        return (*messages, added)
    return (*messages[:place], _one(messages[place], added), *messages[place + 1 :])
