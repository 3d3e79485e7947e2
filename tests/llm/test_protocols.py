"""Tests of the protocols of Anthropic (Messages), OpenAI (Responses) and Gemini (its endpoint that
is compatible with OpenAI's protocol), over real connections.

The peers refuse the same requests as the real APIs. So a request that gets an answer has the right
form."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    FunctionCall,
    ImagePart,
    KeyRejected,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    Price,
    PromptMessage,
    QuotaExceeded,
    ReplyBroken,
    ReplyFinished,
    RequestRejected,
    RequestUsage,
    TextPart,
)
from nekro_core.llm.probe import ProbeStep, ProbeVerdict
from nekro_core.llm.probe.endpoint import probe_endpoint
from nekro_core.llm.settings import LLMSettings
from tests.llm.conformance import (
    DICE,
    ChatModelConformance,
    FunctionCallConformance,
    ask,
    calls_of,
    listen,
    words_of,
)
from tests.llm.conftest import Sleeps
from tests.peers.anthropic_model import CACHED_TOKENS as ANTHROPIC_CACHED
from tests.peers.anthropic_model import AnthropicServer
from tests.peers.responses_model import CACHED_TOKENS as RESPONSES_CACHED
from tests.peers.responses_model import ResponsesServer
from tests.peers.scripted_model import Answer, Asked, Call, ScriptedModelServer
from tests.peers.stream_scripts import ProtocolServer

KEY = "sk-ant-0123456789abcdef"
SERVERS: dict[str, type[ProtocolServer]] = {
    "anthropic": AnthropicServer,
    "responses": ResponsesServer,
}


@pytest.fixture(params=SERVERS)
def protocol(request) -> str:
    return request.param


@asynccontextmanager
async def asking(
    protocol: str, replies, **settings
) -> AsyncIterator[tuple[ChatModel, ProtocolServer]]:
    """A model that uses this protocol, and the server that it asks."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(SERVERS[protocol](replies, api_key=KEY))
        fields = {"base_url": server.base_url, "model": "m-1", "api_key": KEY, **settings}
        model = HttpChatModel(
            LLMSettings(protocol=protocol, **fields), sleep=Sleeps(), jitter=lambda: 0.5
        )
        stack.push_async_callback(model.aclose)
        yield model, server


def roll(asked: Asked) -> Answer:
    calls = [Call("roll_dice", {"sides": 6}), Call("roll_dice", {"sides": 20})]
    return Answer(chunks=["Rolling."], calls=calls)


class _Conformance(ChatModelConformance, FunctionCallConformance):
    protocol = ""

    @pytest.fixture
    async def model(self):
        async with asking(self.protocol, lambda _: Answer(chunks=["one, ", "two, ", "three"])) as (
            model,
            _,
        ):
            yield model

    @pytest.fixture
    async def calling_model(self):
        async with asking(self.protocol, roll) as (model, _):
            yield model


class TestAnthropic(_Conformance):
    protocol = "anthropic"


class TestResponses(_Conformance):
    protocol = "responses"


async def failed(model: ChatModel, request: ChatRequest) -> ModelError | None:
    try:
        await listen(model, request)
    except ModelError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(status=401), KeyRejected),
        (Answer(status=403), KeyRejected),
        (Answer(status=402), QuotaExceeded),
        (Answer(status=404), RequestRejected),
        (Answer(status=413), RequestRejected),
        (Answer(status=429, retry_after=900), QuotaExceeded),
        (Answer(status=500), ModelUnreachable),
        (Answer(status=529), ModelUnreachable),
        (Answer(then="break"), ModelUnreachable),
        (Answer(then="no_done"), ModelUnreachable),
        (Answer(then="error"), ModelUnreachable),
        (Answer(then="stall"), ModelUnreachable),
        (Answer(chunks=["half"], then="break"), ReplyBroken),
        (Answer(chunks=["half"], then="no_done"), ReplyBroken),
        (Answer(chunks=["half"], then="error"), ReplyBroken),
        (Answer(chunks=["half"], then="stall"), ReplyBroken),
        (Answer(chunks=["x"], reason="content_filter"), ModelRefused),
    ],
)
async def test_each_failure_has_its_error(protocol: str, answer: Answer, kind: type) -> None:
    limits = {"first_token_s": 1.0, "between_tokens_s": 0.5} if answer.then == "stall" else {}
    async with asking(protocol, [answer], retries=0, **limits) as (model, _):
        error = await failed(model, ask("hi"))
    assert type(error) is kind
    assert KEY not in str(error)
    if answer.retry_after:
        assert isinstance(error, QuotaExceeded)
        assert error.retry_after_s == answer.retry_after


