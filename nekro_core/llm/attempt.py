"""One try at a reply: what it has brought so far, and how it failed."""

from dataclasses import dataclass, field

from nekro_core.llm.events import UsageEvent
from nekro_core.llm.function_calls import FunctionCallAssembler
from nekro_core.llm.model import ChatRequest, ModelError, RequestUsage
from nekro_core.llm.tokens import estimate_prompt, estimate_tokens
from nekro_core.system.errors import NekroError

_CHARACTERS_PER_TOKEN = 16
_LEAST_BOUND = 64_000


class AttemptFailed(NekroError):
    """A try failed. ``begun``: some of the reply had arrived; ``again``: another may succeed."""

    def __init__(self, error: ModelError, *, again: bool = False, begun: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.begun = begun


@dataclass(slots=True)
class RequestAttempt:
    """The account of one try. ``reason`` is the provider's word for why the reply ended, ``done``
    whether its mark of the end has come."""

    request: ChatRequest
    words: list[str] = field(default_factory=list)
    calls: FunctionCallAssembler = field(default_factory=FunctionCallAssembler)
    call_characters: int = 0
    characters: int = 0
    thought_characters: int = 0
    cost: UsageEvent | None = None
    reason: str = ""
    done: bool = False

    @property
    def begun(self) -> bool:
        """Whether anything has arrived that is paid for."""
        return bool(self.characters or self.thought_characters or self.call_characters)

    @property
    def room(self) -> int:
        """Characters still taken: a model that never ends is cut as by its own limit."""
        bound = max(_LEAST_BOUND, self.request.max_tokens * _CHARACTERS_PER_TOKEN)
        taken = self.characters + self.thought_characters + self.call_characters
        return max(0, bound - taken)

    def usage(self) -> RequestUsage:
        """The provider's count, or an estimate."""
        if self.cost:
            return RequestUsage(
                prompt_tokens=self.cost.prompt_tokens,
                completion_tokens=self.cost.completion_tokens,
                cached_tokens=self.cost.cached_tokens,
            )
        unseen = round((self.thought_characters + self.call_characters) / 3.5)
        return RequestUsage(
            prompt_tokens=estimate_prompt(self.request),
            completion_tokens=estimate_tokens("".join(self.words)) + unseen,
            estimated=True,
        )
