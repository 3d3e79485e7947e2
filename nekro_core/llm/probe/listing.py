"""Reads the list of models that an endpoint offers.

Source: ``GET /models`` of the OpenAI API reference. OpenRouter, vLLM, Groq, Mistral, LM Studio and
llama.cpp also send the size of the context, each under a different name.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nekro_core.llm.failures import Redactor

_MOST_MODELS = 2000
_MAX_NAME = 200
_CONTEXT_FIELDS = (
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "loaded_context_length",
)


@dataclass(frozen=True, slots=True)
class ModelListing:
    """The names of an endpoint's models, each with the size of its context if the list has it."""

    names: tuple[str, ...] = ()
    contexts: Mapping[str, int] = field(default_factory=dict)

    def holds(self, model: str) -> bool:
        """Return True if the list has this model. Google's list writes ``models/`` before each
        name."""
        return model in self.names or f"models/{model}" in self.names

    def near(self, model: str) -> tuple[str, ...]:
        """Return up to three names that are spelled similarly to ``model``."""
        return tuple(difflib.get_close_matches(model, self.names, 3, 0.5))


def read_listing(body: Any, redact: Redactor) -> ModelListing | None:
    """Read the answer of ``GET /models``; None if it is not a list of models."""
    rows = body.get("data") if isinstance(body, Mapping) else None
    if not isinstance(rows, list):
        return None
    contexts: dict[str, int] = {}
    names: dict[str, None] = {}
    for row in rows[:_MOST_MODELS]:
        name = row.get("id") if isinstance(row, Mapping) else None
        if not isinstance(name, str) or not name or len(name) > _MAX_NAME:
            continue
        name = redact(name)
        names[name] = None
        if (context := _context_of(row)) is not None:
            contexts[name] = context
    return ModelListing(tuple(names), contexts)


def _context_of(row: Mapping[str, Any]) -> int | None:
    meta = row.get("meta")  # llama.cpp sends the size in this field.
    places: Sequence[Any] = [row.get(name) for name in _CONTEXT_FIELDS]
    if isinstance(meta, Mapping):
        places = [*places, meta.get("n_ctx"), meta.get("n_ctx_train")]
    for value in places:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
