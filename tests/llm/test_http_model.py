"""The client for endpoints with OpenAI's protocol, tested with a scripted server on loopback."""

import base64
import json
import ssl
from pathlib import Path

import anyio
import certifi
import pytest

from nekro_core.llm.endpoint import trusted_certificates
from nekro_core.llm.modalities import IMAGE_NOTE
from nekro_core.llm.model import (
    AudioPart,
    ChatRequest,
    ImagePart,
    PromptMessage,
    ReplyFinished,
    RequestUsage,
    TextDelta,
    TextPart,
)
from tests.llm.conformance import ChatModelConformance, ask, listen, words_of
from tests.llm.conftest import KEY
from tests.peers.scripted_model import Answer, ScriptedModelServer


class TestHttpChatModel(ChatModelConformance):
    @pytest.fixture
    async def model(self, model_at):
        async with ScriptedModelServer(lambda asked: "one two three four five six") as server:
            yield model_at(server)


class TestSeeingModel(ChatModelConformance):
    @pytest.fixture
    async def model(self, model_at):
        async with ScriptedModelServer(lambda asked: "one two three four five six") as server:
            yield model_at(server, vision=True, audio=True)


async def test_the_http_request_has_the_messages_and_the_settings_of_the_model(model_at) -> None:
    async with ScriptedModelServer(["ok"]) as server:
        model = model_at(server, vision=True, audio=True, grammar=True, extra_body={"top_k": 5})
        await listen(
            model,
            ChatRequest(
                messages=(
                    PromptMessage.of("system", "Be brief."),
                    PromptMessage(
                        "user",
                        (
                            TextPart("What is it?"),
                            ImagePart(b"png", "image/png"),
                            ImagePart(url="https://example.com/a.png"),
                            AudioPart(b"wav"),
                        ),
                    ),
                ),
                max_tokens=99,
                temperature=0.5,
                stop=("END",),
                grammar='root ::= "a"',
            ),
        )
        (asked,) = server.requests
    encoded = base64.b64encode(b"wav").decode()
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "scripted",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 99,
        "temperature": 0.5,
        "stop": ["END"],
        "grammar": 'root ::= "a"',
        "top_k": 5,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
                    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                    {"type": "input_audio", "input_audio": {"data": encoded, "format": "wav"}},
                ],
            },
        ],
    }


async def test_the_body_may_have_any_number_and_any_script(model_at) -> None:
    extra = {"seed": 10**30, "penalty": 0.1, "note": '\u4f60\u597d \U0001f600 "quoted"\n\x00'}
    async with ScriptedModelServer(["ok"]) as server:
        await listen(model_at(server, extra_body=extra), ask("hello"))
        (asked,) = server.requests
    assert {name: asked.body[name] for name in extra} == extra
    assert asked.headers["content-type"] == "application/json"


async def test_a_model_without_vision_gets_a_note_in_place_of_a_picture(model_at) -> None:
    async with ScriptedModelServer(["ok"]) as server:
        message = PromptMessage("user", (TextPart("look"), ImagePart(b"png")))
        request = ChatRequest(messages=(message,), grammar="root ::= [a]")
        await listen(model_at(server), request)
        (asked,) = server.requests
    assert asked.messages == [{"role": "user", "content": f"look\n{IMAGE_NOTE}"}]
    assert "grammar" not in asked.body


async def test_the_first_words_arrive_before_the_reply_is_complete(model_at) -> None:
    go_on = anyio.Event()
    answer = Answer(chunks=["send('now')\n", go_on, "rest"])
    async with (
        ScriptedModelServer([answer]) as server,
        model_at(server).stream(ask("hi")) as deltas,
    ):
        assert await anext(deltas) == TextDelta("send('now')\n")
        go_on.set()
        assert await anext(deltas) == TextDelta("rest")


async def test_leaving_the_context_of_the_stream_closes_the_connection_at_once(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["first"], then="stall")]) as server:
        async with model_at(server).stream(ask("hi")) as deltas:
            await anext(deltas)
        with anyio.fail_after(30):
            await server.requests[0].hung_up.wait()


async def test_cancelling_closes_the_connection_at_once(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["first"], then="stall")]) as server:
        with anyio.CancelScope() as scope:
            async with model_at(server).stream(ask("hi")) as deltas:
                await anext(deltas)
                scope.cancel()
                await anext(deltas)
        with anyio.fail_after(30):
            await server.requests[0].hung_up.wait()


async def test_requests_reuse_one_connection(model_at) -> None:
    async with ScriptedModelServer(["a", "b", "c"]) as server:
        model = model_at(server)
        for _ in range(3):
            await listen(model, ask("hi"))
        assert server.connections == 1


# --- tokens -------------------------------------------------------------------------------------


async def test_the_usage_comes_from_the_provider(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["four"])]) as server:
        deltas = await listen(model_at(server), ask("12345678"))
    assert RequestUsage(prompt_tokens=3, completion_tokens=2) in deltas


