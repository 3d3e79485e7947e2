"""Writes the prompt: a stable prefix, the chat's history, then the turn so far.

Providers cache the beginning of a prompt while it does not change. So the parts that change most
come last. The order is: rules, persona, place and tools; what memory says; the history, whose
beginning moves in jumps; what plugins add, the time, and which messages to answer. After these come
the reply and the report of each step.
The same input gives the same prompt.
"""

from functools import lru_cache

from nekro_core.agent.prompt.functions import FunctionSet
from nekro_core.agent.prompt.opening import opening_message
from nekro_core.agent.prompt.sources import PromptSources
from nekro_core.agent.prompt.steps import newest_seq, step_messages, tokens_of
from nekro_core.agent.prompt.view import CallAnswer, FinishedStep, PromptView
from nekro_core.agent.settings import PromptSettings
from nekro_core.llm.model import ChatRequest, ModelProfile, PromptMessage
from nekro_core.llm.tokens import estimate_tokens

__all__ = ["CallAnswer", "FinishedStep", "PromptView", "build_prompt"]

_MARGIN = 512
"""Number of tokens that stay unused, because all sizes are estimates."""
_LEAST_HISTORY = 1000
"""Minimum number of tokens for the history, however long the prefix and the steps are."""

_prefix_tokens = lru_cache(8)(estimate_tokens)
"""Cached: counting a prefix of 15,000 characters takes half a millisecond, and the prefix rarely
changes."""


def build_prompt(
    system: str,
    view: PromptView,
    *,
    settings: PromptSettings,
    profile: ModelProfile,
    max_tokens: int,
    functions: FunctionSet | None = None,
    sources: PromptSources | None = None,
) -> ChatRequest:
    """Write the request for the next step, within the model's context size. The texts and records
    from which the messages are made are added to ``sources``."""
    sources = sources or PromptSources()
    sources.use_form(view.zone, view.own_accounts)
    room = profile.context_tokens - max_tokens - _prefix_tokens(system) - _MARGIN
    room -= functions.tokens if functions else 0
    steps = step_messages(view, settings, room // 2, sources)
    used = sum(tokens_of(message) for message in steps)
    first_through = view.steps[0].through_seq if view.steps else newest_seq(view.records)
    past = [record for record in view.shown if record.seq <= first_through]
    opening = opening_message(past, view, settings, max(room - used, _LEAST_HISTORY), sources)
    return ChatRequest(
        messages=(PromptMessage.of("system", system), opening, *steps),
        max_tokens=max_tokens,
        functions=functions.offered if functions else (),
        chat=str(view.chat_key),
    )
