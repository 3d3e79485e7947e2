"""The functions with which plugins for nekro-agent ask language models and make vectors.

Without an address (``base_url``), the bot's own model answers, and vectors are made in this
process. Errors are `nekro_core.llm.model.ModelError` and its subclasses. `QuotaExceeded` is raised
if the turn to which the call belongs has reached a limit, or if the provider refuses because of a
quota.
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
        message_cnt: The number of messages in ``messages``.
        token_consumption: Tokens of the request and the answer together.
        token_input: Tokens of the request.
        token_output: Tokens of the answer.
        use_model: The name of the model that answered.
        speed_tokens_per_second: Tokens of the answer, divided by the time of the whole request.
        first_token_cost_ms: Milliseconds until the first text arrived; 0 if there was no text.
        generation_time_ms: Milliseconds until the answer was complete.
        stream_mode: The caller's ``stream_mode``. Answers are always streamed.
        finish_reason: ``stop``, ``length``, or another word that the provider sent.
    """

    response_content: str
    thought_chain: str = ""
    """Always empty. The tokens of a model's thoughts are counted, but the text is not stored."""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    """The messages of the request, followed by the answer."""
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
    """The models of the bot whose plugin is running. Raises `NoCurrentBot`."""
    models = current_services().models
    if models is None:
        raise NoCurrentBot("this bot has no models for plugins")
    return models


def model_groups() -> ModelGroups:
    """List the model groups of the operator's settings.

    Returns:
        The groups by name. Reading a missing name raises a `KeyError` whose text says how to add a
        group.

    Raises:
        NoCurrentBot: Called outside of a plugin's code, or the bot has no models for plugins.
    """
    groups = current_services().extension(ModelGroups)
    if groups is None:
        raise NoCurrentBot("this bot has no models for plugins")
    return groups


def get_model_group_info(name: str) -> ModelConfigGroup:
    """Look up a model group of the operator's settings. Raises `KeyError`, whose text says how to
    add a group, and `NoCurrentBot` outside of a plugin's code.

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
    """Ask a model and wait for the complete answer. Answers are always streamed from the provider.
    Tokens and money count toward the limits of the turn to which the call belongs.

    Args:
        model: The model's name at ``base_url``.
        messages: `OpenAIChatMessage` objects, or dicts in the form of OpenAI's API. A message of
            another form raises `ValueError` or `TypeError`.
        temperature: Sent to the provider unchanged; None leaves the choice to the provider.
        top_p: Sent in the same way as ``temperature``.
        top_k: Sent in the same way as ``temperature``.
        frequency_penalty: Sent in the same way as ``temperature``.
        presence_penalty: Sent in the same way as ``temperature``.
        extra_body: Further fields of the request's body.
        api_key: The provider's key.
        base_url: The address of the API. Without an address, the bot's own model answers, and
            ``model`` is ignored.
        proxy_url: The address of a proxy.
        stream_mode: Copied to the result; it has no other effect.
        max_wait_time: Time limit in seconds; 600 unless given.
        max_tokens: Maximum number of tokens of the answer. If not given, 4096 or a quarter of the
            model's context, whichever is less.
        stop: Texts at which the answer ends.
        other: Ignored; their names are logged.

    Returns:
        The answer and its cost.

    Raises:
        ModelUnreachable: The answer was not complete within ``max_wait_time``, or there was no
            connection.
        ModelError: The provider refused for another reason. `QuotaExceeded` is also raised if the
            turn has reached a limit.
    """
    if other:
        logger.debug("gen_openai_chat_response: ignored: {}", ", ".join(other))
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
    input: str | list[Any] = "",  # noqa: A002 - the parameter's name in nekro-agent
    api_key: str | None = None,
    base_url: str | None = None,
    dimensions: int | None = None,
    *,
    proxy_url: str | None = None,
    max_wait_time: float | None = None,
    **other: Any,
) -> list[float] | list[list[float]]:
    """Turn texts into vectors. Without ``base_url``, the vectors are made in this process, from the
    words and parts of words in each text. Texts that share many words or parts have near vectors.

    Args:
        model: The model's name at ``base_url``.
        input: A text, or a list of 1 to 2048 texts.
        api_key: The provider's key.
        base_url: The address of the API; without an address, the vectors are made in this process.
        dimensions: How many numbers a vector has. For vectors made in this process it is 8 to 8192,
            and 1024 unless given.
        proxy_url: The address of a proxy.
        max_wait_time: Time limit in seconds; 60 unless given.
        other: Ignored; their names are logged.

    Returns:
        A vector for a text, or a list of vectors for a list of texts. Vectors made in this process
        have length 1.

    Raises:
        ValueError: There are no texts or more than 2048, or ``dimensions`` is invalid.
        RequestRejected: ``base_url`` is given without ``model``, or the provider's answer has no
            embeddings.
        ModelError: The provider refused for another reason.
    """
    if other:
        logger.debug("gen_openai_embeddings: ignored: {}", ", ".join(other))
    texts = input if isinstance(input, list) else [input]
    if not 0 < len(texts) <= _MOST_TEXTS:
        raise InvalidValue(f"{len(texts)} texts: expected 1 to {_MOST_TEXTS}")
    address = _endpoint(base_url)
    if not address:
        # A thousand texts take a second. A thread does the work, so that the event loop is not
        # blocked.
        vectors = await anyio.to_thread.run_sync(
            lambda: [embed_locally(str(text), dimensions) for text in texts]
        )
    else:
        ledger = plugin_models().ledger
        ledger.check()
        if not model:
            raise RequestRejected("embeddings with a base_url need the name of a model")
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
    """Remove spaces around an address. For `EMBEDDED`, which means the models that are part of the
    bot, returns an empty text."""
    address = (base_url or "").strip()
    return "" if address.rstrip("/") == EMBEDDED else address


def _message_dict(message: Given) -> dict[str, Any]:
    return dict(message.to_dict() if hasattr(message, "to_dict") else message)
