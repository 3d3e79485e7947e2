"""Converts prompts between OpenAI's message dicts, which plugins use, and `PromptMessage`."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from nekro_core.llm.model import (
    AudioPart,
    Function,
    FunctionCall,
    ImagePart,
    Part,
    PromptMessage,
    TextPart,
)
from nekro_core.tools.content import AudioContent, ContentError, ImageContent, contents

Role = Literal["system", "user", "assistant", "tool"]
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_ROLES: tuple[Role, ...] = get_args(Role)


def prompt_messages(prompt: Any) -> tuple[PromptMessage, ...]:
    """Convert a text or a list of ``{"role", "content"}`` to messages. Empty for any other
    value."""
    if isinstance(prompt, str):
        return (PromptMessage.of("user", prompt),) if prompt.strip() else ()
    if not isinstance(prompt, list):
        return ()
    return tuple(message_from(each) for each in prompt if isinstance(each, Mapping))


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


def function_dicts(functions: Sequence[Function]) -> list[dict[str, Any]]:
    """Convert functions to the dicts of OpenAI's interface."""
    return [
        {
            "type": "function",
            "function": {
                "name": each.name,
                "description": each.description,
                "parameters": dict(each.parameters),
            },
        }
        for each in functions
    ]


def changed_functions(
    functions: Sequence[Function],
    before: list[dict[str, Any]],
    now: Any,
    callable_names: Container[str] = (),
) -> tuple[Function, ...]:
    """Apply a plugin's changes of function dicts.

    A plugin can leave out a function or describe it in another way. A function is added only if it
    is among ``callable_names``, because calls of any other function would not be carried out. If
    there were no functions, because the model writes code, no function is added.
    """
    if not functions or not isinstance(now, list) or now == before:
        return tuple(functions)
    known = {each.name: each for each in functions}
    made: dict[str, Function] = {}
    for each in now:
        inner = each.get("function", each) if isinstance(each, Mapping) else None
        if not isinstance(inner, Mapping):
            continue
        name = str(inner.get("name"))
        function = known.get(name)
        if function is None and name in callable_names:
            function = Function(name=name, description="", parameters=_NO_PARAMETERS)
        if function is None:
            continue
        parameters = inner.get("parameters")
        made[name] = replace(
            function,
            description=str(inner.get("description") or function.description),
            parameters=parameters if isinstance(parameters, Mapping) else function.parameters,
        )
    return tuple(made.values())


def calls_of(given: Any) -> list[FunctionCall] | None:
    """Convert a plugin's dicts to function calls. None if a dict is invalid."""
    if not isinstance(given, list):
        return None
    calls = []
    for number, each in enumerate(given, 1):
        inner = each.get("function") if isinstance(each, Mapping) else None
        if not isinstance(inner, Mapping) or not isinstance(inner.get("arguments"), Mapping):
            return None
        name, call_id = inner.get("name"), str(each.get("id") or f"call_{number}")
        if not isinstance(name, str) or not name:
            return None
        calls.append(FunctionCall(call_id=call_id, name=name, arguments=inner["arguments"]))
    return calls


def reworded(message: PromptMessage, each: Mapping[str, Any]) -> PromptMessage:
    """Replace the text of a message by the ``content`` of a dict. Its pictures and calls stay."""
    others = tuple(part for part in message.parts if not isinstance(part, TextPart))
    words = message_from({"content": each.get("content")}).parts
    text = [part for part in words if isinstance(part, TextPart) and part.text]
    return PromptMessage(message.role, (*text, *others), message.calls, message.answers)


def message_from(given: Mapping[str, Any]) -> PromptMessage:
    """Convert a dict with ``role`` and ``content`` to a message."""
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
