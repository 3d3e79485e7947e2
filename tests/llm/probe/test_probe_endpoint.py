"""The test of an endpoint reports which steps work, and gives a different reason for each
failure."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

from nekro_core.llm.probe import (
    EndpointReport,
    ProbeResult,
    ProbeStep,
    ProbeVerdict,
)
from nekro_core.llm.probe.endpoint import probe_endpoint
from nekro_core.llm.settings import LLMSettings
from tests.peers.scripted_model import Answer, Asked, Call, Reply, ScriptedModelServer

KEY = "sk-test-0123456789abcdef"
NUMBER = 4712
COUNTED = " ".join(map(str, range(1, 41)))
OK, FAILED, ABSENT = ProbeVerdict.OK, ProbeVerdict.FAILED, ProbeVerdict.ABSENT
DIFFERS, UNKNOWN = ProbeVerdict.DIFFERS, ProbeVerdict.UNKNOWN


def listing(*rows: dict) -> Answer:
    body = str({"object": "list", "data": list(rows)}).replace("'", '"').encode()
    return Answer(content_type="application/json", body=body)


def provider(
    *,
    models: Reply | None = None,
    speed: Reply = COUNTED,
    picture: Reply = f"{NUMBER}",
    function: Reply | None = None,
) -> Callable[[Asked], Reply]:
    """A provider that answers the requests of a probe."""

    def reply(asked: Asked) -> Reply:
        if asked.path.endswith("/models"):
            return models or listing({"id": "clever", "context_length": 200_000}, {"id": "other"})
        if "tools" in asked.body:
            return function or Answer(calls=[Call("report_number", {"number": NUMBER})])
        if isinstance(asked.messages[-1]["content"], list):
            return picture
        return speed

    return reply


async def probe(server: ScriptedModelServer, **changes) -> EndpointReport:
    total_s = changes.pop("total_s", 30.0)
    fields = {"base_url": server.base_url, "model": "clever", "api_key": KEY, "vision": True}
    settings = LLMSettings(**(fields | changes))
    return await probe_endpoint(settings, number=NUMBER, total_s=total_s)


async def probe_of(reply: Callable[[Asked], Reply], **changes) -> EndpointReport:
    async with ScriptedModelServer(reply, api_key=KEY) as server:
        return await probe(server, **changes)


def words(report: EndpointReport) -> str:
    return "\n".join(f"{each.text} {each.advice}" for each in report.steps)


@asynccontextmanager
async def listening(serve: Callable[[SocketStream], Awaitable[None]]) -> AsyncIterator[int]:
    """A server on 127.0.0.1 that calls the function with each connection. Yields the port of the
    server."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


async def test_a_good_endpoint_passes_every_step() -> None:
    told: list[ProbeResult] = []
    script = provider(speed=Answer(chunks=[0.05, *(f"{n} " for n in range(1, 41))], delay_s=0.002))
    async with ScriptedModelServer(script, api_key=KEY) as server:
        settings = LLMSettings(base_url=server.base_url, model="clever", api_key=KEY, vision=True)
        report = await probe_endpoint(settings, number=NUMBER, tell=told.append)
    assert [each.verdict for each in report.steps] == [OK] * len(ProbeStep), words(report)
    assert report.usable
    assert tuple(told) == report.steps
    assert report.models == ("clever", "other")
    assert report.vision
    assert report.functions
    assert report.context_tokens == 200_000
    assert report.first_token_s is not None
    assert 0.05 <= report.first_token_s < 5
    assert report.tokens_per_s is not None
    assert report.tokens_per_s > 1
    assert report.spent_tokens > 0
    assert KEY not in words(report)


async def test_the_requests_of_a_probe_are_few_and_bounded() -> None:
    async with ScriptedModelServer(provider(), api_key=KEY) as server:
        await probe(server)
        asked = [each for each in server.requests if each.path.endswith("/chat/completions")]
    assert len(asked) == 3
    assert all(each.body["max_tokens"] <= 1024 for each in asked)


