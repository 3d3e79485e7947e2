"""Prompts as plugins write them (OpenAI's message dicts), and as our models take them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from nekro_core.llm.model import AudioPart, FunctionCall, ImagePart, Part, PromptMessage, TextPart
from nekro_core.tools.content import AudioContent, ContentError, ImageContent, contents

Role = Literal["system", "user", "assistant", "tool"]
_ROLES: tuple[Role, ...] = get_args(Role)


def prompt_messages(prompt: Any) -> tuple[PromptMessage, ...]:
    """A text, or a list of ``{"role", "content"}``; nothing where it is neither."""
    if isinstance(prompt, str):
        return (PromptMessage.of("user", prompt),) if prompt.strip() else ()
    if not isinstance(prompt, list):
        return ()
    return tuple(_message(each) for each in prompt if isinstance(each, Mapping))


def message_dicts(messages: Sequence[PromptMessage]) -> list[dict[str, Any]]:
    """The same the other way; pictures and sounds are named, not copied."""
    made: list[dict[str, Any]] = []
    for each in messages:
        shown: dict[str, Any] = {"role": each.role, "content": _words(each)}
        if each.calls:
            shown["tool_calls"] = [
                {"id": call.call_id, "function": {"name": call.name, "arguments": call.arguments}}
                for call in each.calls
            ]
        if each.answers:
            shown["tool_call_id"] = each.answers
        made.append(shown)
    return made


def merge_changes(
    messages: Sequence[PromptMessage], before: list[dict[str, Any]], now: Any
) -> tuple[PromptMessage, ...]:
    """The messages after a plugin changed their dicts: what is equal stays what it was, with its
    pictures and calls."""
    if not isinstance(now, list):
        return tuple(messages)
    left = list(zip(before, messages, strict=True))
    made: list[PromptMessage] = []
    for each in now:
        if not isinstance(each, Mapping):
            continue
        place = next((i for i, (shown, _) in enumerate(left) if shown == each), None)
        if place is not None:
            made.append(left.pop(place)[1])
            continue
        # A message whose words alone are others is still that message.
        same = next((i for i, (shown, _) in enumerate(left) if _alike(shown, each)), None)
        made.append(_reworded(left.pop(same)[1], each) if same is not None else _message(each))
    return tuple(made) if made else tuple(messages)


def calls_of(given: Any) -> list[FunctionCall] | None:
    """Calls as a plugin gives them back; None where it gives none that can be read."""
    if not isinstance(given, list):
        return None
    found = []
    for number, each in enumerate(given, 1):
        inner = each.get("function") if isinstance(each, Mapping) else None
        if not isinstance(inner, Mapping) or not isinstance(inner.get("arguments"), Mapping):
            return None
        call_id = str(each.get("id") or f"call_{number}")
        found.append(
            FunctionCall(call_id=call_id, name=str(inner["name"]), arguments=inner["arguments"])
        )
    return found


def _alike(shown: Mapping[str, Any], each: Mapping[str, Any]) -> bool:
    return all(shown.get(key) == each.get(key) for key in ("role", "tool_calls", "tool_call_id"))


def _reworded(message: PromptMessage, each: Mapping[str, Any]) -> PromptMessage:
    others = tuple(part for part in message.parts if not isinstance(part, TextPart))
    words = each.get("content")
    text = (TextPart(words),) if isinstance(words, str) and words else ()
    return PromptMessage(message.role, (*text, *others), message.calls, message.answers)


def _message(given: Mapping[str, Any]) -> PromptMessage:
    role: Role = next((each for each in _ROLES if each == given.get("role")), "user")
    content = given.get("content", "")
    answers = str(given.get("tool_call_id") or "")
    if role == "tool" and not answers:
        role = "user"
    if isinstance(content, str):
        return PromptMessage(role, (TextPart(content),), answers=answers)
    try:
        parts = tuple(map(_part, contents(content)))
    except ContentError as error:
        parts = (TextPart(f"({error})"),)
    return PromptMessage(role, parts, answers=answers)


def _part(content: Any) -> Part:
    match content:
        case ImageContent(data=data, mime=mime, url=url):
            return ImagePart(data, mime or "image/png", url)
        case AudioContent(data=data, format=sound):
            return AudioPart(data, sound)
    return TextPart(content.text)


def _words(message: PromptMessage) -> str:
    shown = []
    for part in message.parts:
        match part:
            case TextPart(text):
                shown.append(text)
            case ImagePart():
                shown.append("[image]")
            case AudioPart():
                shown.append("[audio]")
    return "\n".join(shown)
