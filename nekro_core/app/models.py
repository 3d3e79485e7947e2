"""Holds the models of the bot, and changes them while it runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio

from nekro_core.compat.nekro_agent.host import NekroAgentHost
from nekro_core.compat.nekro_agent.models.groups import ModelGroups, replace_groups
from nekro_core.llm.embedded import EmbeddedModel, EmbeddedSettings, EmbeddedState
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import ChatModel
from nekro_core.llm.named import NamedModels
from nekro_core.llm.replaceable import ReplaceableModel
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.models.endpoints import PluginModels


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginModelViews:
    """How plugins see the models: the endpoints, and the groups under nekro-agent's names."""

    endpoints: PluginModels
    groups: ModelGroups
    host: NekroAgentHost


class ModelRegistry:
    """The default model and the model groups of a running bot, and what uses them.

    Args:
        llm: The settings of the default model. Without an address, the embedded model answers.
        default: The default model.
        named: The model groups.
        views: How plugins see the models.
        make: Makes the default model from its settings and those of the embedded model.
        embedded: The settings of the embedded model.
    """

    def __init__(
        self,
        llm: LLMSettings,
        default: ReplaceableModel,
        named: NamedModels,
        views: PluginModelViews,
        make: Callable[[LLMSettings, EmbeddedSettings], ChatModel],
        embedded: EmbeddedSettings,
    ) -> None:
        self.default = default
        self.named = named
        self._llm = llm.model_copy()
        self._embedded = embedded.model_copy()
        self.views = views
        self._make = make
        self._changing = anyio.Lock()

    @property
    def llm(self) -> LLMSettings:
        """The settings of the default model."""
        return self._llm

    @property
    def embedded(self) -> EmbeddedSettings:
        """The settings of the embedded model."""
        return self._embedded

    @property
    def embedded_state(self) -> EmbeddedState | None:
        """The state of the embedded model; None if another model is the default one."""
        present = self.default.present
        return present.state if isinstance(present, EmbeddedModel) else None

    @property
    def groups(self) -> Mapping[str, ModelGroupSettings]:
        """The settings of the model groups by name."""
        return self.named.groups

    async def replace(
        self,
        llm: LLMSettings,
        groups: Mapping[str, ModelGroupSettings],
        embedded: EmbeddedSettings | None = None,
    ) -> None:
        """Use these models from now on, in chats and in plugins.

        The old models finish the requests that run. Models whose settings are equal keep their
        connections.

        Args:
            llm: The settings of the default model.
            groups: The settings of all model groups by name.
            embedded: The settings of the embedded model; None if they stay.
        """
        async with self._changing:
            embedded = embedded or self._embedded
            changed, others_changed = llm != self._llm, groups != self.named.groups
            reloaded = embedded != self._embedded and not llm.configured
            # Copies, so that a change of the caller's objects is noticed the next time.
            self._llm, self._embedded = llm.model_copy(), embedded.model_copy()
            if changed or reloaded:
                await self.default.replace(self._make(self._llm, self._embedded))
            if not (changed or reloaded or others_changed):
                return
            await self.named.replace(groups)
            views = self.views
            views.host.llm = llm
            replace_groups(views.groups, llm, groups, embedded=self.default.profile.name)
            await views.endpoints.replace(llm, groups)
