"""The values of a run that a plugin starts, and the protocol `CodeRunner` of the object that runs
the code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nekro_core.chat import ChatKey
from nekro_core.llm.model import Part, TextPart
from nekro_core.sandbox.box import RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The person for whom code runs, and the message in which the person asks. All fields may be
    empty."""

    user_id: str = ""
    user_name: str = ""
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRun:
    """A run that has ended. ``observed`` lists the tool calls whose result the model should see,
    each as the tool's name and the parts of the result."""

    result: RunResult
    observed: Sequence[tuple[str, Sequence[Part]]] = ()

    @property
    def output(self) -> str:
        """What the code printed, the error that ended the run, and the texts in ``observed``."""
        seen = [
            part.text for _, parts in self.observed for part in parts if isinstance(part, TextPart)
        ]
        texts = (self.result.output.rstrip(), self.result.error.rstrip(), *seen)
        return "\n".join(filter(None, texts))

    @property
    def has_media(self) -> bool:
        """True if ``observed`` has parts that are not text."""
        return any(not isinstance(part, TextPart) for _, parts in self.observed for part in parts)


class CodeRunner(Protocol):
    """Runs code in the boxes of chats
    (`nekro_core.compat.nekro_agent.box_runs.ChatCodeRunner`)."""

    async def run(self, chat: ChatKey, code: str, asker: Asker) -> PluginRun:
        """Run code for a person. Raises `ToolFailure` if there is no box or if the box is lost."""
