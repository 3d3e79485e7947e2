"""Provides a chat model with scripted replies, for tests and for development without a model."""

from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

import anyio

from nekro_core.llm.dialect import Dialect, encode_request
from nekro_core.llm.modalities import drop_unsupported_parts
from nekro_core.llm.model import (
    ChatRequest,
    Delta,
    FunctionCall,
    ModelError,
    ModelProfile,
    ReplyFinished,
    RequestRejected,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.tokens import estimate_usage

_PIECE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """A reply with all details. ``chunks`` are its texts in the order of arrival. A number in
    ``chunks`` is a pause in seconds. A `ModelError` in ``chunks`` is raised when its place is
    reached. ``calls`` follow the text. If ``usage`` is None, it is estimated."""

    chunks: Iterable[str | float | ModelError] | AsyncIterable[str | float | ModelError] = ()
    calls: Sequence[FunctionCall] = ()
    reason: Literal["stop", "length"] = "stop"
    usage: RequestUsage | None = None


ScriptedReply = str | ModelError | AsyncIterable[str] | ScriptedAnswer
"""One reply in a script. A text arrives in pieces of 12 characters. An error is raised. An async
iterable yields the chunks; as an async generator, it can wait for the test between two chunks. A
`ScriptedAnswer` has all details."""

Script = Iterable[ScriptedReply] | Callable[[ChatRequest], ScriptedReply]


class ScriptedModel:
    """A `ChatModel` in this process.

    ``script`` is a list of replies, one for each request, or a function that makes the reply for a
    request. ``requests`` has all requests so far, in the form in which a model with this profile
    would receive them. ``open_streams`` is the number of replies that are being streamed. A request
    after the last reply raises `RequestRejected`.
    """

    def __init__(self, script: Script, *, profile: ModelProfile | None = None) -> None:
        self._profile = profile or ModelProfile(
            name="scripted", vision=True, audio=True, functions=True
        )
        self._answer = script if callable(script) else self._in_turn(deque(script))
        self.requests: list[ChatRequest] = []
        self.open_streams = 0

    @property
    def profile(self) -> ModelProfile:
        """Return the profile that the constructor got, or the default one."""
        return self._profile

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing, because there are no resources to free."""

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """Stream the next reply; see `ChatModel.stream`."""
        messages = tuple(
            drop_unsupported_parts(message, self._profile) for message in request.messages
        )
        grammar = request.grammar if self._profile.grammar else ""
        functions = request.functions if self._profile.functions else ()
        self.requests.append(
            replace(request, messages=messages, grammar=grammar, functions=functions)
        )
        if request.on_sent is not None:
            request.on_sent(request, encode_request(request, self._profile, Dialect(), {}))
        deltas = self._deltas(request)
        self.open_streams += 1
        try:
            yield deltas
        finally:
            self.open_streams -= 1
            await deltas.aclose()

    def _in_turn(self, replies: deque[ScriptedReply]) -> Callable[[ChatRequest], ScriptedReply]:
        def answer(_request: ChatRequest) -> ScriptedReply:
            if not replies:
                raise RequestRejected(f"the script has no reply for request {len(self.requests)}")
            return replies.popleft()

        return answer

    async def _deltas(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        reply = self._answer(request)
        if not isinstance(reply, ScriptedAnswer):
            reply = ScriptedAnswer(chunks=_chunks_of(reply))
        said: list[str] = []
        async for chunk in _each(reply.chunks):
            match chunk:
                case ModelError():
                    raise chunk
                case str():
                    said.append(chunk)
                    yield TextDelta(chunk)
                case _:
                    await anyio.sleep(chunk)
        for call in reply.calls:
            said.append(call.written)
            yield call
        yield reply.usage or estimate_usage(request, "".join(said))
        yield ReplyFinished(reply.reason)


def _chunks_of(
    reply: str | ModelError | AsyncIterable[str],
) -> Iterable[str | float | ModelError] | AsyncIterable[str]:
    match reply:
        case str():
            return [reply[start : start + _PIECE] for start in range(0, len(reply), _PIECE)]
        case ModelError():
            return [reply]
        case _:
            return reply


async def _each(
    chunks: Iterable[str | float | ModelError] | AsyncIterable[str | float | ModelError],
) -> AsyncIterator[str | float | ModelError]:
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield chunk
    else:
        for chunk in chunks:
            await anyio.lowlevel.checkpoint()
            yield chunk