async def test_a_request_that_fails_before_the_first_word_is_repeated(protocol: str) -> None:
    async with asking(protocol, [Answer(status=529), "fine"]) as (model, server):
        assert words_of(await listen(model, ask("hi"))) == "fine"
    assert len(server.requests) == 2


async def test_a_call_that_breaks_off_has_a_problem(protocol: str) -> None:
    answer = Answer(calls=[Call("roll_dice", '{"sid')], then="break")
    deltas = []
    async with asking(protocol, [answer], retries=0) as (model, _):

        async def read() -> None:
            async with model.stream(ask("hi", functions=(DICE,))) as stream:
                async for delta in stream:
                    deltas.append(delta)  # noqa: PERF401 - keeps deltas before the error

        with pytest.raises(ReplyBroken):
            await read()
    (call,) = calls_of(deltas)
    assert call.problem


async def test_a_reply_that_reaches_the_token_limit_says_so(protocol: str) -> None:
    async with asking(protocol, [Answer(chunks=["long"], reason="length")]) as (model, _):
        assert (await listen(model, ask("hi")))[-1] == ReplyFinished("length")


async def test_thoughts_are_counted_and_not_part_of_the_reply(protocol: str) -> None:
    async with asking(protocol, [Answer(thoughts=["hm, hm"], chunks=["yes"])]) as (model, _):
        assert words_of(await listen(model, ask("hi"))) == "yes"


async def test_pictures_are_sent(protocol: str) -> None:
    parts = (
        TextPart("What is this?"),
        ImagePart(b"\x89PNG", "image/png"),
        ImagePart(url="https://example.com/a.png"),
    )
    request = ChatRequest(messages=(PromptMessage("user", parts),))
    async with asking(protocol, ["a cat"], vision=True) as (model, server):
        await listen(model, request)
    (asked,) = server.requests
    if protocol == "anthropic":
        _, first, second = asked.body["messages"][0]["content"]
        assert first["source"] == {
            "type": "base64",
            "media_type": "image/png",
            "data": "iVBORw==",
        }
        assert second["source"] == {"type": "url", "url": "https://example.com/a.png"}
    else:
        _, first, second = asked.body["input"][0]["content"]
        assert first["image_url"] == "data:image/png;base64,iVBORw=="
        assert second["image_url"] == "https://example.com/a.png"


async def test_a_reply_ends_at_a_stop_text_of_the_request(protocol: str) -> None:
    chunks = ["one t", "wo EN", "D three"]
    async with asking(protocol, [Answer(chunks=chunks)]) as (model, server):
        words = words_of(await listen(model, ask("hi", stop=("END",))))
    if protocol == "anthropic":
        assert server.requests[0].body["stop_sequences"] == ["END"]
    else:
        assert words == "one two "


async def test_a_reply_ends_at_a_stop_text_of_only_whitespace(protocol: str) -> None:
    async with asking(protocol, [Answer(chunks=["one\n", "\ntwo"])]) as (model, server):
        words = words_of(await listen(model, ask("hi", stop=("END", "\n\n"))))
    assert words == "one"
    if protocol == "anthropic":
        assert server.requests[0].body["stop_sequences"] == ["END"]


async def test_the_request_that_is_reported_as_sent_has_the_form_of_chat_completions(
    protocol: str,
) -> None:
    told = []
    async with asking(protocol, ["fine"]) as (model, _):
        await listen(model, ask("hi", on_sent=lambda _, body: told.append(body)))
    assert [each["messages"] for each in told] == [[{"role": "user", "content": "hi"}]]


async def test_a_field_that_a_model_refuses_is_left_out_of_later_requests(protocol: str) -> None:
    def answer(asked: Asked):
        if "temperature" in asked.body:
            return Answer(status=400, error={"message": "temperature is not supported"})
        return "fine"

    async with asking(protocol, answer) as (model, server):
        for _ in range(2):
            assert words_of(await listen(model, ask("hi", temperature=0.5))) == "fine"
    assert ["temperature" in each.body for each in server.requests] == [True, False, False]


