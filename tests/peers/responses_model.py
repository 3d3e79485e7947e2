"""A fake of OpenAI's Responses API. It refuses the requests that the real API refuses.

Source: the API reference "Responses" and "Streaming events" of OpenAI.
"""

from collections.abc import Iterator

from tests.peers.scripted_model import Answer, Asked
from tests.peers.stream_scripts import EventBody, ProtocolServer

FIELDS = {
    "model", "input", "stream", "store", "max_output_tokens", "temperature", "top_p", "tools",
    "tool_choice", "instructions", "reasoning", "metadata", "include", "truncation",
}  # fmt: skip
CACHED_TOKENS = 64


class ResponsesServer(ProtocolServer):
    """The server. From the second request on, the usage says that tokens were cached."""

    path = "responses"

    def key_of(self, asked: Asked) -> str:
        return asked.headers.get("authorization", "").removeprefix("Bearer ")

    def models(self) -> EventBody:
        return {"object": "list", "data": [{"id": "gpt-test", "object": "model"}]}

    def fault(self, asked: Asked) -> str:
        body = asked.body
        if unknown := body.keys() - FIELDS:
            return f"Unknown parameter: '{min(unknown)}'."
        if body.get("max_output_tokens", 16) < 16:
            return "Invalid 'max_output_tokens': integer below minimum value. Expected >= 16."
        called, answered = [], []
        for item in body["input"]:
            match item.get("type", "message"):
                case "function_call":
                    called.append(item["call_id"])
                case "function_call_output":
                    answered.append(item["call_id"])
                case "message":
                    if item["role"] not in ("system", "developer", "user", "assistant"):
                        return f"Invalid value: '{item['role']}'."
                case other:
                    return f"Invalid value: '{other}'."
        if called != answered:
            return f"No tool output found for function call {called}."
        return next(
            (
                f"Missing required parameter: 'tools[{index}].name'."
                for index, tool in enumerate(body.get("tools", []))
                if "name" not in tool
            ),
            "",
        )

    def error_body(self, status: int, message: str, answer: Answer) -> EventBody:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        if isinstance(answer.error, dict):
            error |= answer.error
        return {"error": error}

    def error_event(self, answer: Answer) -> EventBody:
        error = answer.error or {"code": "server_error", "message": "The server had an error"}
        return {"type": "response.failed", "response": {"status": "failed", "error": error}}

    def begin(self, asked: Asked) -> Iterator[EventBody]:
        response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
        yield {"type": "response.created", "response": response}
        yield {"type": "response.in_progress", "response": response}

    def thought(self, text: str) -> Iterator[EventBody]:
        yield {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": text}

    def text(self, text: str) -> Iterator[EventBody]:
        yield {"type": "response.output_text.delta", "output_index": 1, "delta": text}

    def calls(self, answer: Answer, *, cut: bool) -> Iterator[EventBody]:
        for number, call in enumerate(answer.calls, 2):
            item = {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": call.call_id or f"call_{number}",
                "name": call.name,
                "arguments": "",
            }
            yield {"type": "response.output_item.added", "output_index": number, "item": item}
            middle = len(call.written) // 2
            for part in (call.written[:middle], call.written[middle:]):
                yield {
                    "type": "response.function_call_arguments.delta",
                    "output_index": number,
                    "delta": part,
                }
            if not cut:
                yield {
                    "type": "response.function_call_arguments.done",
                    "output_index": number,
                    "arguments": call.written,
                }
                whole = {**item, "arguments": call.written}
                yield {"type": "response.output_item.done", "output_index": number, "item": whole}

    def end(self, asked: Asked, answer: Answer, said: str) -> Iterator[EventBody]:
        if answer.reason == "refusal":
            yield {"type": "response.refusal.delta", "output_index": 1, "delta": "I will not"}
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        reason = reasons.get(answer.reason or "")
        status = "incomplete" if reason else "completed"
        response = {
            "status": status,
            "incomplete_details": {"reason": reason} if reason else None,
            "usage": {
                "input_tokens": 120,
                "input_tokens_details": {
                    "cached_tokens": CACHED_TOKENS if len(self.requests) > 1 else 0
                },
                "output_tokens": len(said) // 4 + 2,
                "total_tokens": 122 + len(said) // 4,
            },
        }
        yield {"type": f"response.{status}", "response": response}