async def test_cached_tokens_are_reported(model_at) -> None:
    usage = {
        "prompt_tokens": 90,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    chunk = f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode()
    async with ScriptedModelServer([Answer(chunks=["a", chunk], usage=False)]) as server:
        deltas = await listen(model_at(server), ask("hi"))
    assert deltas[-2] == RequestUsage(prompt_tokens=90, completion_tokens=5, cached_tokens=64)


async def test_a_missing_usage_is_estimated_and_marked(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["some words"], usage=False)]) as server:
        usage = (await listen(model_at(server), ask("hello there")))[-2]
    assert usage.estimated
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens == 3


@pytest.mark.parametrize("refused", ["stream_options", "max_tokens"])
async def test_a_field_that_the_endpoint_refuses_is_omitted_from_then_on(
    model_at, refused: str
) -> None:
    async with ScriptedModelServer(["a", "b"], refuses=[refused]) as server:
        model = model_at(server)
        first, second = await listen(model, ask("hi")), await listen(model, ask("hi"))
    assert (words_of(first), words_of(second)) == ("a", "b")
    assert len(server.requests) == 3
    assert refused not in server.requests[-1].body
    if refused == "max_tokens":
        assert server.requests[-1].body["max_completion_tokens"] == 4096
    else:
        assert first[-2].estimated


# --- thoughts -----------------------------------------------------------------------------------


async def test_thoughts_are_not_in_the_reply_and_are_counted(model_at) -> None:
    answer = Answer(thoughts=["hmm " * 100], chunks=["Yes."], usage=False)
    async with ScriptedModelServer([answer]) as server:
        deltas = await listen(model_at(server), ask("hi"))
    assert words_of(deltas) == "Yes."
    assert deltas[-2].completion_tokens > 100


async def test_a_thought_written_into_the_reply_is_dropped(model_at) -> None:
    async with ScriptedModelServer(["<think>\nthe user wants...</think>\n\nYes."]) as server:
        assert words_of(await listen(model_at(server), ask("hi"))) == "Yes."


# --- odd replies --------------------------------------------------------------------------------


async def test_an_empty_reply_is_not_an_error(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=[])]) as server:
        usage, end = await listen(model_at(server), ask("hi"))
    assert isinstance(usage, RequestUsage)
    assert end == ReplyFinished("stop")


async def test_a_reply_cut_by_the_token_limit_ends_with_length(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["half"], reason="length")]) as server:
        assert (await listen(model_at(server), ask("hi")))[-1] == ReplyFinished("length")


async def test_the_end_mark_without_a_reason_means_stop(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["whole"], reason=None)]) as server:
        assert (await listen(model_at(server), ask("hi")))[-1] == ReplyFinished("stop")


async def test_an_endless_reply_is_cut(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["again " * 100], then="endless")]) as server:
        deltas = await listen(model_at(server), ask("hi"))
        with anyio.fail_after(30):
            await server.requests[0].hung_up.wait()
    assert deltas[-1] == ReplyFinished("length")
    assert len(words_of(deltas)) == 16 * 4096


async def test_a_reply_of_a_megabyte_is_cut(model_at) -> None:
    async with ScriptedModelServer([Answer(chunks=["x" * 1_000_000])]) as server:
        deltas = await listen(model_at(server), ask("hi"))
    assert deltas[-1] == ReplyFinished("length")
    assert len(words_of(deltas)) == 16 * 4096


async def test_a_reply_that_is_not_streamed_is_accepted(model_at) -> None:
    body = json.dumps(
        {
            "choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 1},
        }
    ).encode()
    async with ScriptedModelServer([Answer(content_type="application/json", body=body)]) as server:
        assert await listen(model_at(server), ask("hi")) == [
            TextDelta("whole"),
            RequestUsage(prompt_tokens=4, completion_tokens=1),
            ReplyFinished("stop"),
        ]


@pytest.mark.parametrize("direct", ["127.0.0.1", "*", "*.0.0.1", ".0.0.1"])
async def test_a_no_proxy_entry_that_httpx_cannot_parse_does_not_stop_a_reply(
    model_at, monkeypatch: pytest.MonkeyPatch, direct: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", f"[::1], fd00::/8,{direct}")
    async with ScriptedModelServer(["Hello."]) as server:
        assert words_of(await listen(model_at(server), ask("hi"))) == "Hello."


async def test_a_proxy_is_used_despite_a_no_proxy_entry_that_httpx_cannot_parse(
    model_at, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedModelServer(["Hello."]) as server:
        monkeypatch.setenv("HTTP_PROXY", server.base_url.removeprefix("http://").split("/")[0])
        monkeypatch.setenv("NO_PROXY", "[::1],ample.com")
        model = model_at(server, base_url="http://example.com/v1")
        assert words_of(await listen(model, ask("hi"))) == "Hello."


def test_the_certificates_of_the_operating_system_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = Path(certifi.where()).read_text()
    end = "-----END CERTIFICATE-----\n"
    (tmp_path / "one.pem").write_text(every[: every.index(end) + len(end)])
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)

    def load_system(context: ssl.SSLContext, _purpose: object = None) -> None:
        context.load_verify_locations(tmp_path / "one.pem")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load_system)
    assert trusted_certificates().cert_store_stats()["x509_ca"] == 1
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)
    assert trusted_certificates().cert_store_stats()["x509_ca"] == every.count(end)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    assert trusted_certificates().cert_store_stats()["x509_ca"] == 1
