"""When an endpoint fails, the error says the cause. Some requests are repeated."""

import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import (
    ChatRequest,
    KeyRejected,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    QuotaExceeded,
    ReplyBroken,
    RequestRejected,
    TextDelta,
)
from nekro_core.llm.settings import LLMSettings
from tests.llm.conformance import ask, listen, words_of
from tests.llm.conftest import KEY, Sleeps
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer


async def heard_before(model: HttpChatModel, request: ChatRequest):
    """Return the deltas of a reply, and the error that ended it or None."""
    deltas = []
    try:
        async with model.stream(request) as stream:
            async for delta in stream:
                deltas.append(delta)  # noqa: PERF401 - keeps deltas before an error
    except ModelError as error:
        return deltas, error
    return deltas, None


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (Answer(status=401, error={"message": f"bad key {KEY}"}), KeyRejected, "api_key"),
        (Answer(status=403, error={"message": "not for you"}), KeyRejected, "not for you"),
        (Answer(status=402, error={"message": "pay"}), QuotaExceeded, "account is empty"),
        (
            Answer(status=429, error={"message": "no money", "code": "insufficient_quota"}),
            QuotaExceeded,
            "used up",
        ),
        (Answer(status=429, retry_after=900), QuotaExceeded, "too many requests"),
        (Answer(status=404, error={"message": "no model x"}), RequestRejected, "base_url"),
        (Answer(status=400, error={"message": "too long"}), RequestRejected, "too long"),
        (
            Answer(status=400, error={"message": "no", "code": "content_filter"}),
            ModelRefused,
            "filter",
        ),
        (Answer(status=200, content_type="text/html", body=b"<html>"), RequestRejected, "/v1"),
        (Answer(status=200, chunks=["x"], reason="content_filter"), ModelRefused, "filter"),
        (
            Answer(chunks=[b'data: {"choices":[{"delta":{"refusal":"I will not"}}]}\n\n']),
            ModelRefused,
            "I will not",
        ),
    ],
)
async def test_a_failure_that_is_not_retried_raises_an_error_that_says_the_cause(
    model_at, answer, error, says
) -> None:
    async with ScriptedModelServer([answer]) as server:
        _, raised = await heard_before(model_at(server), ask("hi"))
    assert type(raised) is error
    assert says in str(raised)
    assert KEY not in str(raised)
    assert len(server.requests) == 1


async def test_the_retry_after_of_the_provider_is_in_the_error(model_at) -> None:
    async with ScriptedModelServer([Answer(status=429, retry_after=900)]) as server:
        _, error = await heard_before(model_at(server), ask("hi"))
    assert error.retry_after_s == 900
    assert error.retryable


@pytest.mark.parametrize(
    "first",
    [
        Answer(status=429, retry_after=2),
        Answer(status=500),
        Answer(status=503),
        Answer(status=408),
        Answer(then="break"),
        Answer(then="no_done"),
        Answer(chunks=[b"data: garbage\n\n"]),
        Answer(chunks=[b"data: [1]\n\n"]),
        Answer(chunks=[b'data: {"error":{"code":502,"message":"upstream"}}\n\n']),
        Answer(chunks=[b'data: {"error":{"type":"rate_limit_error","message":"slow"}}\n\n']),
    ],
)
async def test_a_request_is_repeated_if_nothing_has_arrived(model_at, first: Answer) -> None:
    sleeps = Sleeps()
    async with ScriptedModelServer([first, "fine now"]) as server:
        assert words_of(await listen(model_at(server, sleep=sleeps), ask("hi"))) == "fine now"
    assert sleeps == [2.25 if first.retry_after else 0.75]


async def test_retries_are_limited_and_wait_longer_each_time(model_at) -> None:
    sleeps = Sleeps()
    async with ScriptedModelServer(lambda asked: Answer(status=500)) as server:
        _, error = await heard_before(model_at(server, sleep=sleeps), ask("hi"))
    assert isinstance(error, ModelUnreachable)
    assert len(server.requests) == 3
    assert sleeps == [0.75, 1.5]


