"""Implements OpenAI's newer protocol "Responses". Requests ask the provider to store nothing.

Source: the API reference "Responses" and "Streaming events" of OpenAI.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from nekro_core.llm.dialect import sendable
from nekro_core.llm.events import (
    ContentEvent,
    DoneEvent,
    ErrorEvent,
    Event,
    FinishEvent,
    ReasoningEvent,
    RefusalEvent,
    UsageEvent,
    count_of,
)
from nekro_core.llm.function_calls import FunctionCallDelta
from nekro_core.llm.modalities import drop_unsupported_parts
from nekro_core.llm.model import (
    ChatRequest,
    Function,
    FunctionCall,
    ImagePart,
    ModelProfile,
    Part,
    PromptMessage,
    TextPart,
    message_text,
)
from nekro_core.llm.wire_format import EventReader

_LEAST_TOKENS = 16
"""Minimum for the limit of reply tokens; the API refuses a smaller one."""
_UNKNOWN_FIELDS = frozenset({"frequency_penalty", "presence_penalty", "top_k"})
"""Fields that this API refuses. They are left out, because plugins may set them for every model."""
_STATUS = {"rate_limit_exceeded": 429, "server_error": 500, "invalid_prompt": 400}
"""The HTTP status of errors that are reported inside a stream."""
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIResponses:
    """Implements `WireFormat`."""

    temperature: bool = True
    path: str = "responses"
    takes_stop: bool = False

    def headers(self, key: str) -> dict[str, str]:
        """See `WireFormat.headers`."""
        return {"Authorization": f"Bearer {key or 'none'}"}

    def encode(
        self, request: ChatRequest, profile: ModelProfile, extra_body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """See `WireFormat.encode`."""
        fields: dict[str, Any] = {
            "model": profile.name,
            "input": [*_encode_items(request.messages, profile)],
            "stream": True,
            "store": False,
            "max_output_tokens": max(request.max_tokens, _LEAST_TOKENS),
        }
        if request.functions and profile.functions:
            fields["tools"] = [_encode_function(each) for each in request.functions]
        if request.temperature is not None and self.temperature:
            fields["temperature"] = request.temperature
        extra = {key: each for key, each in request.extra.items() if key not in _UNKNOWN_FIELDS}
        return fields | {**extra_body, **extra}

    def reader(self) -> EventReader:
        """See `WireFormat.reader`."""
        return _ResponsesReader().read

    def whole(self, reply: dict[str, Any]) -> list[Event]:
        """See `WireFormat.whole`."""
        if reply.get("object") != "response" and reply.get("error"):
            return [_error(reply["error"])]
        reader, events = _ResponsesReader(), list[Event]()
        output = reply.get("output")
        for index, item in enumerate(output if isinstance(output, list) else []):
            events += reader.read(
                {"type": "response.output_item.done", "output_index": index, "item": item}
            )
            events += _texts_of(item)
        kind = f"response.{reply.get('status')}"
        return [*events, *reader.read({"type": kind, "response": reply})]

    def without(self, complaint: str) -> Self | None:
        """See `WireFormat.without`."""
        if self.temperature and "temperature" in complaint.lower():
            return replace(self, temperature=False)
        return None


class _ResponsesReader:
    """Reads the events of one response."""

    def __init__(self) -> None:
        self._begun: set[int] = set()
        self._argued: set[int] = set()

    def read(self, event: dict[str, Any]) -> list[Event]:
        """Return the events of one JSON object."""
        kind, delta = event.get("type"), event.get("delta")
        index = count_of(event.get("output_index"))
        if isinstance(delta, str) and delta:
            return self._delta(str(kind), index, delta)
        match kind:
            case "response.output_item.added" | "response.output_item.done":
                return self._item(index, event.get("item"), done=kind.endswith("done"))
            case "response.completed" | "response.incomplete":
                return _end(event.get("response"))
            case "response.failed":
                response = event.get("response")
                return [_error(response.get("error") if isinstance(response, dict) else None)]
            case "error":
                return [_error(event.get("error") or event)]
        return []

    def _delta(self, kind: str, index: int, delta: str) -> list[Event]:
        match kind:
            case "response.output_text.delta":
                return [ContentEvent(delta)]
            case "response.refusal.delta":
                return [RefusalEvent(delta)]
            case "response.function_call_arguments.delta":
                self._argued.add(index)
                return [FunctionCallDelta(index=index, arguments=delta)]
        return [ReasoningEvent(delta)] if kind in _THOUGHTS else []

    def _item(self, index: int, item: Any, *, done: bool) -> list[Event]:
        """Return the events of a function call that begins or ends. Some servers send the arguments
        only at the end."""
        if not isinstance(item, dict) or item.get("type") != "function_call":
            return []
        begun = index in self._begun
        self._begun.add(index)
        call_id, name, arguments = (item.get(key) for key in ("call_id", "name", "arguments"))
        given = isinstance(arguments, str) and bool(arguments) and index not in self._argued
        if begun and not (done and given):
            return []
        if given:
            self._argued.add(index)
        return [
            FunctionCallDelta(
                index=index,
                call_id=call_id if isinstance(call_id, str) else "",
                name=name if isinstance(name, str) and not begun else "",
                arguments=str(arguments) if given else "",
                whole=done and given,
            )
        ]


def _texts_of(item: Any) -> list[Event]:
    content = item.get("content") if isinstance(item, dict) else None
    events: list[Event] = []
    for part in content if isinstance(content, list) else []:
        match part:
            case {"type": "output_text", "text": str(text)} if text:
                events.append(ContentEvent(text))
            case {"type": "refusal", "refusal": str(text)} if text:
                events.append(RefusalEvent(text))
    return events


def _end(response: Any) -> list[Event]:
    response = response if isinstance(response, dict) else {}
    events: list[Event] = []
    usage = response.get("usage")
    if isinstance(usage, dict):
        prompt, completion = (
            count_of(usage.get("input_tokens")),
            count_of(usage.get("output_tokens")),
        )
        details = usage.get("input_tokens_details")
        cached = count_of(details.get("cached_tokens")) if isinstance(details, dict) else 0
        if prompt or completion:
            events.append(UsageEvent(prompt, completion, min(cached, prompt)))
    why = response.get("incomplete_details")
    reason = why.get("reason") if isinstance(why, dict) else None
    word = {None: "stop", "max_output_tokens": "length"}.get(reason, str(reason))
    return [*events, FinishEvent(word), DoneEvent()]


def _error(error: Any) -> ErrorEvent:
    if not isinstance(error, dict):
        return ErrorEvent(error or "an error without a message")
    status = _STATUS.get(str(error.get("code")))
    return ErrorEvent({**error, "type": error.get("code"), "code": status} if status else error)


def _encode_items(
    messages: Iterable[PromptMessage], profile: ModelProfile
) -> Iterable[dict[str, Any]]:
    for message in messages:
        if message.role == "tool":
            output = sendable(message_text(message))
            yield {"type": "function_call_output", "call_id": message.answers, "output": output}
            continue
        parts = drop_unsupported_parts(message, replace(profile, audio=False)).parts
        if all(isinstance(part, TextPart) for part in parts):
            text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
            if text or not message.calls:
                yield {"role": message.role, "content": sendable(text)}
        else:
            yield {"role": message.role, "content": [*map(_encode_part, parts)]}
        yield from map(_encode_call, message.calls)


def _encode_part(part: Part) -> dict[str, Any]:
    match part:
        case ImagePart(data, mime, url):
            address = url or f"data:{mime};base64,{base64.b64encode(data).decode()}"
            return {"type": "input_image", "image_url": address, "detail": "auto"}
        case TextPart(text):
            return {"type": "input_text", "text": sendable(text)}
    raise AssertionError(f"{type(part).__name__}: parts that cannot be sent were replaced by notes")


def _encode_call(call: FunctionCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name or "unknown",
        "arguments": sendable("{}" if call.problem else call.written),
    }


def _encode_function(function: Function) -> dict[str, Any]:
    return {
        "type": "function",
        "name": function.name,
        "description": sendable(function.description),
        "parameters": function.parameters,
        "strict": False,
    }
