"""Makes the models of ``NEKRO_MODELS``, each at its first use."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import ChatModel
from nekro_core.llm.openai_model import OpenAIChatModel
from nekro_core.llm.settings import LLMSettings
from nekro_core.llm.switchable_model import SwitchableModel


class NamedModels:
    """Makes and finds models by the names of their groups. Its owner must call `aclose`."""

    def __init__(
        self,
        groups: Mapping[str, ModelGroupSettings],
        *,
        make: Callable[[LLMSettings], ChatModel] = OpenAIChatModel,
        staged: Callable[[ChatModel], ChatModel] = lambda model: model,
    ) -> None:
        self._groups = groups
        self._make = make
        self._staged = staged
        self._made: dict[str, tuple[ModelGroupSettings, SwitchableModel, ChatModel]] = {}

    def get(self, name: str) -> ChatModel | None:
        """Return the model of a group; None if there is no such group or it is not for chats."""
        settings = self._groups.get(name) or self._groups.get(name.lower())
        if settings is None or settings.type != "chat" or not settings.configured:
            return None
        made = self._made.get(name)
        if made is not None and made[0] is settings:
            return made[2]
        model = self._make(LLMSettings(**settings.model_dump(include=_OWN)))
        if made is None:
            switchable = SwitchableModel(model)
            self._made[name] = settings, switchable, self._staged(switchable)
        else:  # The operator changed the group.
            made[1].set(model)
            self._made[name] = settings, made[1], made[2]
        return self._made[name][2]

    async def aclose(self) -> None:
        """Close the connections of all models."""
        async with AsyncExitStack() as closing:
            while self._made:
                closing.push_async_callback(self._made.popitem()[1][1].aclose)


_OWN = set(LLMSettings.model_fields)
