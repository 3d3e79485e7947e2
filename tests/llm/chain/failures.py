"""Lists every kind of failure of a model at every moment of a request. Tests use these cases, and
the table in `docs/models.md` shows them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.peers.faulty_model import (
    closed_port,
    full_queue,
    sends_then,
    untrusted_certificate,
)
from tests.peers.scripted_model import Answer, Call, ScriptedModelServer

SHORT_S = 0.4
"""The time limit, in seconds, for cases in which a server is silent."""
Server = Callable[[Path], AbstractAsyncContextManager[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case. ``reason`` is the reason for which the chain goes on to the next model. It is empty
    if the reply has begun, because the chain then keeps the model. ``limits`` are settings of the
    failing model."""

    moment: str
    what: str
    server: Server
    reason: str = ""
    limits: dict[str, Any] = field(default_factory=dict)


def _scripted(*answers: Answer) -> Server:
    @asynccontextmanager
    async def server(_: Path) -> AsyncIterator[str]:
        async with ScriptedModelServer(list(answers)) as scripted:
            yield scripted.base_url

    return server


def _at(address: str) -> Server:
    @asynccontextmanager
    async def server(_: Path) -> AsyncIterator[str]:
        yield address

    return server


def _raw(make: Callable[[], AbstractAsyncContextManager[str]]) -> Server:
    return lambda _: make()


def _error(status: int, message: str, **more: Any) -> Server:
    code = more.pop("code", None)
    error = {"message": message, **({"code": code} if code else {})}
    return _scripted(Answer(status=status, error=error, **more))


_SILENT = {"first_token_s": SHORT_S, "between_tokens_s": SHORT_S}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
_PART = Call("roll_dice", '{"sid')
_REFUSAL = b'data: {"choices":[{"delta":{"refusal":"I will not"}}]}\n\n'
_OVERLOADED = b'data: {"error":{"code":503,"message":"overloaded"}}\n\n'

