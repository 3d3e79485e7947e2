"""Implements Anthropic's protocol "Messages", with marks for the provider's prompt cache.

Source: the API reference "Messages", and the guides "Streaming messages", "Prompt caching" and
"Errors" of Anthropic, API version 2023-06-01.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
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

_VERSION = "2023-06-01"
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")
_CACHED = {"cache_control": {"type": "ephemeral"}}
"""A field of a block. It marks the end of a prefix of the prompt that the provider caches for five
minutes. Tokens that are read from the cache cost a tenth of the price; tokens that are written to
it cost a quarter more than the price."""
_UNKNOWN_FIELDS = frozenset({"frequency_penalty", "presence_penalty"})
"""Fields that this API refuses. They are left out, because plugins may set them for every model."""
_DATA_URL = re.compile(r"data:([\w/+.-]+);base64,(.*)", re.DOTALL)
_EMPTY = "(empty)"
"""The text that is sent for a message without content, because this API refuses empty messages."""
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each kind of error, for errors inside a stream, which come without a
status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicMessages:
    """Implements `WireFormat`."""

    temperature: bool = True
    cache_marks: bool = True
    path: str = "messages"
    takes_stop: bool = True

    def headers(self, key: str) -> dict[str, str]:
        """See `WireFormat.headers`."""
        return {"x-api-key": key or "none", "anthropic-version": _VERSION}

    def encode(
        self, request: ChatRequest, profile: ModelProfile, extra_body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """See `WireFormat.encode`.

        The provider caches tools, instructions and messages in this order. One mark is at the end
        of the instructions, which many turns have in common. The other mark is at the end of the
        prompt, because the prompt of the turn's next step begins with this prompt.
        """
        system, turns = _encode_messages(request.messages, profile)
        fields: dict[str, Any] = {
            "model": profile.name,
            "max_tokens": request.max_tokens,
            "stream": True,
        }
        if request.functions and profile.functions:
            fields["tools"] = [_encode_function(each) for each in request.functions]
        if system:
            fields["system"] = system
        fields["messages"] = turns
        if self.cache_marks:
            _mark(system or fields.get("tools", []))
            _mark(turns[-1]["content"])
        if request.temperature is not None and self.temperature:
            fields["temperature"] = min(request.temperature, 1.0)
        if stop := [each for each in request.stop if each.strip()]:
            fields["stop_sequences"] = stop
        extra = {key: each for key, each in request.extra.items() if key not in _UNKNOWN_FIELDS}
        return fields | {**extra_body, **extra}

    def reader(self) -> EventReader:
        """See `WireFormat.reader`."""
        return _AnthropicReader().read

    def whole(self, reply: dict[str, Any]) -> list[Event]:
        """See `WireFormat.whole`."""
        if reply.get("type") == "error":
            return [_error(reply.get("error"))]
        reader, events = _AnthropicReader(), list[Event]()
        events += reader.read({"type": "message_start", "message": reply})
        content = reply.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            events += _whole_block(index, block)
        delta = {"stop_reason": reply.get("stop_reason")}
        events += reader.read(
            {"type": "message_delta", "delta": delta, "usage": reply.get("usage")}
        )
        return [*events, DoneEvent()]

    def without(self, complaint: str) -> Self | None:
        """See `WireFormat.without`."""
        complaint = complaint.lower()
        if self.cache_marks and "cache_control" in complaint:
            return replace(self, cache_marks=False)
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        return None


class _AnthropicReader:
    """Reads the events of one response."""

    def __init__(self) -> None:
        self._prompt = self._cached = self._written = self._completion = 0

    def read(self, event: dict[str, Any]) -> list[Event]:
        """Return the events of one JSON object."""
        match event.get("type"):
            case "message_start":
                message = event.get("message")
                self._count(message.get("usage") if isinstance(message, dict) else None)
            case "content_block_start":
                return _begun_block(event.get("index"), event.get("content_block"))
            case "content_block_delta":
                return _block_delta(event.get("index"), event.get("delta"))
            case "message_delta":
                return self._end(event)
            case "message_stop":
                return [DoneEvent()]
            case "error":
                return [_error(event.get("error"))]
        return []  # The event is a ping, the end of a block, or unknown.

    def _count(self, usage: Any) -> None:
        """Store the numbers of tokens in an event. Later events have totals, not differences."""
        if not isinstance(usage, dict):
            return
        fresh = count_of(usage.get("input_tokens"))
        cached = count_of(usage.get("cache_read_input_tokens"))
        written = count_of(usage.get("cache_creation_input_tokens"))
        if fresh or cached or written:
            self._prompt, self._cached = fresh + cached + written, cached
            self._written = written
        self._completion = count_of(usage.get("output_tokens")) or self._completion

    def _end(self, event: dict[str, Any]) -> list[Event]:
        self._count(event.get("usage"))
        events: list[Event] = []
        if self._prompt or self._completion:
            events.append(UsageEvent(self._prompt, self._completion, self._cached, self._written))
        delta = event.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(reason, str) and reason:
            events.append(FinishEvent(reason))
        return events


def _begun_block(index: Any, block: Any) -> list[Event]:
    if not isinstance(block, dict):
        return []
    if block.get("type") == "tool_use":
        name, call_id = block.get("name"), block.get("id")
        return [
            FunctionCallDelta(
                index=count_of(index),
                call_id=call_id if isinstance(call_id, str) else "",
                name=name if isinstance(name, str) else "",
            )
        ]
    text = block.get("text")
    return [ContentEvent(text)] if isinstance(text, str) and text else []


def _block_delta(index: Any, delta: Any) -> list[Event]:
    if not isinstance(delta, dict):
        return []
    match delta:
        case {"type": "text_delta", "text": str(text)} if text:
            return [ContentEvent(text)]
        case {"type": "input_json_delta", "partial_json": str(piece)} if piece:
            return [FunctionCallDelta(index=count_of(index), arguments=piece)]
        case {"type": "thinking_delta", "thinking": str(thought)} if thought:
            return [ReasoningEvent(thought)]
    return []


def _whole_block(index: int, block: Any) -> list[Event]:
    events = _begun_block(index, block)
    if isinstance(block, dict) and isinstance(block.get("input"), dict):
        arguments = json.dumps(block["input"], ensure_ascii=False)
        events.append(FunctionCallDelta(index=index, arguments=arguments, whole=True))
    return events


def _error(error: Any) -> ErrorEvent:
    status = _STATUS.get(str(error.get("type"))) if isinstance(error, dict) else None
    return ErrorEvent({**error, "code": status} if status else error or "an error")


def _encode_messages(
    messages: Iterable[PromptMessage], profile: ModelProfile
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the instructions (the system messages at the beginning of the prompt), and the other
    messages. In these, user and assistant alternate: consecutive messages of the same side are
    joined."""
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system" and not turns:
            system += _text_blocks(message_text(message))
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _encode_blocks(message, profile)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            if not turns and role == "assistant":
                turns.append({"role": "user", "content": _text_blocks(_EMPTY)})
            turns.append({"role": role, "content": blocks})
    if not turns:
        turns.append({"role": "user", "content": _text_blocks(_EMPTY)})
    return system, turns


