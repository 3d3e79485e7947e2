"""The contract of a chat model: messages in, a stream of text and function calls out.

Errors (``retryable`` says whether the same request may succeed later)::

    NekroError
    └── ModelError
        ├── KeyRejected        your key: missing, wrong, or without right to this model
        ├── QuotaExceeded      your quota or rate limit; ``retry_after_s`` if the provider says so
        ├── ModelUnreachable   your network, or the provider's machinery is down
        ├── ModelRefused       the model or a filter of the provider declines to answer
        ├── RequestRejected    this request cannot work: unknown model, too long, unsupported part
        └── ReplyBroken        the reply stopped in the middle; what had arrived was already yielded
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from nekro_core.system.errors import NekroError


class ModelError(NekroError):
    """The root of what a model raises; the message is for an operator and holds no secret."""

    retryable = False


class KeyRejected(ModelError):
    """The provider does not take the key."""


class QuotaExceeded(ModelError):
    """Too many requests, or the account is empty. Asking again later may help.

    Args:
        message: For an operator; without secrets.
        retry_after_s: Seconds after which the provider says to ask again; None where it did not
            say.
    """

    retryable = True

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelUnreachable(ModelError):
    """No answer: name, connection, time-out, or a 5xx."""

    retryable = True


class ModelRefused(ModelError):
    """The model will not answer this."""


class RequestRejected(ModelError):
    """The provider says that the request itself is wrong."""


class ReplyBroken(ModelError):
    """The stream broke after it had begun."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: its bytes and their type, or an ``http(s)`` address that the provider fetches."""

    data: bytes = b""
    mime: str = "image/png"
    url: str = ""


@dataclass(frozen=True, slots=True)
class AudioPart:
    """Sound: its bytes, ``wav`` or ``mp3``."""

    data: bytes
    format: Literal["wav", "mp3"] = "wav"


Part = TextPart | ImagePart | AudioPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function that the model may call natively. ``name`` has at most 64 ASCII letters, digits,
    ``_`` and ``-``; ``parameters`` is the JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """The model calls a function.

    ``call_id`` is the provider's, or made where it gave none; it is unique in its reply.
    ``written`` are the arguments as they arrived, ``arguments`` what they mean. A call with a
    ``problem`` must not be carried out: its arguments cannot be read, or it did not arrive whole.
    """

    call_id: str
    name: str
    written: str = "{}"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt. ``calls`` are those that an assistant's message made; a message of
    role ``tool`` answers the call with the id ``answers`` and holds words alone."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...]
    calls: tuple[FunctionCall, ...] = ()
    answers: str = ""

    @classmethod
    def of(cls, role: Literal["system", "user", "assistant"], text: str) -> "PromptMessage":
        """A message of words alone."""
        return cls(role, (TextPart(text),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request. ``grammar`` is GBNF and reaches only models whose profile takes one.

    ``functions`` are offered to the model, which may call several of them in one reply; they are
    for models whose profile takes functions.
    Requests with the same ``cache_key`` begin alike; a model of our own keeps what it read for one
    apart from what it read for another. ``chat`` is the key of the chat that a turn asks for, for
    whoever hears of requests on the way; no model is told.
    """

    messages: tuple[PromptMessage, ...]
    max_tokens: int = 4096
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    grammar: str = ""
    cache_key: str = ""
    functions: tuple[Function, ...] = ()
    chat: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the provider's own for this request alone; they go before everything else."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next words of the reply."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """What the request cost, in tokens. ``estimated`` where the provider did not say."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a million tokens cost, in the operator's currency. ``cached`` are those of a prompt that
    the provider had read before; None is the price of the others."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None

    def of(self, usage: RequestUsage) -> float:
        """What a request cost."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        read = self.prompt if self.cached is None else self.cached
        whole = (usage.prompt_tokens - cached) * self.prompt + cached * read
        return (whole + usage.completion_tokens * self.completion) / 1_000_000


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """The reply is over: ``stop``, or ``length`` where a limit cut it."""

    reason: Literal["stop", "length"]


Delta = TextDelta | FunctionCall | RequestUsage | ReplyFinished


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What a model can do. ``prefers_examples`` marks a small model that wants the short prompt
    with worked examples and a grammar instead of the long one. ``functions`` says that it can call
    functions natively. ``price`` is what it costs, as the operator says."""

    name: str
    vision: bool = False
    audio: bool = False
    grammar: bool = False
    prefers_examples: bool = False
    functions: bool = False
    context_tokens: int = 32_768
    price: Price = Price()


class ChatModel(Protocol):
    """A model that can be asked. Safe to use from many tasks at once."""

    @property
    def profile(self) -> ModelProfile:
        """What it can do."""

    def stream(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Ask; the reply arrives as deltas. Leaving the context closes the request at once.

        Calls of functions arrive whole, after the words and before the `RequestUsage`, each once.
        Those of a reply that was cut arrive too, the last of them with a ``problem``.
        Retries happen inside and only before the first delta. Raises the tree above.
        """

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """Do now what the first requests would wait for; nobody has to call it.

        ``likely`` are beginnings of prompts to come: a model that keeps what it has read reads
        them. Raises the tree above.
        """

    async def aclose(self) -> None:
        """Free connections and processes."""
