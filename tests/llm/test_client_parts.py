"""Tests of the parts of the HTTP client: settings, thoughts, events, tokens."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nekro_core.llm.dialect import Dialect
from nekro_core.llm.events import (
    ContentEvent,
    DoneEvent,
    Event,
    FinishEvent,
    ReasoningEvent,
    StreamDecodeError,
    UsageEvent,
    parse_chunk,
    read_events,
)
from nekro_core.llm.failures import Redactor
from nekro_core.llm.model import AudioPart, ChatRequest, ImagePart, PromptMessage
from nekro_core.llm.settings import LLMSettings
from nekro_core.llm.thought_filter import ThoughtFilter
from nekro_core.llm.tokens import estimate_tokens, estimate_usage


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"base_url": "api.example.com", "model": "m"}, "beginning with http"),
        ({"base_url": "ftp://example.com", "model": "m"}, "beginning with http"),
        ({"base_url": "https://me:secret@example.com/v1", "model": "m"}, "api_key instead"),
        ({"base_url": "https://example.com/v1"}, "name the model"),
        ({"model": "m"}, "say where"),
        (
            {"base_url": "https://example.com/v1", "model": "m", "api_key": "钥匙"},
            "printable ASCII",
        ),
        ({"base_url": "https://example.com/v1", "model": "m", "first_token_s": 0}, "first_token_s"),
        ({"modle": "m"}, "modle"),
    ],
)
def test_an_invalid_setting_is_refused_with_a_reason(fields: dict, says: str) -> None:
    with pytest.raises(ValidationError, match=says) as raised:
        LLMSettings(**fields)
    assert "secret" not in str(raised.value)


def test_the_settings_count_as_configured_only_if_they_name_an_endpoint() -> None:
    assert not LLMSettings().configured
    there = LLMSettings(base_url=" https://example.com/v1/ ", model="m", api_key=" sk-123 \n")
    assert there.configured
    assert there.base_url == "https://example.com/v1"
    assert there.api_key.get_secret_value() == "sk-123"


# --- thoughts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("", ""),
        ("hello", "hello"),
        ("  hello", "  hello"),
        ("<think>a</think>hello", "hello"),
        ("\n<think>\na\n</think>\n\nhello\n", "hello\n"),
        ("<think>never closed", ""),
        ("<think></think>", ""),
        ("<thin", "<thin"),
        ("<thing>", "<thing>"),
        ("a <think>b</think> c", "a <think>b</think> c"),
        ("<think>a</think>x<think>b</think>", "x<think>b</think>"),
        ("<think>1 < 2 </thin </think>ok", "ok"),
    ],
)
@given(data=st.data())
def test_thoughts_are_dropped_however_the_chunks_are_cut(data, reply: str, shown: str) -> None:
    assert "".join(_filtered(_cut(data, reply))) == shown


def _filtered(chunks: list[str]):
    thoughts = ThoughtFilter()
    for chunk in chunks:
        yield thoughts.feed(chunk)
    yield thoughts.finish()


def _cut(data, text):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


# --- events -------------------------------------------------------------------------------------


async def events_of(*chunks: bytes) -> list[Event]:
    async def source():
        for chunk in chunks:
            yield chunk

    return [event async for event in read_events(source(), parse_chunk)]


def chunk_of(**fields) -> bytes:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


async def test_the_events_of_a_stream_are_the_same_however_its_bytes_are_cut() -> None:
    whole = (
        b": keep-alive\r\n\r\n"
        + chunk_of(choices=[{"delta": {"reasoning_content": "hm"}}])
        + chunk_of(choices=[{"delta": {"role": "assistant", "content": "你好"}}])
        + b"event: message\nid: 7\nretry: 3\n"
        + chunk_of(choices=[{"delta": {}, "finish_reason": "stop"}])
        + chunk_of(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2})
        + b"data: [DONE]\n\ndata: ignored\n\n"
    )
    expected = [
        ReasoningEvent("hm"),
        ContentEvent("你好"),
        FinishEvent("stop"),
        UsageEvent(3, 2, 0),
        DoneEvent(),
    ]
    for size in (1, 2, 7, 64, len(whole)):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert await events_of(*pieces) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"choices": None},
        {"choices": "x"},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": None}}]},
        {"choices": [{"delta": {"content": 7}}]},
        {"choices": [{"delta": {"content": ""}, "finish_reason": None}]},
        {"usage": None},
        {"usage": {"prompt_tokens": "3"}},
        {"usage": {"prompt_tokens": -1, "completion_tokens": 1}},
        {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
    ],
)
async def test_fields_of_a_wrong_shape_produce_no_event(fields: dict) -> None:
    assert await events_of(chunk_of(**fields)) == []


async def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "reference"}, {"type": "text", "text": "b"}]
    assert await events_of(chunk_of(choices=[{"delta": {"content": parts}}])) == [
        ContentEvent("ab")
    ]


@given(st.lists(st.binary(max_size=40), max_size=10))
async def test_any_bytes_are_parsed_or_refused(chunks: list[bytes]) -> None:
    with suppress(StreamDecodeError):
        await events_of(*chunks)


async def test_an_endless_line_is_refused() -> None:
    with pytest.raises(StreamDecodeError, match="more than"):
        await events_of(b"data: ", *[b"x" * 100_000] * 50)


# --- the rest -----------------------------------------------------------------------------------


def test_a_field_that_the_endpoint_rejects_is_not_sent_again() -> None:
    dialect = Dialect()
    assert dialect.without("the prompt is too long") is None
    learned = dialect.without("Unknown field: stream_options")
    assert learned == Dialect(asks_usage=False)
    assert learned.without("stream_options again") is None
    assert (
        Dialect().without("Unsupported value: 'temperature' is not supported").temperature is False
    )


def test_keys_and_control_characters_are_removed_from_a_providers_message() -> None:
    redact = Redactor("0123456789abcdef")
    assert redact("key 0123456789abcdef\nis\x00bad") == "key *** is bad"
    assert redact("you sent sk-proj-abcdefgh12345") == "you sent ***"
    assert redact("Authorization: Bearer abc.def") == "Authorization: ***"
    assert len(redact("x" * 5_000)) == 300


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("hello world", 2, 5),
        ("The quick brown fox jumps over the lazy dog. " * 10, 100, 140),
        ("今天天气很好，我们去公园吧。" * 10, 80, 150),
        ("今日は天気がいいですね。" * 10, 70, 130),
        ("Привет, как дела? " * 10, 50, 110),
    ],
)
def test_the_estimate_of_tokens_is_near_the_real_count(text: str, least: int, most: int) -> None:
    """The limits enclose the token counts of the vocabularies of Qwen2.5 and o200k."""
    assert least <= estimate_tokens(text) <= most


def test_pictures_and_sound_are_in_the_estimate_of_tokens() -> None:
    parts = (ImagePart(b"x"), AudioPart(b"\0" * 32_000))
    usage = estimate_usage(ChatRequest(messages=(PromptMessage("user", parts),)), "")
    assert usage.estimated
    assert usage.prompt_tokens > 800
