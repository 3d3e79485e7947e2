"""Builds chains of models, for roles and for chats. If a model of a chain fails, the next one is
asked. All chains with the same model share its breaker, which keeps the model from being asked for
a while after it failed."""

import time
from collections.abc import Callable, Mapping, Sequence

from loguru import logger

from nekro_core.llm.breaker import CircuitBreaker
from nekro_core.llm.chain import ChainLink, ModelChain
from nekro_core.llm.model import ChatModel, Price
from nekro_core.llm.price_rule import PriceRule
from nekro_core.llm.role_settings import RoleSettings, chain_names
from nekro_core.llm.roles import ModelRole

CHAT_ROLES = (ModelRole.CHAT, ModelRole.QUICK, ModelRole.VISION)
"""The roles whose models answer chat requests."""
_MOST_CHAINS = 1000
"""Maximum number of chains that are kept in memory. Operators configure them, at most one for a
chat."""


def _same(model: ChatModel) -> ChatModel:
    return model


class ModelChains:
    """Implements `RoleModels`, without budgets.

    Args:
        settings: The settings of the roles. They can change; then `changed` must be called.
        models: Returns the model with a name: ``default``, ``embedded`` or the name of a group.
            Returns None if there is no such model, or if it does not answer chat requests.
        clock: A monotonic clock, in seconds.
        observed: Wraps each model, so that its requests are recorded.
    """

    def __init__(
        self,
        settings: RoleSettings,
        models: Callable[[str], ChatModel | None],
        *,
        clock: Callable[[], float] = time.monotonic,
        observed: Callable[[ChatModel], ChatModel] = _same,
    ) -> None:
        self.settings = settings
        self.staged: Callable[[ChatModel], ChatModel] = _same
        """Wraps a model for turns, so that requests of turns run the plugins' hooks."""
        self._models = models
        self._clock = clock
        self._observed = observed
        self._breakers: dict[str, CircuitBreaker] = {}
        self._chains: dict[tuple[tuple[str, ...], bool], ModelChain] = {}

    @property
    def breakers(self) -> Mapping[str, CircuitBreaker]:
        """The breakers of the models that chains have named, by name."""
        return self._breakers

    def model(self, role: ModelRole) -> ModelChain | None:
        """See `RoleModels.model`."""
        if role not in CHAT_ROLES:
            return None
        return self.chain(self.settings.of(role))

    def max_context(self, role: ModelRole) -> int | None:
        """See `RoleModels.max_context`."""
        chain = self.model(role)
        return chain.max_context if chain else None

    def price(self, role: ModelRole) -> Price | None:
        """See `RoleModels.price`."""
        chain = self.model(role)
        return chain.profile.price if chain else None

    def chain(self, names: Sequence[str], *, for_turns: bool = False) -> ModelChain | None:
        """Return the chain of these models; None if none of them exists.

        Args:
            names: The names in the order in which the models are asked. A name without a model is
                left out and logged.
            for_turns: Whether turns ask the chain, so that plugins' hooks must run.
        """
        key = tuple(names), for_turns
        if key not in self._chains:
            links = [*self._links(names, for_turns=for_turns)]
            if not links:
                return None
            if len(self._chains) >= _MOST_CHAINS:
                self._chains.clear()
            rule = PriceRule(
                max_price=self.settings.max_price, allow_dearer=self.settings.allow_dearer
            )
            self._chains[key] = ModelChain(links, rule, clock=self._clock)
        return self._chains[key]

    def of_turns(self, text: str = "") -> ModelChain | None:
        """Return the chain that turns ask: the chain of the names in ``text``, such as
        ``fast,strong``, or if ``text`` is empty, the chain of the role ``chat``. Returns None if
        there is no such model."""
        try:
            names = chain_names(text.lower()) or self.settings.of(ModelRole.CHAT)
        except ValueError:
            return None
        return self.chain(names, for_turns=True)

    def saving(self, share_left: float) -> ModelChain | None:
        """Return the chain of the ``saving`` models, if so little of a daily budget is left that
        turns must ask them; otherwise None. ``share_left`` is the share of the budget that is left,
        from 0 to 1."""
        names = self.settings.saving
        if not names or share_left >= self.settings.saving_below:
            return None
        return self.chain(names, for_turns=True)

    def changed(self, replaced: Sequence[str] = ()) -> None:
        """Build the chains anew when they are needed next.

        Args:
            replaced: The names of the models whose settings have changed. Their cool-downs end,
                because the change may have repaired them.
        """
        self._chains.clear()
        for name in replaced:
            self._breakers.pop(name, None)

    def _links(self, names: Sequence[str], *, for_turns: bool) -> Sequence[ChainLink]:
        links = []
        for name in names:
            model = self._models(name)
            if model is None:
                logger.error("there is no model {!r} for chats, so the chain goes on without", name)
                continue
            model = self._observed(model)
            breaker = self._breakers.setdefault(name, CircuitBreaker(self.settings, self._clock))
            links.append(ChainLink(name, self.staged(model) if for_turns else model, breaker))
        return links
