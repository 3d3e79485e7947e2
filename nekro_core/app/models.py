"""Holds the models of the bot by name, and changes them while the bot runs."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from nekro_core.compat.nekro_agent.host import NekroAgentHost
from nekro_core.compat.nekro_agent.models.groups import ModelGroups, replace_groups
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.embedded.model import EmbeddedModel, EmbeddedState
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import ChatModel
from nekro_core.llm.named import NamedModels
from nekro_core.llm.replaceable import ReplaceableModel
from nekro_core.llm.role_settings import DEFAULT, EMBEDDED
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.models.endpoints import PluginModels


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginModelViews:
    """The descriptions of the models that plugins read: the endpoints, and the model groups by the
    names that nekro-agent uses."""

    endpoints: PluginModels
    groups: ModelGroups
    host: NekroAgentHost


class ModelSources:
    """The models of a running bot by name. Its owner must call `aclose`.

    Args:
        default: The default model, which may be the embedded one.
        named: The model groups.
        make_embedded: Makes the embedded model. It is called when a chain first names it, unless it
            is the default model.
    """

    def __init__(
        self,
        default: ReplaceableModel,
        named: NamedModels,
        make_embedded: Callable[[], ChatModel],
    ) -> None:
        self.default = default
        self.named = named
        self._make_embedded = make_embedded
        self._embedded: ReplaceableModel | None = None

    def find(self, name: str) -> ChatModel | None:
        """Return the model with a name. Return None if there is no such model, or if it does not
        answer chat requests."""
        if name == DEFAULT:
            return self.default
        if name != EMBEDDED:
            return self.named.get(name)
        if isinstance(self.default.present, EmbeddedModel):
            return self.default
        if self._embedded is None:
            self._embedded = ReplaceableModel(self._make_embedded())
        return self._embedded

    @property
    def embedded(self) -> EmbeddedModel | None:
        """The embedded model; None if nothing uses it."""
        for each in (self.default, self._embedded):
            if each is not None and isinstance(each.present, EmbeddedModel):
                return each.present
        return None

    async def renew_embedded(self) -> None:
        """Close the embedded model that was made for a chain. The next request makes it again with
        the present settings. If the embedded model has become the default model, the chain uses the
        default model, because two embedded models would use the same folder."""
        old, self._embedded = self._embedded, None
        if old is not None:
            await old.retire()

    async def aclose(self) -> None:
        """Close all models."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.default.aclose)
            closing.push_async_callback(self.named.aclose)
            if self._embedded is not None:
                closing.push_async_callback(self._embedded.aclose)


class ModelRegistry:
    """The default model and the model groups of a running bot, and what uses them.

    Args:
        llm: The settings of the default model. Without an address, the embedded model answers.
        sources: The models by name.
        chains: The chains of models, which are built again after a change.
        views: The descriptions of the models that plugins read.
        make: Makes the default model from its settings and those of the embedded model.
        embedded: The settings of the embedded model.
    """

    def __init__(
        self,
        llm: LLMSettings,
        sources: ModelSources,
        chains: ModelChains,
        views: PluginModelViews,
        make: Callable[[LLMSettings, EmbeddedSettings], ChatModel],
        embedded: EmbeddedSettings,
    ) -> None:
        self.sources = sources
        self.default = sources.default
        self.named = sources.named
        self.chains = chains
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
        """The state of the embedded model; None if nothing uses it."""
        embedded = self.sources.embedded
        return embedded.state if embedded is not None else None

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

        The old models finish their running requests. Models whose settings have not changed keep
        their connections.

        Args:
            llm: The settings of the default model.
            groups: The settings of all model groups by name.
            embedded: The settings of the embedded model; None if they do not change.
        """
        async with self._changing:
            embedded = embedded or self._embedded
            old = self.named.groups
            changed, others_changed = llm != self._llm, groups != old
            other_embedded = embedded != self._embedded
            reloaded = other_embedded and not llm.configured
            # Keep copies. The caller may change its objects, and the next call compares its
            # arguments with these copies.
            self._llm, self._embedded = llm.model_copy(), embedded.model_copy()
            if changed or other_embedded:
                await self.sources.renew_embedded()
            if changed or reloaded:
                await self.default.replace(self._make(self._llm, self._embedded))
            replaced = {name for name in {*old, *groups} if old.get(name) != groups.get(name)}
            replaced |= {DEFAULT} if changed or reloaded else set()
            replaced |= {EMBEDDED} if changed or other_embedded else set()
            # Build the chains anew even if no model has changed, because the settings of the roles
            # may have changed.
            self.chains.changed([*replaced])
            if not (changed or reloaded or others_changed):
                return
            await self.named.replace(groups)
            views = self.views
            views.host.llm = llm
            replace_groups(views.groups, llm, groups, embedded=self.default.profile.name)
            await views.endpoints.replace(llm, groups)
