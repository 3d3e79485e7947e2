"""Reads the stream of a model's endpoint: the server-sent events, the JSON objects in them, and
what an object of the protocol Chat Completions means.

Endpoints differ in almost everything, so the type of each field is checked. Sources: the chat
completion chunk object of the OpenAI API reference, and the event stream format of the HTML
standard. Of the stream, only the ``data`` lines are read.
"""

import codecs
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from nekro_core.llm.function_calls import FunctionCallDelta
from nekro_core.system.errors import NekroError

MAX_LINE = 4_000_000
"""Maximum number of characters of a line. A reply of 1 MB fits. The limit keeps an endless line
from filling the memory."""

_MOST_PROVIDER_DATA = 200_000
"""Maximum number of characters of the data that a provider sends with a call and wants back
together with the call's result. Such data are usually signatures of a few thousand characters."""


class StreamDecodeError(NekroError):
    """The response is not an event stream of JSON objects."""


@dataclass(frozen=True, slots=True)
class ContentEvent:
    """The next text of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningEvent:
    """The next text of the model's thoughts before its reply."""

    text: str


@dataclass(frozen=True, slots=True)
class RefusalEvent:
    """The next text of the model's refusal."""

    text: str


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """The reply has ended. ``reason`` is the provider's ``finish_reason``."""

    reason: str


@dataclass(frozen=True, slots=True)
class UsageEvent:
    """Tokens as the provider counted them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_written_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The provider reports an error inside the stream."""

    body: Any


@dataclass(frozen=True, slots=True)
class DoneEvent:
    """The end mark of the stream: ``[DONE]``, or the last event of a protocol without that mark."""


Event = (
    ContentEvent
    | ReasoningEvent
    | FunctionCallDelta
    | RefusalEvent
    | FinishEvent
    | UsageEvent
    | ErrorEvent
    | DoneEvent
)


async def read_events(
    chunks: AsyncIterable[bytes], parse: Callable[[dict[str, Any]], list[Event]]
) -> AsyncIterator[Event]:
    """Decode the bytes of a response into events. `DoneEvent` is the last event; what follows in
    the response is read and ignored.

    Args:
        chunks: The body of the response.
        parse: Returns the events of one JSON object of the stream.

    Raises:
        StreamDecodeError: The body is not a stream of server-sent events with JSON objects.
    """
    done = False
    async for line in _lines(chunks):
        field, _, value = line.partition(":")
        if field != "data":
            # The line is a comment, which only keeps the connection open, or an unused field.
            continue
        data = value.strip()
        if data == "[DONE]":
            done = True
            yield DoneEvent()
        if done or not data:
            continue
        try:
            chunk = json.loads(data)
        except ValueError:
            raise StreamDecodeError(f"expected JSON, got {data[:80]!r}") from None
        if not isinstance(chunk, dict):
            raise StreamDecodeError(f"expected a JSON object, got {data[:80]!r}")
        for event in parse(chunk):
            done = done or isinstance(event, DoneEvent)
            yield event


def parse_chunk(chunk: dict[str, Any]) -> list[Event]:
    """Return the events of one chunk. If it reports an error, that is the only event. Otherwise the
    order is: thought, refusal, text, calls, finish, usage."""
    if error := chunk.get("error"):
        return [ErrorEvent(error)]
    events: list[Event] = []
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(choice, dict):
        if error := choice.get("error"):
            return [ErrorEvent(error)]
        delta = choice.get("delta")
        if isinstance(delta, dict):
            events += _parse_delta(delta)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            events.append(FinishEvent(reason))
    usage = chunk.get("usage")
    if isinstance(usage, dict) and (cost := _parse_usage(usage)):
        events.append(cost)
    return events


def _parse_delta(delta: dict[str, Any]) -> list[Event]:
    events: list[Event] = []
    # DeepSeek and vLLM name the field "reasoning_content"; OpenRouter and newer versions of vLLM
    # name it "reasoning".
    for name in ("reasoning_content", "reasoning"):
        thought = delta.get(name)
        if isinstance(thought, str) and thought:
            events.append(ReasoningEvent(thought))
            break
    refusal = delta.get("refusal")
    if isinstance(refusal, str) and refusal:
        events.append(RefusalEvent(refusal))
    content = delta.get("content")
    if isinstance(content, list):  # Mistral sends a list of parts
        content = "".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    if isinstance(content, str) and content:
        events.append(ContentEvent(content))
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        events += [_parse_call(call) for call in calls if isinstance(call, dict)]
    return events


def _parse_call(call: dict[str, Any]) -> FunctionCallDelta:
    index, call_id = call.get("index"), call.get("id")
    function = call.get("function")
    if not isinstance(function, dict):
        function = {}
    name, arguments = function.get("name"), function.get("arguments")
    whole = isinstance(arguments, dict)
    extra = call.get("extra_content")  # Gemini sends its thought signature here.
    kept = json.dumps(extra) if isinstance(extra, dict) else ""
    return FunctionCallDelta(
        index=index if _is_count(index) else None,
        call_id=call_id if isinstance(call_id, str) else "",
        name=name if isinstance(name, str) else "",
        arguments=(
            json.dumps(arguments, ensure_ascii=False)
            if whole
            else arguments
            if isinstance(arguments, str)
            else ""
        ),
        whole=whole,
        provider_data=kept if len(kept) <= _MOST_PROVIDER_DATA else "",
    )


def _parse_usage(usage: dict[str, Any]) -> UsageEvent | None:
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not _is_count(prompt) or not _is_count(completion) or prompt + completion == 0:
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if not _is_count(cached):
        cached = usage.get("prompt_cache_hit_tokens")  # DeepSeek uses this name.
    return UsageEvent(prompt, completion, min(cached, prompt) if _is_count(cached) else 0)


def count_of(value: Any) -> int:
    """Return a number of tokens or an index; 0 if the value is not such a number."""
    return value if _is_count(value) else 0


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


async def _lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[str]:
    # The decoder keeps the bytes of an incomplete character, because a chunk may end inside a
    # character. It replaces invalid characters, so that they do not end the stream.
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces: list[str] = []
    length = 0
    async for chunk in chunks:
        text = decoder.decode(chunk)
        *whole, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in whole:
            yield "".join((*pieces, line))
            pieces.clear()
            length = 0
        pieces.append(rest)
        length += len(rest)
        if length > MAX_LINE:
            raise StreamDecodeError(f"a line of more than {MAX_LINE} characters")
    if pieces and (line := "".join(pieces)):
        yield line