def _encode_blocks(message: PromptMessage, profile: ModelProfile) -> list[dict[str, Any]]:
    if message.role == "tool":
        call_id = _NO_ID.sub("_", message.answers)
        result = {"type": "tool_result", "tool_use_id": call_id}
        return [result | {"content": sendable(message_text(message)) or _EMPTY}]
    # No model of this API accepts sound, even if the settings say so.
    parts = drop_unsupported_parts(message, replace(profile, audio=False)).parts
    blocks = [block for part in parts for block in _encode_part(part)]
    return [*blocks, *map(_encode_call, message.calls)]


def _encode_part(part: Part) -> list[dict[str, Any]]:
    match part:
        case TextPart(text):
            return _text_blocks(text)
        case ImagePart(data, mime, url):
            given = _DATA_URL.fullmatch(url)
            source: dict[str, Any] = {"type": "url", "url": url}
            if given is not None:
                source = {"type": "base64", "media_type": given[1], "data": given[2]}
            elif not url:
                encoded = base64.b64encode(data).decode()
                source = {"type": "base64", "media_type": mime, "data": encoded}
            return [{"type": "image", "source": source}]
    return []


def _encode_call(call: FunctionCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _NO_ID.sub("_", call.call_id),
        "name": call.name or "unknown",
        "input": {} if call.problem else dict(call.arguments),
    }


def _encode_function(function: Function) -> dict[str, Any]:
    return {
        "name": function.name,
        "description": sendable(function.description),
        "input_schema": function.parameters,
    }


def _text_blocks(text: str) -> list[dict[str, Any]]:
    """Return a text as a block. A text without a word is left out, because the API refuses it."""
    text = sendable(text).rstrip()
    return [{"type": "text", "text": text}] if text else []


def _mark(blocks: Sequence[dict[str, Any]]) -> None:
    if blocks:
        blocks[-1].update(_CACHED)
