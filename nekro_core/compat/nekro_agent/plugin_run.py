"""The values of a run of a plugin's code, and the protocol of what runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nekro_core.chat import ChatKey
from nekro_core.llm.model import Part, TextPart
from nekro_core.sandbox.box import RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The person for whom code runs, and the message that asks. All may be empty."""

    user_id: str = ""
    user_name: str = ""
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRun:
    """A run that has ended. ``observed`` is what its tools have for the model to see, by the names
    of these tools."""

    result: RunResult
    observed: Sequence[tuple[str, Sequence[Part]]] = ()

    @property
    def output(self) -> str:
        """What the code printed, what ended it, and the words of ``observed``."""
        seen = [
            part.text for _, parts in self.observed for part in parts if isinstance(part, TextPart)
        ]
        texts = (self.result.output.rstrip(), self.result.error.rstrip(), *seen)
        return "\n".join(filter(None, texts))

    @property
    def has_media(self) -> bool:
        """Whether ``observed`` has more than words."""
        return any(not isinstance(part, TextPart) for _, parts in self.observed for part in parts)


class CodeRunner(Protocol):
    """Runs code in the boxes of chats
    (`nekro_core.compat.nekro_agent.box_runs.ChatCodeRunner`)."""

    async def run(self, chat: ChatKey, code: str, asker: Asker) -> PluginRun:
        """Run code for a person. Raises `ToolFailure` if there is no box."""
