"""Tries a persona: asks the model once how it would answer a stored conversation. The trial has no
effects."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import anyio

from nekro_core.agent.prompt.prompt import PromptView, build_prompt
from nekro_core.agent.prompt.system_prompt import native_system_prompt
from nekro_core.agent.turn.context import chat_place
from nekro_core.agent.turn.services import PromptServices
from nekro_core.chat import Author, ChatKey, Record
from nekro_core.llm.model import ChatModel, ChatRequest, ModelError, RequestUsage, TextDelta
from nekro_core.system.errors import NekroError

_MAX_TOKENS = 1024
"""Maximum number of tokens of the reply."""
_MOST_RECORDS = 200
_LIMIT_S = 120.0
"""Maximum number of seconds of a trial."""


class NothingToAnswer(NekroError):
    """The conversation has no message of a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaTrial:
    """The outcome of a trial.

    Attributes:
        reply: The text that the bot would write. It was neither sent nor stored.
        question: The record that the reply answers.
        model: The name of the model.
        seconds: How long the request took, in seconds.
        usage: The tokens of the request; None if the endpoint reported none.
        money: What the request cost, in the operator's currency.
    """

    reply: str
    question: Record
    model: str
    seconds: float
    usage: RequestUsage | None
    money: float


async def try_persona(
    services: PromptServices,
    chat_key: ChatKey,
    persona: str,
    *,
    last: int = 30,
    model: ChatModel | None = None,
) -> PersonaTrial:
    """Ask the model how it would answer the last message of a chat with another persona.

    The prompt has the rules for a model that writes plain words. It has no functions and no
    additions of plugins. The reply is not sent, stored or counted in quotas.

    Args:
        services: The bot's services.
        chat_key: The chat whose history is used.
        persona: The text of the persona.
        last: How many of the newest records are shown, 1 to 200.
        model: The model to ask; None for the chat's model.

    Returns:
        The reply and its cost.

    Raises:
        NothingToAnswer: Nobody has written in the chat.
        ModelError: The model failed, or gave no reply within two minutes.
        StoreError: The history cannot be read.
    """
    policy = services.policies.of(chat_key)
    asked = model or policy.model
    records = await services.store.messages.newest(chat_key, max(1, min(last, _MOST_RECORDS)))
    records = _since_reset(records)
    question = next((r for r in reversed(records) if _is_question(r)), None)
    if question is None:
        raise NothingToAnswer(f"nobody has written in {chat_key}, so there is nothing to answer")
    records = [record for record in records if record.seq <= question.seq]
    zone = services.settings.timezone
    view = PromptView(
        chat_key=chat_key,
        records=records,
        unanswered={question.seq},
        run_ids=(),
        steps=(),
        own_accounts=services.store.accounts.own(chat_key.instance),
        now=services.wall(),
        zone=ZoneInfo(zone) if zone else None,
        pictures={},
        asker=question.sender,
    )
    profile = asked.profile
    place = chat_place(services, chat_key, now=view.now, vision=False)
    request = build_prompt(
        native_system_prompt(names=policy.names, persona=persona, place=place),
        view,
        settings=services.settings.prompt,
        profile=profile,
        max_tokens=min(_MAX_TOKENS, profile.context_tokens // 4),
    )
    began = time.monotonic()
    reply, usage = await _ask(asked, request)
    return PersonaTrial(
        reply=reply,
        question=question,
        model=profile.name,
        seconds=time.monotonic() - began,
        usage=usage,
        money=profile.price.of(usage) if usage else 0.0,
    )


async def _ask(model: ChatModel, request: ChatRequest) -> tuple[str, RequestUsage | None]:
    words: list[str] = []
    usage: RequestUsage | None = None
    try:
        with anyio.fail_after(_LIMIT_S):
            async with model.stream(request) as deltas:
                async for delta in deltas:
                    if isinstance(delta, TextDelta):
                        words.append(delta.text)
                    elif isinstance(delta, RequestUsage):
                        usage = delta
    except TimeoutError:
        raise ModelError(f"the model gave no whole reply within {_LIMIT_S:g} s") from None
    return "".join(words).strip(), usage


def _is_question(record: Record) -> bool:
    return record.author is Author.PERSON and not record.recalled


def _since_reset(records: Sequence[Record]) -> list[Record]:
    """Return the records after the last reset of the conversation."""
    beginning = max((i for i, each in enumerate(records) if each.begins_anew), default=-1)
    return list(records[beginning + 1 :])