async def test_anthropic_caches_the_instructions_and_the_usage_says_so() -> None:
    messages = (PromptMessage.of("system", "Be kind."), PromptMessage.of("user", "hi"))
    async with asking("anthropic", ["one", "two"]) as (model, server):
        first = await listen(model, ChatRequest(messages=messages))
        second = await listen(model, ChatRequest(messages=messages))
    assert server.requests[0].body["system"] == [
        {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    ]
    last = server.requests[0].body["messages"][-1]["content"][-1]
    assert last["cache_control"] == {"type": "ephemeral"}
    written, read = (
        next(each for each in deltas if isinstance(each, RequestUsage))
        for deltas in (first, second)
    )
    assert (written.prompt_tokens, written.cache_written_tokens, written.cached_tokens) == (
        20 + ANTHROPIC_CACHED,
        ANTHROPIC_CACHED,
        0,
    )
    assert (read.cache_written_tokens, read.cached_tokens) == (0, ANTHROPIC_CACHED)
    price = Price(prompt=10.0, cached=1.0, cache_written=12.5)
    assert price.of(written) * 1_000_000 == pytest.approx(20 * 10 + ANTHROPIC_CACHED * 12.5)


async def test_the_protocol_responses_reports_cached_tokens() -> None:
    async with asking("responses", ["one", "two"]) as (model, _):
        await listen(model, ask("hi"))
        deltas = await listen(model, ask("hi"))
    (usage,) = [each for each in deltas if isinstance(each, RequestUsage)]
    assert usage.cached_tokens == RESPONSES_CACHED
    assert not usage.estimated


@pytest.mark.parametrize("wanted", ["anthropic", "responses"])
async def test_probe_endpoint_uses_the_protocol_of_the_settings(wanted: str) -> None:
    def answer(asked: Asked):
        if asked.body.get("tools"):
            return Answer(calls=[Call("report_number", {"number": 1234})])
        return "The number is 1234."

    async with SERVERS[wanted](answer, api_key=KEY) as server:
        settings = LLMSettings(
            base_url=server.base_url, model="m-1", api_key=KEY, protocol=wanted, vision=True
        )
        report = await probe_endpoint(settings, number=1234)
    steps = {each.step: each.verdict for each in report.steps}
    assert steps[ProbeStep.KEY] is ProbeVerdict.OK
    assert steps[ProbeStep.MODEL] is ProbeVerdict.OK
    assert (report.vision, report.functions) == (True, True)
    assert report.models == (("claude-test",) if wanted == "anthropic" else ("gpt-test",))


SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}
GEMINI_CALL = (
    b'data: {"choices":[{"delta":{"tool_calls":[{"id":"f1","type":"function","function":'
    b'{"name":"roll_dice","arguments":"{\\"sides\\":6}"},"extra_content":{"google":'
    b'{"thought_signature":"c2lnbmF0dXJl"}}}]},"finish_reason":"tool_calls"}]}\n\n'
)


@asynccontextmanager
async def gemini(replies, **settings) -> AsyncIterator[tuple[ChatModel, ScriptedModelServer]]:
    async with ScriptedModelServer(replies) as server:
        fields = {"base_url": server.base_url, "model": "gemini-3", "api_key": KEY, **settings}
        model = HttpChatModel(LLMSettings(**fields), sleep=Sleeps())
        try:
            yield model, server
        finally:
            await model.aclose()


async def test_only_a_call_that_gemini_made_is_sent_back_with_its_signature() -> None:
    async with gemini([Answer(chunks=[GEMINI_CALL]), "six", "six"]) as (model, server):
        request = ask("Roll.", functions=(DICE,))
        (call,) = calls_of(await listen(model, request))
        other = FunctionCall(call_id="x", name="roll_dice", provider_data="{}", made_by="other")
        for each in (call, other):
            said = PromptMessage("assistant", (), calls=(each,))
            result = PromptMessage("tool", (TextPart("6"),), answers=each.call_id)
            await listen(model, ChatRequest(messages=(*request.messages, said, result)))
    back, without = (each.body["messages"][1]["tool_calls"][0] for each in server.requests[1:])
    assert back["extra_content"] == SIGNATURE
    assert "extra_content" not in without


@pytest.mark.parametrize(
    ("status", "error", "kind", "retry_after"),
    [
        (400, {"message": "API key not valid. Please pass a valid API key."}, KeyRejected, None),
        (
            429,
            {
                "message": "Resource exhausted",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo",
                             "retryDelay": "37s"}],
            },
            QuotaExceeded,
            37.0,
        ),
    ],
)  # fmt: skip
async def test_an_error_that_gemini_sends_in_a_list_is_read(
    status: int, error: dict, kind: type, retry_after: float | None
) -> None:

    body = json.dumps([{"error": {"code": status, **error}}]).encode()
    answer = Answer(status=status, body=body, content_type="application/json")
    async with gemini([answer], retries=0) as (model, _):
        raised = await failed(model, ask("hi"))
    assert type(raised) is kind
    assert getattr(raised, "retry_after_s", None) == retry_after