async def test_a_closed_port_is_reported_with_its_address(model_at) -> None:
    async with ScriptedModelServer([]) as server:
        model = model_at(server, retries=0)
    _, error = await heard_before(model, ask("hi"))
    assert isinstance(error, ModelUnreachable)
    assert "127.0.0.1" in str(error)


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        (Answer(chunks=["half"], then="break"), "connection"),
        (Answer(chunks=["half"], then="no_done"), "without its end"),
        (Answer(chunks=["half", b"data: {]\n\n"]), "no reply"),
        (Answer(chunks=["half", b'data: {"error":{"message":"oom"}}\n\n']), "oom"),
        (Answer(chunks=["half"], then="stall"), "silent"),
    ],
)
async def test_a_request_is_not_repeated_after_a_part_of_the_reply(
    model_at, rest: Answer, says: str
) -> None:
    async with ScriptedModelServer([rest, "again"]) as server:
        model = model_at(server, between_tokens_s=0.3 if rest.then == "stall" else 60)
        (words, usage), error = await heard_before(model, ask("hi"))
    assert words == TextDelta("half")
    assert usage.estimated
    assert isinstance(error, ReplyBroken)
    assert says in str(error)
    assert len(server.requests) == 1


async def test_a_request_is_not_repeated_after_a_thought_because_it_was_paid_for(model_at) -> None:
    answer = Answer(thoughts=["hm"], then="break")
    async with ScriptedModelServer([answer, "again"]) as server:
        _, error = await heard_before(model_at(server), ask("hi"))
    assert isinstance(error, ReplyBroken)
    assert len(server.requests) == 1


async def test_silence_before_the_first_token_has_a_time_limit_of_its_own(model_at) -> None:
    def answer(asked: Asked) -> Reply:
        return Answer(then="stall") if len(server.requests) == 1 else "fine now"

    async with ScriptedModelServer(answer) as server:
        model = model_at(server, first_token_s=0.5, retries=9)
        assert words_of(await listen(model, ask("hi"))) == "fine now"
        assert len(server.requests) > 1


async def test_the_whole_request_has_a_time_limit(model_at) -> None:
    answer = Answer(chunks=["word "] * 1000, delay_s=0.05)
    async with ScriptedModelServer([answer]) as server:
        deltas, error = await heard_before(model_at(server, total_s=2), ask("hi"))
    assert isinstance(error, ReplyBroken)
    assert deltas


async def test_keys_are_never_shown(model_at) -> None:
    async with ScriptedModelServer(["ok"], api_key="another") as server:
        model = model_at(server)
        _, error = await heard_before(model, ask("hi"))
        assert isinstance(error, KeyRejected)
        settings = LLMSettings(base_url=server.base_url, model="m", api_key=KEY)
    assert KEY not in f"{error!r} {settings!r} {model!r} {settings.model_dump_json()}"


@asynccontextmanager
async def packing(body: bytes) -> AsyncIterator[str]:
    """The address of a server that answers with this compressed body."""
    packed = gzip.compress(body)
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(packed)}\r\n\r\n"
    )

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            with suppress(anyio.BrokenResourceError):
                await stream.send(head.encode() + packed)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}/v1"
        tasks.cancel_scope.cancel()


def model_behind(address: str) -> HttpChatModel:
    return HttpChatModel(LLMSettings(base_url=address, model="m", api_key=KEY, retries=0))


async def test_a_compressed_reply_is_decompressed() -> None:
    event = {"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    words = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n"
    async with packing((": still there\n\n" * 300_000 + words).encode()) as address:
        model = model_behind(address)
        assert words_of(await listen(model, ask("hi"))) == "Hello."
        await model.aclose()


async def test_a_compression_bomb_does_not_fill_the_memory() -> None:
    async with packing(b"data: " + bytes(60_000_000)) as address:
        model = model_behind(address)
        await model.connect()
        tracemalloc.start()
        try:
            with pytest.raises(ModelUnreachable, match="no reply"):
                await listen(model, ask("hi"))
            assert tracemalloc.get_traced_memory()[1] < 40_000_000
        finally:
            tracemalloc.stop()
        await model.aclose()
