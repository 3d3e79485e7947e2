"""Connects the memory (`nekro_core.memory`) with the prompt, and with the model of the role
``quick``."""

from collections.abc import Collection

from nekro_core.agent.prompt.memory_sections import MemorySections
from nekro_core.chat import ChatKey
from nekro_core.llm.model import ChatModel, ChatRequest, PromptMessage, TextDelta
from nekro_core.llm.roles import ModelRole, RoleModels
from nekro_core.memory.background import NoQuickModel
from nekro_core.memory.keeper import MemoryKeeper


class PromptMemory:
    """Implements `MemoryReader`: returns what a prompt shows of the memory."""

    def __init__(self, memory: MemoryKeeper) -> None:
        self._memory = memory

    async def sections(
        self, chat_key: ChatKey, *, before_seq: int, people: Collection[str]
    ) -> MemorySections:
        """See `MemoryReader.sections`."""
        shown = await self._memory.sections(chat_key, before_seq=before_seq, people=people)
        return MemorySections(summary=shown.summary, notes=shown.notes)


class QuickModel:
    """Implements `BackgroundModel`: asks the model of the role ``quick``, within its budget."""

    def __init__(self, roles: RoleModels) -> None:
        self._roles = roles

    def require(self) -> None:
        """See `BackgroundModel.require`."""
        self._model()

    async def ask(self, instructions: str, text: str, *, max_tokens: int) -> str:
        """See `BackgroundModel.ask`."""
        model = self._model()
        messages = (PromptMessage.of("system", instructions), PromptMessage.of("user", text))
        async with model.stream(ChatRequest(messages=messages, max_tokens=max_tokens)) as deltas:
            return "".join([each.text async for each in deltas if isinstance(each, TextDelta)])

    def _model(self) -> ChatModel:
        model = self._roles.model(ModelRole.QUICK)
        if model is None:
            raise NoQuickModel("no model of the role quick is configured: NEKRO_ROLES__QUICK")
        return model
