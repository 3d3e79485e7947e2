"""The functions by which nekro-agent's plugins ask models.

Without an address (``base_url``) the bot's own model answers, and vectors are made in this process.
Errors are `nekro_core.llm.model.ModelError` and its subclasses; `QuotaExceeded` also says that the
turn that the call belongs to has reached a limit.
"""

import time
from collections.abc import Iterable
from typing import Any, overload

import anyio
import anyio.to_thread
from loguru import logger
from pydantic import BaseModel, Field

from nekro_core.compat.nekro_agent.models.groups import EMBEDDED, ModelConfigGroup, ModelGroups
from nekro_core.compat.nekro_agent.models.messages import Given, prompt_message
from nekro_core.llm.model import (
    ChatRequest,
    ModelProfile,
    ModelUnreachable,
    ReplyFinished,
    RequestRejected,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.plugins.authoring.current import NoCurrentBot, current_services
from nekro_core.plugins.authoring.services import ModelEndpoints
from nekro_core.plugins.models.embedding import EmbeddingEndpoint, embed_locally
from nekro_core.tools.outcome import InvalidValue

_MAX_TOKENS = 4096
_LONGEST_S = 600.0
_EMBEDDING_S = 60.0
_MOST_TEXTS = 2048


class OpenAIResponse(BaseModel):
    """A model's answer, and its cost.

    Attributes:
        response_content: The answer's text.
        message_cnt: How many messages ``messages`` has.
        token_consumption: Tokens of question and answer together.
        token_input: Tokens of the question.
        token_output: Tokens of the answer.
        use_model: The name of the model that answered.
        speed_tokens_per_second: Tokens of the answer divided by the whole time.
        first_token_cost_ms: Milliseconds until the first words; 0 if there were none.
        generation_time_ms: Milliseconds until the last words.
        stream_mode: What the caller asked for; answers are streamed in any case.
        finish_reason: ``stop``, ``length``, or another word of the provider's.
    """

    response_content: str
    thought_chain: str = ""
    """Always empty: a model's thoughts are counted and not stored."""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    """The messages of the request, and the answer after them."""
    message_cnt: int = 0
    token_consumption: int = 0
    token_input: int = 0
    token_output: int = 0
    use_model: str = ""
    speed_tokens_per_second: float = 0.0
    first_token_cost_ms: int = 0
    generation_time_ms: int = 0
    stream_mode: bool = False
    finish_reason: str = "stop"


def plugin_models() -> ModelEndpoints:
    """The models of the bot whose plugin's code runs. Raises `NoCurrentBot`."""
    models = current_services().models
    if models is None:
        raise NoCurrentBot("this bot has no models for plugins")
    return models


def model_groups() -> ModelGroups:
    """List the models that the operator has named.

    Returns:
        The groups by name. A missing name raises a `KeyError` whose text says how to set it.

    Raises:
        NoCurrentBot: Called outside of a plugin's code, or the bot has no models for plugins.
    """
    groups = current_services().extension(ModelGroups)
    if groups is None:
        raise NoCurrentBot("this bot has no models for plugins")
    return groups


def get_model_group_info(name: str) -> ModelConfigGroup:
    """Look up a model that the operator has named. Raises `KeyError`, whose text says how the
    operator names one, and `NoCurrentBot` outside of a plugin's code.

    Args:
        name: The group's name, such as ``default``.

    Returns:
        The group.
    """
    return model_groups()[name]


async def gen_openai_chat_response(
    model: str,
    messages: Iterable[Given],
    temperature: float | None = None,
    *,
    top_p: float | None = None,
    top_k: int | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    extra_body: dict[str, Any] | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    proxy_url: str | None = None,
    stream_mode: bool = False,
    max_wait_time: float | None = None,
    max_tokens: int | None = None,
    stop: list[str] | None = None,
    **other: Any,
) -> OpenAIResponse:
    """Ask a model and wait for its whole answer. Answers are always streamed from the provider.
    Tokens and money count for the turn that the call belongs to.

    Args:
        model: The model's name at ``base_url``.
        messages: `OpenAIChatMessage`, or dicts as OpenAI's API takes them. A message that is
            neither raises `ValueError` or `TypeError`.
        temperature: As the provider understands it; None leaves it to the provider.
        top_p: The same.
        top_k: The same.
        frequency_penalty: The same.
        presence_penalty: The same.
        extra_body: Further fields of the request's body.
        api_key: The provider's key.
        base_url: The address of the API. Without one the bot's own model answers, whatever
            ``model`` says.
        proxy_url: The address of a proxy.
        stream_mode: Copied to the answer, and otherwise ignored.
        max_wait_time: Seconds; 600 unless given.
        max_tokens: Tokens of the answer; unless given 4096, or a quarter of the model's context if
            that is less.
        stop: Texts at which the answer ends.
        other: Ignored, with a line in the log.

    Returns:
        The answer and its cost.

    Raises:
        ModelUnreachable: No whole answer within ``max_wait_time``, or no connection.
        ModelError: Anything else that the provider refuses; `QuotaExceeded` also says that the turn
            has reached a limit.
    """
    if other:
        logger.debug("gen_openai_chat_response: no use for {}", ", ".join(other))
    given = list(messages)
    chat_model = await plugin_models().chat(
        model, base_url=_endpoint(base_url), api_key=api_key or "", proxy=proxy_url or ""
    )
    extra = {
        "top_p": top_p,
        "top_k": top_k,
        "frequency_penalty": frequency_penalty,
        "presence_penalty": presence_penalty,
    }
    request = ChatRequest(
        messages=tuple(prompt_message(each) for each in given),
        max_tokens=max_tokens or min(_MAX_TOKENS, chat_model.profile.context_tokens // 4),
        temperature=temperature,
        stop=tuple(stop or ()),
        extra={name: value for name, value in extra.items() if value is not None}
        | (extra_body or {}),
    )
    words: list[str] = []
    usage, reason, first = RequestUsage(prompt_tokens=0, completion_tokens=0), "stop", 0.0
    began = time.monotonic()
    limit_s = max_wait_time or _LONGEST_S
    with anyio.move_on_after(limit_s) as limit:
        async with chat_model.stream(request) as deltas:
            async for delta in deltas:
                match delta:
                    case TextDelta(text):
                        first = first or time.monotonic()
                        words.append(text)
                    case RequestUsage():
                        usage = delta
                    case ReplyFinished(why):
                        reason = why
    if limit.cancelled_caught:
        raise ModelUnreachable(f"{model} did not answer within {limit_s:g} s")
    seconds, answer = time.monotonic() - began, "".join(words)
    return OpenAIResponse(
        response_content=answer,
        messages=[*map(_message_dict, given), {"role": "assistant", "content": answer}],
        message_cnt=len(given) + 1,
        token_consumption=usage.tokens,
        token_input=usage.prompt_tokens,
        token_output=usage.completion_tokens,
        use_model=chat_model.profile.name,
        speed_tokens_per_second=usage.completion_tokens / seconds if seconds else 0.0,
        first_token_cost_ms=round((first - began) * 1000) if first else 0,
        generation_time_ms=round(seconds * 1000),
        stream_mode=stream_mode,
        finish_reason=reason,
    )


@overload
async def gen_openai_embeddings(
    model: str = ..., input: str = ..., **options: Any
) -> list[float]: ...
@overload
async def gen_openai_embeddings(
    model: str, input: list[Any], **options: Any
) -> list[list[float]]: ...
async def gen_openai_embeddings(
    model: str = "",
    input: str | list[Any] = "",  # noqa: A002 - the name by which existing plugins give it
    api_key: str | None = None,
    base_url: str | None = None,
    dimensions: int | None = None,
    *,
    proxy_url: str | None = None,
    max_wait_time: float | None = None,
    **other: Any,
) -> list[float] | list[list[float]]:
    """Turn texts into vectors. Without an endpoint the vectors are made in this process, from the
    words and their parts. Texts that share many of them have near vectors.

    Args:
        model: The model's name at ``base_url``.
        input: A text, or 1 to 2048 of them.
        api_key: The provider's key.
        base_url: The address of the API; without one the vectors are made in this process.
        dimensions: How many numbers a vector has. Without an endpoint 8 to 8192, and 1024 unless
            given.
        proxy_url: The address of a proxy.
        max_wait_time: Seconds; 60 unless given.
        other: Ignored, with a line in the log.

    Returns:
        One vector for a text, a list of vectors for a list. Vectors made in this process have
        length 1.

    Raises:
        ValueError: No texts, more than 2048, or invalid dimensions.
        RequestRejected: An endpoint without a model's name, or an answer without embeddings.
        ModelError: Anything else that the provider refuses.
    """
    if other:
        logger.debug("gen_openai_embeddings: no use for {}", ", ".join(other))
    texts = input if isinstance(input, list) else [input]
    if not 0 < len(texts) <= _MOST_TEXTS:
        raise InvalidValue(f"{len(texts)} texts: expected 1 to {_MOST_TEXTS}")
    address = _endpoint(base_url)
    if not address:
        # A thousand texts take a second, during which the event loop must go on.
        vectors = await anyio.to_thread.run_sync(
            lambda: [embed_locally(str(text), dimensions) for text in texts]
        )
    else:
        ledger = plugin_models().ledger
        ledger.check()
        if not model:
            raise RequestRejected("no model is named for the embeddings")
        started = ledger.now()
        endpoint = EmbeddingEndpoint(
            address, api_key or "", proxy=proxy_url or "", timeout_s=max_wait_time or _EMBEDDING_S
        )
        vectors, tokens = await endpoint.embed(model, texts, dimensions)
        ledger.count(
            RequestUsage(
                prompt_tokens=tokens or sum(estimate_tokens(str(text)) for text in texts),
                completion_tokens=0,
                estimated=not tokens,
            ),
            ModelProfile(name=model, price=plugin_models().price(address, model)),
            started,
        )
    return vectors if isinstance(input, list) else vectors[0]


def _endpoint(base_url: str | None) -> str:
    """An address without spaces around it; empty for the models in this process."""
    address = (base_url or "").strip()
    return "" if address.rstrip("/") == EMBEDDED else address


def _message_dict(message: Given) -> dict[str, Any]:
    return dict(message.to_dict() if hasattr(message, "to_dict") else message)