async def test_the_picture_is_a_readable_png_and_no_text_of_the_request_says_its_number() -> None:
    async with ScriptedModelServer(provider(), api_key=KEY) as server:
        await probe(server)
        asked = next(
            e for e in server.requests if e.messages and len(e.messages[0]["content"]) == 2
        )
    text, image = asked.messages[0]["content"]
    assert str(NUMBER) not in text["text"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


async def test_a_host_name_that_does_not_exist_fails_the_first_step() -> None:
    report = await probe_endpoint(
        LLMSettings(base_url="https://api.nowhere.invalid/v1", model="clever", api_key=KEY)
    )
    first, *rest = report.steps
    assert (first.step, first.verdict) == (ProbeStep.NAME, FAILED)
    assert first.reason == "name_not_found"
    assert "api.nowhere.invalid" in first.text
    assert first.advice
    assert {each.verdict for each in rest} == {UNKNOWN}
    assert not report.usable


@pytest.fixture
async def unused_port() -> int:
    """A port of this machine on which nothing listens."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port: int = listener.extra(SocketAttribute.local_port)
        return port


async def test_a_port_on_which_nothing_listens_gets_a_separate_reason(unused_port: int) -> None:
    report = await probe_endpoint(
        LLMSettings(base_url=f"http://127.0.0.1:{unused_port}/v1", model="m")
    )
    assert report.result(ProbeStep.NAME).verdict is OK
    assert report.result(ProbeStep.CONNECTION).reason == "refused"
    assert "no program listens" in report.result(ProbeStep.CONNECTION).text


async def test_a_server_without_tls_behind_an_https_address_gets_a_separate_reason() -> None:
    async def serve(stream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with listening(serve) as port:
        report = await probe_endpoint(
            LLMSettings(base_url=f"https://127.0.0.1:{port}/v1", model="m")
        )
    assert report.result(ProbeStep.CONNECTION).verdict is OK
    result = report.result(ProbeStep.TLS)
    assert (result.verdict, result.reason) == (FAILED, "no_tls")
    assert "http://" in result.advice


async def test_a_certificate_that_nobody_trusts_gets_a_separate_reason(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    await anyio.run_process([*command, "-keyout", str(key), "-out", str(certificate)])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def serve(stream) -> None:
        async with stream:
            try:
                await TLSStream.wrap(stream, ssl_context=context)
            except (ssl.SSLError, anyio.BrokenResourceError):
                return

    async with listening(serve) as port:
        report = await probe_endpoint(
            LLMSettings(base_url=f"https://127.0.0.1:{port}/v1", model="m")
        )
    result = report.result(ProbeStep.TLS)
    assert (result.verdict, result.reason) == (FAILED, "certificate")
    assert "self" in result.text
    assert "SSL_CERT_FILE" in result.advice


async def test_a_program_that_does_not_speak_http_gets_a_separate_reason() -> None:
    async def serve(stream) -> None:
        async with stream:
            await stream.send(b"220 mail.example ESMTP\r\n")

    async with listening(serve) as port:
        report = await probe_endpoint(
            LLMSettings(base_url=f"http://127.0.0.1:{port}/v1", model="m")
        )
    result = report.result(ProbeStep.HTTP)
    assert (result.verdict, result.reason) == (FAILED, "no_http")


@pytest.mark.parametrize(
    ("script", "step", "reason", "says"),
    [
        (
            provider(models=Answer(status=401, error={"message": f"Incorrect key {KEY}"})),
            ProbeStep.KEY,
            "rejected",
            "does not take the key",
        ),
        (
            provider(
                models=Answer(status=404, error={"message": "no list"}),
                speed=Answer(status=403, error={"message": f"key {KEY} may not"}),
            ),
            ProbeStep.KEY,
            "rejected",
            "may not",
        ),
        (
            provider(
                models=listing({"id": "clever-2"}),
                speed=Answer(status=404, error={"message": "no such model"}),
            ),
            ProbeStep.MODEL,
            "unknown_model",
            "clever-2",
        ),
        (
            provider(
                models=Answer(content_type="text/html", body=b"<html>hello</html>"),
                speed=Answer(content_type="text/html", body=b"<html>hello</html>"),
            ),
            ProbeStep.MODEL,
            "rejected",
            "/v1",
        ),
        (
            provider(models=Answer(status=502, error={"message": "bad gateway"})),
            ProbeStep.HTTP,
            "server_error",
            "bad gateway",
        ),
        (
            provider(speed=Answer(status=429, error={"code": "insufficient_quota"})),
            ProbeStep.SPEED,
            "quota",
            "used up",
        ),
        (
            provider(speed=Answer(status=503, error={"message": "loading"})),
            ProbeStep.SPEED,
            "no_answer",
            "loading",
        ),
        (
            provider(speed=Answer(chunks=["1 2 3"], then="break")),
            ProbeStep.SPEED,
            "broken",
            "",
        ),
        (
            provider(speed=Answer(status=400, error={"code": "content_filter"})),
            ProbeStep.SPEED,
            "declined",
            "filter",
        ),
    ],
)
async def test_each_failure_is_reported_at_its_step_with_advice(script, step, reason, says) -> None:
    report = await probe_of(script)
    result = report.result(step)
    assert (result.verdict, result.reason) == (FAILED, reason), words(report)
    assert result.advice
    assert says in f"{result.text} {result.advice}"
    assert KEY not in words(report)
    assert not report.usable
    assert report.result(ProbeStep.FUNCTIONS).verdict is UNKNOWN


async def test_a_missing_key_is_not_reported_as_a_wrong_key() -> None:
    report = await probe_of(provider(), api_key="")
    assert report.result(ProbeStep.KEY).reason == "missing"


async def test_a_server_without_keys_and_without_a_list_of_models_is_usable() -> None:
    async with ScriptedModelServer(provider(models=Answer(status=404, error="no"))) as server:
        report = await probe(server, api_key="")
    assert report.result(ProbeStep.KEY).reason == "not_needed"
    assert report.result(ProbeStep.HTTP).reason == "no_list"
    assert report.models == ()
    assert report.usable
    assert report.context_tokens is None
    assert report.result(ProbeStep.CONTEXT).verdict is UNKNOWN


@pytest.mark.parametrize(
    ("picture", "set_to", "verdict", "sees"),
    [
        (f"It is {NUMBER}.", True, OK, True),
        ("4,712", False, DIFFERS, True),
        ("I cannot see pictures.", True, DIFFERS, False),
        ("0815", False, ABSENT, False),
        (
            Answer(status=400, error={"message": "no image input"}),
            True,
            DIFFERS,
            False,
        ),
        (Answer(status=500, error={"message": "oops"}), True, UNKNOWN, None),
    ],
)
async def test_whether_the_model_sees_the_picture_is_compared_with_the_setting(
    picture, set_to, verdict, sees
) -> None:
    report = await probe_of(provider(picture=picture), vision=set_to)
    assert report.result(ProbeStep.PICTURES).verdict is verdict
    assert report.vision is sees


@pytest.mark.parametrize(
    ("function", "says", "calls"),
    [
        (Answer(calls=[Call("report_number", {"number": NUMBER})], split="whole"), "right", True),
        ("I would call report_number.", "did not call", False),
        (Answer(calls=[Call("report_number", {"number": 1})]), "wrong", False),
        (Answer(calls=[Call("report_number", "{number: 4")]), "broken", False),
        (Answer(status=400, error={"message": "tools are not supported"}), "not supported", False),
    ],
)
async def test_a_call_of_a_function_must_have_the_right_name_and_argument(
    function, says, calls
) -> None:
    report = await probe_of(provider(function=function))
    assert report.functions is calls
    assert says in report.result(ProbeStep.FUNCTIONS).text


async def test_a_context_that_is_smaller_than_the_setting_is_reported() -> None:
    report = await probe_of(
        provider(models=listing({"id": "clever", "max_model_len": 8192})), context_tokens=32_768
    )
    result = report.result(ProbeStep.CONTEXT)
    assert result.verdict is DIFFERS
    assert "8192" in result.advice
    assert report.context_tokens == 8192


async def test_a_silent_endpoint_takes_no_longer_than_the_time_limit() -> None:
    async with ScriptedModelServer(provider(speed=Answer(chunks=["1 "], then="stall"))) as server:
        with anyio.fail_after(20):
            report = await probe(server, total_s=2, between_tokens_s=30)
    assert report.result(ProbeStep.HTTP).verdict is OK
    assert report.result(ProbeStep.SPEED).reason == "out_of_time"


async def test_an_endless_reply_is_cut_off() -> None:
    async with ScriptedModelServer(provider(speed=Answer(chunks=["1 "], then="endless"))) as server:
        with anyio.fail_after(60):
            report = await probe(server)
    assert report.usable


async def test_a_key_in_the_names_of_models_is_not_shown() -> None:
    report = await probe_of(provider(models=listing({"id": "clever"}, {"id": f"m-{KEY}"})))
    assert KEY not in repr(report)


async def test_garbage_in_the_list_of_models_is_skipped() -> None:
    rows = [{"id": "clever"}, {"id": 3}, {"id": ""}, {"name": "x"}, {"id": "y" * 1000}]
    report = await probe_of(provider(models=listing(*rows)))
    assert report.models == ("clever",)


async def test_settings_without_an_address_are_refused() -> None:
    with pytest.raises(ValueError, match="base_url"):
        await probe_endpoint(LLMSettings())


async def test_a_proxy_that_does_not_run_is_named_as_the_proxy(unused_port: int) -> None:
    proxy = f"http://127.0.0.1:{unused_port}"
    report = await probe_endpoint(
        LLMSettings(base_url="https://api.example.com/v1", model="m", proxy=proxy)
    )
    result = report.result(ProbeStep.CONNECTION)
    assert (result.verdict, result.reason) == (FAILED, "refused")
    assert "the proxy 127.0.0.1" in result.text


async def test_behind_a_proxy_only_the_proxy_resolves_the_name_of_the_endpoint() -> None:
    # This peer accepts requests with absolute addresses, as a proxy does.
    async with ScriptedModelServer(provider(), api_key=KEY) as server:
        proxy = server.base_url.removesuffix("/v1")
        report = await probe(server, base_url="http://models.nowhere.invalid/v1", proxy=proxy)
        asked = {each.path for each in server.requests}
    assert report.usable, words(report)
    assert report.result(ProbeStep.TLS).reason == "behind_proxy"
    assert "http://models.nowhere.invalid/v1/models" in asked
