"""Encodes a request for an OpenAI-compatible endpoint, with the optional fields that the endpoint
accepts."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from nekro_core.llm.modalities import drop_unsupported_parts
from nekro_core.llm.model import (
    AudioPart,
    ChatRequest,
    Function,
    FunctionCall,
    ImagePart,
    ModelProfile,
    Part,
    PromptMessage,
    TextPart,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The optional fields that an endpoint accepts. If the endpoint refuses a field, another
    dialect is used for all later requests."""

    asks_usage: bool = True
    limit_field: str = "max_tokens"
    temperature: bool = True

    def without(self, complaint: str) -> Self | None:
        """Return the dialect to try after a refusal: without the refused field, or with another
        name for it. ``complaint`` is the endpoint's text, which names this field. Returns None if
        the endpoint refused the request for another reason."""
        complaint = complaint.lower()
        if self.asks_usage and ("stream_options" in complaint or "include_usage" in complaint):
            return replace(self, asks_usage=False)
        if self.limit_field == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit_field="max_completion_tokens")
        if self.temperature and "temperature" in complaint and "support" in complaint:
            return replace(self, temperature=False)
        return None


def encode_request(
    request: ChatRequest,
    profile: ModelProfile,
    dialect: Dialect,
    extra_body: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the JSON body of a request for a chat completion, with the fields ``extra_body`` of
    the settings."""
    fields: dict[str, Any] = {
        "model": profile.name,
        "messages": [encode_message(message, profile) for message in request.messages],
        "stream": True,
        dialect.limit_field: request.max_tokens,
    }
    if dialect.asks_usage:
        fields["stream_options"] = {"include_usage": True}
    if request.temperature is not None and dialect.temperature:
        fields["temperature"] = request.temperature
    if request.stop:
        fields["stop"] = list(request.stop)
    if request.functions and profile.functions:
        fields["tools"] = [_encode_function(function) for function in request.functions]
    fields |= {**extra_body, **request.extra}
    if request.grammar and profile.grammar:
        fields["grammar"] = request.grammar
    return fields


def body_text(body: Mapping[str, Any]) -> str:
    """Return the body as it is sent. (httpx encodes JSON in this way.)"""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode_message(message: PromptMessage, profile: ModelProfile) -> dict[str, Any]:
    """Encode one message. If it has only text, its content is a plain string, which every endpoint
    accepts."""
    parts = drop_unsupported_parts(message, profile).parts
    fields: dict[str, Any] = {"role": message.role}
    if all(isinstance(part, TextPart) for part in parts):
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        fields["content"] = sendable(text)
    else:
        fields["content"] = [_encode_part(part) for part in parts]
    if message.answers:
        fields["tool_call_id"] = message.answers
    if message.calls:
        fields["tool_calls"] = [_encode_call(call, profile) for call in message.calls]
        # Some endpoints refuse an empty string as the content of a message with calls, and accept
        # null.
        fields["content"] = fields["content"] or None
    return fields


def _encode_function(function: Function) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": function.name,
            "description": sendable(function.description),
            "parameters": function.parameters,
        },
    }


def _encode_call(call: FunctionCall, profile: ModelProfile) -> dict[str, Any]:
    # Send ``{}`` in place of arguments that are not JSON. Servers parse the arguments of earlier
    # calls again, and refuse the whole request if they are not JSON.
    written = "{}" if call.problem else call.written
    name = call.name or "unknown"
    fields: dict[str, Any] = {
        "id": call.call_id,
        "type": "function",
        "function": {"name": name, "arguments": sendable(written)},
    }
    if call.provider_data and call.made_by == profile.name:
        # Gemini 3 refuses a call that comes back without its thought signature.
        fields["extra_content"] = json.loads(call.provider_data)
    return fields


def _encode_part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": sendable(text)}
        case ImagePart(data, mime, url):
            address = url or f"data:{mime};base64,{base64.b64encode(data).decode()}"
            return {"type": "image_url", "image_url": {"url": address}}
        case AudioPart(data, sound_format):
            encoded = base64.b64encode(data).decode()
            return {
                "type": "input_audio",
                "input_audio": {"data": encoded, "format": sound_format},
            }


def sendable(text: str) -> str:
    """Return a text that can be encoded as UTF-8. Texts from chats may contain lone surrogates,
    which cannot be encoded. They are replaced, so that the request does not fail."""
    return text.encode("utf-8", "replace").decode()
