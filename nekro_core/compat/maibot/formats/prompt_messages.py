"""Converts prompts between OpenAI's message dicts, which plugins use, and `PromptMessage`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from nekro_core.llm.model import AudioPart, FunctionCall, ImagePart, Part, PromptMessage, TextPart
from nekro_core.tools.content import AudioContent, ContentError, ImageContent, contents

Role = Literal["system", "user", "assistant", "tool"]
_ROLES: tuple[Role, ...] = get_args(Role)


def prompt_messages(prompt: Any) -> tuple[PromptMessage, ...]:
    """Convert a text or a list of ``{"role", "content"}`` to messages. Empty for any other
    value."""
    if isinstance(prompt, str):
        return (PromptMessage.of("user", prompt),) if prompt.strip() else ()
    if not isinstance(prompt, list):
        return ()
    return tuple(_message(each) for each in prompt if isinstance(each, Mapping))


def message_dicts(messages: Sequence[PromptMessage]) -> list[dict[str, Any]]:
    """Convert messages to dicts. A picture becomes ``[image]``, a sound ``[audio]``."""
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
    """Apply a plugin's changes of message dicts to the messages. ``before`` are the dicts that the
    plugin got, one for each message; ``now`` is what it returned.

    If a dict is unchanged, or only its text was changed, its message keeps its pictures and calls.
    """
    if not isinstance(now, list):
        return tuple(messages)
    left = list(zip(before, messages, strict=True))
    made: list[PromptMessage] = []
    for each in now:
        if not isinstance(each, Mapping):
            continue
        index = next((i for i, (shown, _) in enumerate(left) if shown == each), None)
        if index is not None:
            made.append(left.pop(index)[1])
            continue
        # No message has exactly this dict. If the dict of a message differs only in its text, the
        # plugin has changed the text of this message.
        same = next((i for i, (shown, _) in enumerate(left) if _alike(shown, each)), None)
        made.append(_reworded(left.pop(same)[1], each) if same is not None else _message(each))
    return tuple(made) if made else tuple(messages)


def calls_of(given: Any) -> list[FunctionCall] | None:
    """Convert a plugin's dicts to function calls. None if a dict is invalid."""
    if not isinstance(given, list):
        return None
    calls = []
    for number, each in enumerate(given, 1):
        inner = each.get("function") if isinstance(each, Mapping) else None
        if not isinstance(inner, Mapping) or not isinstance(inner.get("arguments"), Mapping):
            return None
        call_id = str(each.get("id") or f"call_{number}")
        calls.append(
            FunctionCall(call_id=call_id, name=str(inner["name"]), arguments=inner["arguments"])
        )
    return calls


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
