"""A fake of Anthropic's Messages API. It refuses the requests that the real API refuses.

Source: the API reference "Messages" and the guides "Streaming messages", "Tool use", "Prompt
caching" and "Errors" of Anthropic, API version 2023-06-01.
"""

from collections.abc import Iterator
from typing import Any

from tests.peers.scripted_model import Answer, Asked
from tests.peers.stream_scripts import EventBody, ProtocolServer

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
FIELDS = {
    "model", "messages", "max_tokens", "stream", "system", "temperature", "tools", "tool_choice",
    "stop_sequences", "thinking", "top_k", "top_p", "metadata",
}  # fmt: skip
MOST_MARKS = 4
CACHED_TOKENS = 100
"""The number of cached tokens that the peer reports when a prompt begins with a marked prefix that
the peer has already seen. A prefix is marked if it has ``cache_control``."""


class AnthropicServer(ProtocolServer):
    """The server. For the first request with a marked prefix, the usage says that the prefix was
    written to the cache; for later ones, that it was read from the cache."""

    path = "messages"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cached: set[str] = set()
        self._block = 0

    def key_of(self, asked: Asked) -> str:
        return asked.headers.get("x-api-key", "")

    def models(self) -> EventBody:
        return {"data": [{"type": "model", "id": "claude-test", "display_name": "Test"}]}

    def fault(self, asked: Asked) -> str:
        body = asked.body
        if asked.headers.get("anthropic-version") != "2023-06-01":
            return "anthropic-version: header is required"
        if unknown := body.keys() - FIELDS:
            return f"{min(unknown)}: Extra inputs are not permitted"
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            return "max_tokens: Field required"
        if not 0 <= body.get("temperature", 1.0) <= 1:
            return "temperature: range: -1 to 1"
        messages = body["messages"]
        if not messages or messages[0]["role"] != "user":
            return "messages: first message must use the user role"
        blocks = [*body.get("system", []), *(b for m in messages for b in m["content"])]
        marks = sum("cache_control" in each for each in [*blocks, *body.get("tools", [])])
        if marks > MOST_MARKS:
            return f"A maximum of {MOST_MARKS} blocks with cache_control may be provided"
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                return "messages: text content blocks must be non-empty"
        return next(filter(None, map(_unanswered, messages, [*messages[1:], None])), "")

    def error_body(self, status: int, message: str, answer: Answer) -> EventBody:
        error = {"type": KINDS.get(status, "api_error"), "message": message}
        if isinstance(answer.error, dict):
            error |= answer.error
        return {"type": "error", "error": error, "request_id": "req_1"}

    def error_event(self, answer: Answer) -> EventBody:
        error = answer.error or {"type": "overloaded_error", "message": "Overloaded"}
        return {"type": "error", "error": error}

    def begin(self, asked: Asked) -> Iterator[EventBody]:
        self._block = 0
        yield {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": asked.body["model"],
                "stop_reason": None,
                "usage": {**self._input(asked), "output_tokens": 1},
            },
        }
        yield {"type": "ping"}

    def _input(self, asked: Asked) -> dict[str, int]:
        """The tokens of the prompt: new ones, those read from the cache, and those written to the
        cache."""
        system = str(asked.body.get("system", ""))
        usage = {
            "input_tokens": 20,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        }
        if "cache_control" in system:
            known = system in self._cached
            self._cached.add(system)
            usage[f"cache_{'read' if known else 'creation'}_input_tokens"] = CACHED_TOKENS
        return usage

    def thought(self, text: str) -> Iterator[EventBody]:
        yield from self._whole_block(
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": text}, {"type": "signature_delta",
             "signature": "c2ln"}],
        )  # fmt: skip

    def text(self, text: str) -> Iterator[EventBody]:
        yield from self._whole_block(
            {"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]
        )

    def calls(self, answer: Answer, *, cut: bool) -> Iterator[EventBody]:
        for number, call in enumerate(answer.calls):
            middle = len(call.written) // 2
            deltas = [
                {"type": "input_json_delta", "partial_json": part}
                for part in ("", call.written[:middle], call.written[middle:])
            ]
            call_id = call.call_id or f"toolu_{number}"
            begun = {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}
            yield from self._whole_block(begun, deltas, cut=cut)

    def _whole_block(
        self, block: EventBody, deltas: list[EventBody], *, cut: bool = False
    ) -> Iterator[EventBody]:
        index = self._block
        self._block += 1
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if not cut:
            yield {"type": "content_block_stop", "index": index}

    def end(self, asked: Asked, answer: Answer, said: str) -> Iterator[EventBody]:
        reasons = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
        reason = "tool_use" if answer.calls else reasons[answer.reason or "stop"]
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": len(said) // 4 + 2},
        }
        yield {"type": "message_stop"}


def _unanswered(message: EventBody, following: EventBody | None) -> str:
    """Say why the calls of a message and the results in the next message do not fit together; empty
    if they do."""
    called = [each["id"] for each in message["content"] if each["type"] == "tool_use"]
    content = following["content"] if following else []
    answered = [each["tool_use_id"] for each in content if each["type"] == "tool_result"]
    if sorted(called) != sorted(answered):
        return f"tool_use ids {called} were found without matching tool_result blocks {answered}"
    return ""