FAILURES: tuple[Failure, ...] = (
    Failure(
        moment="before connecting",
        what="the host has no address",
        server=_at("http://no-such-host.invalid/v1"),
        reason="unreachable",
    ),
    Failure(
        moment="while connecting",
        what="the port is closed",
        server=_raw(closed_port),
        reason="unreachable",
    ),
    Failure(
        moment="while connecting",
        what="nobody takes the connection within `CONNECT_S`",
        server=_raw(full_queue),
        reason="unreachable",
        limits={"connect_s": SHORT_S},
    ),
    Failure(
        moment="TLS",
        what="the server does not speak TLS",
        server=_raw(lambda: sends_then(b"HTTP/1.1 400 No\r\n\r\n", then="close", scheme="https")),
        reason="unreachable",
    ),
    Failure(
        moment="TLS",
        what="the certificate is not trusted",
        server=untrusted_certificate,
        reason="unreachable",
    ),
    Failure(
        moment="TLS",
        what="the handshake does not end within `CONNECT_S`",
        server=_raw(lambda: sends_then(b"", then="silence", scheme="https")),
        reason="unreachable",
        limits={"connect_s": SHORT_S},
    ),
    Failure(
        moment="status",
        what="400: the request is wrong for this model",
        server=_error(400, "maximum context length is 4096 tokens"),
        reason="rejected",
    ),
    Failure(moment="status", what="401: wrong key", server=_error(401, "bad key"), reason="key"),
    Failure(
        moment="status",
        what="402: empty account",
        server=_error(402, "insufficient balance"),
        reason="quota",
    ),
    Failure(
        moment="status",
        what="403: the key may not use the model",
        server=_error(403, "not for you"),
        reason="key",
    ),
    Failure(
        moment="status",
        what="404: no such model",
        server=_error(404, "no model x"),
        reason="rejected",
    ),
    Failure(
        moment="status",
        what="429 with `Retry-After`",
        server=_error(429, "slow down", retry_after=20),
        reason="quota",
    ),
    Failure(
        moment="status",
        what="429: the quota is used up",
        server=_error(429, "no money", code="insufficient_quota"),
        reason="quota",
    ),
    Failure(
        moment="status",
        what="a filter of the provider declines (400)",
        server=_error(400, "no", code="content_filter"),
        reason="refused",
    ),
    *(
        Failure(
            moment="status",
            what=what,
            server=_error(status, "no"),
            reason="unreachable",
        )
        for status, what in (
            (500, "500: internal error"),
            (502, "502: bad gateway"),
            (503, "503: unavailable"),
            (529, "529: overloaded"),
        )
    ),
    Failure(
        moment="headers",
        what="the connection is closed before an answer",
        server=_raw(lambda: sends_then(b"", then="close")),
        reason="unreachable",
    ),
    Failure(
        moment="headers",
        what="the connection is closed within the headers",
        server=_raw(lambda: sends_then(_HEAD, then="close")),
        reason="unreachable",
    ),
    Failure(
        moment="headers",
        what="the answer is no HTTP",
        server=_raw(lambda: sends_then(b"SSH-2.0-OpenSSH_9.2\r\n", then="close")),
        reason="unreachable",
    ),
    Failure(
        moment="headers",
        what="silence for `FIRST_TOKEN_S`",
        server=_raw(lambda: sends_then(b"", then="silence")),
        reason="unreachable",
        limits=_SILENT,
    ),
    Failure(
        moment="before the first token",
        what="the answer is a web page",
        server=_scripted(Answer(content_type="text/html", body=b"<html>")),
        reason="rejected",
    ),
    Failure(
        moment="before the first token",
        what="the connection breaks",
        server=_scripted(Answer(then="break")),
        reason="unreachable",
    ),
    Failure(
        moment="before the first token",
        what="silence for `FIRST_TOKEN_S`",
        server=_scripted(Answer(then="stall")),
        reason="unreachable",
        limits=_SILENT,
    ),
    Failure(
        moment="before the first token",
        what="an event that is no JSON",
        server=_scripted(Answer(chunks=[b"data: {]\n\n"])),
        reason="unreachable",
    ),
    Failure(
        moment="before the first token",
        what="an error event",
        server=_scripted(Answer(chunks=[_OVERLOADED])),
        reason="unreachable",
    ),
    Failure(
        moment="before the first token",
        what="the stream ends without its end mark",
        server=_scripted(Answer(then="no_done")),
        reason="unreachable",
    ),
    Failure(
        moment="before the first token",
        what="the reply ends without a word",
        server=_scripted(Answer(chunks=[])),
        reason="empty",
    ),
    Failure(
        moment="before the first token",
        what="the model declines",
        server=_scripted(Answer(chunks=[_REFUSAL])),
        reason="refused",
    ),
    Failure(
        moment="before the first token",
        what="a filter stops the reply",
        server=_scripted(Answer(chunks=[], reason="content_filter")),
        reason="refused",
    ),
    Failure(
        moment="after a thought, before the first word",
        what="the connection breaks",
        server=_scripted(Answer(thoughts=["hm"], then="break")),
        reason="broken",
    ),
    Failure(
        moment="after a thought, before the first word",
        what="silence for `BETWEEN_TOKENS_S`",
        server=_scripted(Answer(thoughts=["hm"], then="stall")),
        reason="broken",
        limits=_SILENT,
    ),
    Failure(
        moment="after the first token",
        what="the connection breaks",
        server=_scripted(Answer(chunks=["half"], then="break")),
    ),
    Failure(
        moment="after the first token",
        what="silence for `BETWEEN_TOKENS_S`",
        server=_scripted(Answer(chunks=["half"], then="stall")),
        limits=_SILENT,
    ),
    Failure(
        moment="after the first token",
        what="an error event",
        server=_scripted(Answer(chunks=["half", _OVERLOADED])),
    ),
    Failure(
        moment="after the first token",
        what="an event that is no JSON",
        server=_scripted(Answer(chunks=["half", b"data: {]\n\n"])),
    ),
    Failure(
        moment="after the first token",
        what="the stream ends without its end mark",
        server=_scripted(Answer(chunks=["half"], then="no_done")),
    ),
    Failure(
        moment="after the first token",
        what="a filter stops the reply",
        server=_scripted(Answer(chunks=["half"], reason="content_filter")),
    ),
    Failure(
        moment="in the middle of a function call",
        what="the connection breaks",
        server=_scripted(Answer(calls=[_PART], then="break")),
    ),
    Failure(
        moment="in the middle of a function call",
        what="silence for `BETWEEN_TOKENS_S`",
        server=_scripted(Answer(calls=[_PART], then="stall")),
        limits=_SILENT,
    ),
    Failure(
        moment="in the middle of a function call",
        what="the stream ends without its end mark",
        server=_scripted(Answer(calls=[_PART], then="no_done")),
    ),
)
