"""The capabilities behind ``ctx.llm``: requests to the bot's model."""

import json
from collections.abc import Mapping
from typing import Any, Literal

import anyio

from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.formats.prompt_messages import prompt_messages
from nekro_core.compat.maibot.formats.results import decoded
from nekro_core.compat.nekro_agent.models.functions import gen_openai_embeddings, model_groups
from nekro_core.llm.model import (
    AudioPart,
    ChatRequest,
    Function,
    FunctionCall,
    ModelError,
    Part,
    PromptMessage,
    ReplyFinished,
    RequestUsage,
    TextDelta,
    TextPart,
)

TASKS = ("utils", "replyer", "planner", "vlm", "voice", "embedding")
"""The names of MaiBot's tasks. In MaiBot, a plugin chooses a model by naming a task. Here the bot's
model does every task except ``embedding``."""
_EMBEDDING = "text-embedding"
_LONGEST_S = 180.0
_MOST_TOKENS = 16_384


async def generate(call: CapabilityCall) -> Answer:
    """``llm.generate`` and ``llm.generate_with_tools``: asks the model once."""
    prompt = call.args.get("prompt")
    messages = prompt_messages(prompt)
    if not messages:
        raise CapabilityError(f"{call.name}: prompt must be a text or a list of messages")
    return await ask(call, messages, functions=_functions(call.args.get("tools")))


async def ask(
    call: CapabilityCall,
    messages: tuple[PromptMessage, ...],
    *,
    functions: tuple[Function, ...] = (),
) -> Answer:
    """Ask the model once, and return the answer in MaiBot's form. Raises `CapabilityError`."""
    model = call.bot.services.model
    if model is None:
        raise CapabilityError(f"{call.name}: there is no model here")
    temperature = call.args.get("temperature")
    request = ChatRequest(
        messages=messages,
        max_tokens=call.number("max_tokens", 2048, _MOST_TOKENS),
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
        functions=functions,
    )
    words: list[str] = []
    calls: list[FunctionCall] = []
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    try:
        with anyio.fail_after(_LONGEST_S):
            async with model.stream(request) as deltas:
                async for delta in deltas:
                    match delta:
                        case TextDelta(text):
                            words.append(text)
                        case FunctionCall():
                            calls.append(delta)
                        case RequestUsage():
                            usage = delta
                        case ReplyFinished():
                            pass
    except ModelError as error:
        raise CapabilityError(f"the model did not answer: {error}") from None
    except TimeoutError:
        raise CapabilityError(f"the model took over {_LONGEST_S:g} s") from None
    return success(
        response="".join(words),
        reasoning="",
        model=model.profile.name,
        model_name=model.profile.name,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.tokens,
        prompt_cache_hit_tokens=usage.cached_tokens,
        prompt_cache_miss_tokens=usage.prompt_tokens - usage.cached_tokens,
        **({"tool_calls": [_call(each) for each in calls]} if functions else {}),
    )


async def embed(call: CapabilityCall) -> Answer:
    """``llm.embed``: makes the vectors of one text or of several texts."""
    texts = call.args.get("texts")
    several = isinstance(texts, list)
    given = [str(each) for each in texts] if isinstance(texts, list) else [call.text("text")]
    if not all(given) or not given:
        raise CapabilityError("llm.embed: there is nothing to embed")
    try:
        group = model_groups()[_EMBEDDING]
        vectors = await gen_openai_embeddings(
            group.CHAT_MODEL, [*given], base_url=group.BASE_URL, api_key=group.API_KEY
        )
    except (ModelError, ValueError, KeyError, RuntimeError) as error:
        raise CapabilityError(f"llm.embed: {error}") from None
    name = group.CHAT_MODEL
    if not several:
        return success(embedding=vectors[0], model_name=name)
    results = [
        {"text": text, "embedding": vector, "model_name": name, "success": True}
        for text, vector in zip(given, vectors, strict=True)
    ]
    return success(results=results, model_name=name)


async def transcribe(call: CapabilityCall) -> Answer:
    """``llm.transcribe_audio``: asks the model to transcribe a sound. The model must accept
    sound."""
    model = call.bot.services.model
    if model is None or not model.profile.audio:
        raise CapabilityError("llm.transcribe_audio: the model does not accept sound")
    data = decoded(call.text("audio_base64", "voice_base64", needed=True))
    if data is None:
        raise CapabilityError("llm.transcribe_audio: the audio is no base64")
    sound: Literal["wav", "mp3"] = "wav" if data[:4] == b"RIFF" else "mp3"
    parts: tuple[Part, ...] = (TextPart("Write down what is said, and nothing else."),)
    message = PromptMessage("user", (*parts, AudioPart(data, sound)))
    answer = await ask(call, (message,))
    return success(text=answer["response"], content=answer["response"])


async def models(call: CapabilityCall) -> Answer:
    """``llm.get_available_models``: the names in `TASKS`."""
    del call
    return success(models=list(TASKS))


def _functions(tools: Any) -> tuple[Function, ...]:
    functions = []
    for each in tools if isinstance(tools, list) else ():
        inner = each.get("function", each) if isinstance(each, Mapping) else None
        if isinstance(inner, Mapping) and inner.get("name"):
            functions.append(
                Function(
                    name=str(inner["name"])[:64],
                    description=str(inner.get("description") or inner["name"]),
                    parameters=inner.get("parameters") or {"type": "object", "properties": {}},
                )
            )
    return tuple(functions)


def _call(call: FunctionCall) -> dict[str, Any]:
    arguments = dict(call.arguments) if not call.problem else {"written": call.written}
    return {
        "id": call.call_id,
        "function": {"name": call.name, "arguments": json.loads(json.dumps(arguments))},
    }


TABLE: Mapping[str, CapabilityEntry] = {
    "llm.generate": CapabilityEntry(generate),
    "llm.generate_with_tools": CapabilityEntry(generate),
    "llm.embed": CapabilityEntry(
        embed, "works; by the group text-embedding of the operator's models"
    ),
    "llm.transcribe_audio": CapabilityEntry(transcribe, "partly: by a model that hears (wav, mp3)"),
    "llm.get_available_models": CapabilityEntry(models),
}
