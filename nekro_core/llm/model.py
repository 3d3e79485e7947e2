"""Defines a chat model: it takes messages, and returns a stream of text and function calls.

Errors (``retryable`` says whether the same request may succeed later)::

    NekroError
    └── ModelError
        ├── KeyRejected        the key is missing, wrong, or not allowed to use this model
        ├── QuotaExceeded      quota or rate limit of the key; ``retry_after_s`` if it is known
        ├── ModelUnreachable   the network or the provider does not work
        │   └── ModelNotReady  the embedded model is still being downloaded
        ├── ModelRefused       the model or a filter of the provider declines to answer
        ├── RequestRejected    this request cannot work: unknown model, too long, unsupported part
        ├── ReplyBroken        the reply stopped in the middle; the text before that was yielded
        └── NoModelAnswered    each model of a chain failed, or must not be asked
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from nekro_core.system.errors import NekroError


class ModelError(NekroError):
    """The base class of a model's errors. The message is for an operator and contains no secret."""

    retryable = False


class KeyRejected(ModelError):
    """The provider refuses the key."""


class QuotaExceeded(ModelError):
    """Too many requests, or the account is empty. Asking again later may help.

    Args:
        message: A text for an operator, without secrets.
        retry_after_s: Seconds after which the provider allows the next request. None if the
            provider did not say.
    """

    retryable = True

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelUnreachable(ModelError):
    """The model gave no answer: its host cannot be found or reached, a time limit was exceeded, or
    the provider answered with the status 408, 409 or 5xx."""

    retryable = True


class ModelNotReady(ModelUnreachable):
    """The model is still being downloaded."""


class ModelRefused(ModelError):
    """The model or the provider's filter declines to answer the request."""


class RequestRejected(ModelError):
    """The provider says that the request itself is wrong."""


class ReplyBroken(ModelError):
    """The reply ended too early, after part of it had arrived."""


class PassReason(StrEnum):
    """Why a model of a chain did not answer a request."""

    KEY = "key"
    QUOTA = "quota"
    NOT_READY = "not_ready"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    REJECTED = "rejected"
    BROKEN = "broken"
    """The reply stopped before its first word."""
    EMPTY = "empty"
    """The reply ended without a word."""
    COOLING = "cooling"
    """The model was not asked, because it failed shortly before."""
    DEARER = "dearer"
    """The model was not asked, because it costs more than the operator allows."""
    UNFIT = "unfit"
    """The model was not asked, because it cannot do what the request needs."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: its bytes and MIME type, or an ``http(s)`` address that the provider fetches."""

    data: bytes = b""
    mime: str = "image/png"
    url: str = ""


@dataclass(frozen=True, slots=True)
class AudioPart:
    """Sound: its bytes, in the format ``wav`` or ``mp3``."""

    data: bytes
    format: Literal["wav", "mp3"] = "wav"


Part = TextPart | ImagePart | AudioPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function that the model may call natively. ``name`` has at most 64 characters, which are
    ASCII letters, digits, ``_`` or ``-``. ``parameters`` is the JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A call of a function by the model.

    ``call_id`` is unique in its reply. It is the provider's id; if the provider sent none, an id is
    made. ``written`` is the received text of the arguments, and ``arguments`` are the parsed
    values. A call with a ``problem`` must not be carried out, because its arguments cannot be
    parsed or the call is incomplete. ``provider_data`` is JSON that the provider sent with the call
    and wants back when the call is sent again; only the model with the name ``made_by`` gets it.
    """

    call_id: str
    name: str
    written: str = "{}"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    provider_data: str = ""
    made_by: str = ""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt. ``calls`` are the calls in an assistant's message. A message of role
    ``tool`` has only text. It is the result of the call whose id is ``answers``."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...]
    calls: tuple[FunctionCall, ...] = ()
    answers: str = ""

    @classmethod
    def of(cls, role: Literal["system", "user", "assistant"], text: str) -> "PromptMessage":
        """Make a message that has only text."""
        return cls(role, (TextPart(text),))


def message_text(message: PromptMessage) -> str:
    """Return the texts of a message, each on its own lines."""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """What a chain of models (`nekro_core.llm.chain`) needs to know about a request. A single model
    ignores it.

    Attributes:
        written_for: The profile of the model for which the prompt is written; None if the prompt
            fits any model.
        rewrite: Writes the prompt for a model with another profile. Without it, the prompt is sent
            to each model as it is.
        on_choice: Called before the first delta is yielded, with the model that answers and the
            models that did not. It must not raise.
        may_be_empty: Whether a reply without a word is an answer. If not, the next model is asked.
    """

    written_for: "ModelProfile | None" = None
    rewrite: "Callable[[ModelProfile], Awaitable[ChatRequest]] | None" = None
    on_choice: "Callable[[ModelChoice], None] | None" = None
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request.

    ``grammar`` is GBNF. It is sent only to models whose profile has ``grammar``. ``functions`` are
    sent only to models whose profile has ``functions``; the model may call several of them in one
    reply. Prompts with the same ``cache_key`` begin with the same text, which the embedded model
    caches. ``chat`` is the key of the turn's chat. It is for code that observes requests and is not
    sent to the model.
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
    """Provider-specific fields for only this request. They override all other fields except
    ``grammar``."""
    on_sent: Callable[["ChatRequest", Mapping[str, Any]], None] | None = field(
        default=None, compare=False, repr=False
    )
    """Called with the request and its JSON body before the body is sent, also before each retry.
    The function must not change the body and must not raise."""
    retries: int | None = None
    """Maximum number of retries. None means that the settings of the model decide."""
    failover: FailoverOptions = field(default=FailoverOptions(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next text of the reply."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """The tokens of a request. They are ``estimated`` if the provider did not send their number.
    ``cached_tokens`` is the number of prompt tokens that the provider read from its cache.
    ``cache_written_tokens`` is the number of prompt tokens that it wrote to its cache, which have a
    separate price."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    estimated: bool = False
    cache_written_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Return the sum of prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens


class PriceSource(StrEnum):
    """Where the price of a model comes from."""

    OPERATOR = "operator"
    """The settings, in the operator's currency."""
    PUBLISHED = "published"
    """The provider's published list, in US dollars."""
    FREE = "free"
    """The model is free, because it runs on this machine."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a million tokens. ``cached`` is the price of prompt tokens that the provider
    read from its cache, ``cache_written`` the price of prompt tokens that it wrote to its cache. If
    one of these prices is None, such tokens cost as much as other prompt tokens. An unknown price
    counts as 0."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None
    source: PriceSource = PriceSource.UNKNOWN
    cache_written: float | None = None

    def of(self, usage: RequestUsage) -> float:
        """Return the cost of a request."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        written = min(usage.cache_written_tokens, usage.prompt_tokens - cached)
        read = self.prompt if self.cached is None else self.cached
        write = self.prompt if self.cache_written is None else self.cache_written
        fresh = usage.prompt_tokens - cached - written
        whole = fresh * self.prompt + cached * read + written * write
        return (whole + usage.completion_tokens * self.completion) / 1_000_000


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """The reply has ended. The reason is ``length`` if a limit cut the reply off; otherwise
    ``stop``."""

    reason: Literal["stop", "length"]


Delta = TextDelta | FunctionCall | RequestUsage | ReplyFinished


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The abilities and limits of a model. ``prefers_examples`` is True for a small model: it gets
    a short prompt with worked examples and a grammar instead of the long prompt. ``functions`` is
    True if the model can call functions natively. ``price`` is the price in the operator's
    settings, or if they have none, the published price. ``unread`` has the cache keys
    (`ChatRequest.cache_key`) of prompts whose beginning the embedded model has not read into its
    cache yet. Until it has, a shorter prompt without this beginning is answered sooner.
    ``provider`` says who answers, or whose protocol is used, by a name of OpenTelemetry's
    conventions."""

    name: str
    vision: bool = False
    audio: bool = False
    grammar: bool = False
    prefers_examples: bool = False
    functions: bool = False
    context_tokens: int = 32_768
    price: Price = Price()
    unread: frozenset[str] = frozenset()
    provider: str = "_OTHER"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedModel:
    """A model of a chain that did not answer a request.

    Attributes:
        name: The name of its model group, which has the settings of one model.
        reason: Why it did not answer.
        detail: The error, for an operator, without secrets; empty if there was none.
        seconds: How long the chain waited for it.
        usage: The tokens that must be paid; None if there are none.
        price: Its price.
    """

    name: str
    reason: PassReason
    detail: str = ""
    seconds: float = 0.0
    usage: RequestUsage | None = None
    price: Price = Price()

    @property
    def cost(self) -> float:
        """What the failed request cost."""
        return self.price.of(self.usage) if self.usage else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The model of a chain that answers a request, and the models that did not answer it. ``name``
    is the name of the model group with the settings of the answering model."""

    name: str
    profile: ModelProfile
    passed: tuple[PassedModel, ...] = ()


class NoModelAnswered(ModelError):
    """No model of a chain answered.

    Args:
        passed: All models of the chain, in order, each with its reason.
    """

    def __init__(self, passed: Sequence[PassedModel]) -> None:
        told = "; ".join(
            f"{each.name}: {each.reason}{f' ({each.detail})' if each.detail else ''}"
            for each in passed
        )
        super().__init__(f"no model of the chain answers: {told}")
        self.passed = tuple(passed)


class ChatModel(Protocol):
    """A chat model. Many tasks may use it at the same time."""

    @property
    def profile(self) -> ModelProfile:
        """Return what the model can do."""

    def stream(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Send a request; the reply arrives as deltas. When the context ends, the request is closed
        at once.

        Each function call arrives once and complete, after the text and before the `RequestUsage`.
        If the reply is cut off, its calls arrive too, and each call that may be incomplete has a
        ``problem``. A failed request is retried only before the first delta. Raises the errors of
        this module.
        """

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """Prepare the model, so that the first requests wait less. This call is optional.

        ``likely`` are beginnings of expected prompts. A model with its own prompt cache reads them
        in advance. Raises the errors of this module.
        """

    async def aclose(self) -> None:
        """Close connections and end processes."""
