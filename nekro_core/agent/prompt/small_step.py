"""Defines what a prompt for a small model shows of a finished step. `small_prompt` is imported only
for a small model, and this module for each turn."""

from dataclasses import dataclass

from nekro_core.agent.prompt.quoting import PromptLines


@dataclass(frozen=True, slots=True)
class SmallPromptStep:
    """A step of the current turn: the code that ran, and what the model is shown of its results."""

    code: str
    observation: PromptLines
