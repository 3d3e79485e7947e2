"""Counts what the roles of models use, and limits what background work may use in 24 hours."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Protocol

from nekro_core.llm.chains import ModelChains
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    ModelChoice,
    ModelProfile,
    NoModelAnswered,
    Price,
    QuotaExceeded,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.roles import ModelRole
from nekro_core.llm.tokens import estimate_usage
from nekro_core.store import ModelUse, Usage

_DAY_S = 86_400.0
CALLER = "nekro-core"
"""The name under which the bot's own requests are counted. It is stored where other rows have a
plugin's key."""


class UsesOfRoles(Protocol):
    """Stores and sums up requests (`nekro_core.store.Store.model_uses`)."""

    def add(self, use: ModelUse) -> Awaitable[object]:
        """Queue a use. The result need not be awaited."""

    async def usage_of_role(self, *, since: float, role: str) -> Usage:
        """Return the usage of a role since a time."""


class RoleBudget:
    """The daily budget of the role ``quick``.

    Args:
        settings: The settings of the roles.
        uses: The requests of the last day.
        wall: Returns seconds since 1970.
    """

    def __init__(
        self, settings: RoleSettings, uses: UsesOfRoles, wall: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.uses = uses
        self.wall = wall

    async def share_left(self, role: ModelRole) -> float:
        """Return the share of the budget that is left, from 0 to 1; 1 if the role has no budget.
        Raises `QuotaExceeded` if nothing is left, and `StoreError`."""
        settings = self.settings
        tokens, money = settings.quick_tokens_a_day, settings.quick_money_a_day
        if role is not ModelRole.QUICK or not (tokens or money):
            return 1.0
        used = await self.uses.usage_of_role(since=self.wall() - _DAY_S, role=role.value)
        if tokens and used.tokens >= tokens:
            raise QuotaExceeded(
                f"background work has used {used.tokens} of {tokens} tokens a day "
                "(NEKRO_ROLES__QUICK_TOKENS_A_DAY)"
            )
        if money and used.cost >= money:
            raise QuotaExceeded(
                f"background work has cost {used.cost:g} of {money:g} a day "
                "(NEKRO_ROLES__QUICK_MONEY_A_DAY)"
            )
        shares = [1 - used.tokens / tokens] if tokens else []
        return min([*shares, 1 - used.cost / money] if money else shares)


class BudgetedModel:
    """A `ChatModel` of a role that keeps to its budget. When little of the budget is left, the
    ``saving`` models answer. This class does not count the requests; `CountedModel` does."""

    def __init__(self, role: ModelRole, chains: ModelChains, budget: RoleBudget) -> None:
        self._role = role
        self._chains = chains
        self._budget = budget

    @property
    def profile(self) -> ModelProfile:
        """See `ChatModel.profile`."""
        return self._usual().profile

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel.prepare`."""
        await self._usual().prepare(likely)

    async def aclose(self) -> None:
        """Do nothing: the owner of the models closes them."""

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """See `ChatModel.stream`. Also raises `QuotaExceeded` if the budget is used up."""
        share = await self._budget.share_left(self._role)
        settings, model = self._chains.settings, self._usual()
        if share < settings.saving_below and settings.saving:
            model = self._chains.chain(settings.saving) or model
        async with model.stream(request) as deltas:
            yield deltas

    def _usual(self) -> ChatModel:
        model = self._chains.model(self._role)
        if model is None:
            raise NoModelAnswered(())  # the role was removed while its model was in use
        return model


class ChoiceWatch:
    """Stores which model of a chain answers a request, and what the models cost that failed before
    it."""

    def __init__(self) -> None:
        self.choice: ModelChoice | None = None

    def of(self, request: ChatRequest) -> ChatRequest:
        """Return a copy of the request that reports the choice of the chain to this object."""
        earlier = request.failover.on_choice

        def chosen(choice: ModelChoice) -> None:
            self.choice = choice
            if earlier is not None:
                earlier(choice)

        return replace(request, failover=replace(request.failover, on_choice=chosen))

    def profile(self, otherwise: ModelProfile) -> ModelProfile:
        """Return the profile of the model that answers; ``otherwise`` if no chain has reported
        one."""
        return self.choice.profile if self.choice else otherwise

    @property
    def cost_of_failures(self) -> float:
        """The cost of the models that failed before another model answered."""
        return sum(each.cost for each in self.choice.passed) if self.choice else 0.0


class CountedModel:
    """A `ChatModel` whose requests are stored as uses of a role by the bot itself."""

    def __init__(self, model: ChatModel, role: ModelRole, budget: RoleBudget) -> None:
        self._model = model
        self._role = role
        self._budget = budget

    @property
    def profile(self) -> ModelProfile:
        """See `ChatModel.profile`."""
        return self._model.profile

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel.prepare`."""
        await self._model.prepare(likely)

    async def aclose(self) -> None:
        """Do nothing: the owner of the model closes it."""

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """See `ChatModel.stream`. ``request.chat`` is the chat for which the request is counted."""
        watch = ChoiceWatch()
        async with (
            self._model.stream(watch.of(request)) as deltas,
            aclosing(self._counted(request, deltas, watch)) as counted,
        ):
            yield counted

    async def _counted(
        self, request: ChatRequest, deltas: AsyncIterator[Delta], watch: ChoiceWatch
    ) -> AsyncGenerator[Delta, None]:
        started, words, usage = self._budget.wall(), list[str](), None
        try:
            async for delta in deltas:
                if isinstance(delta, TextDelta):
                    words.append(delta.text)
                elif isinstance(delta, RequestUsage):
                    usage = delta
                yield delta
        finally:
            # If the caller stops before the end, count the part of the reply that has arrived.
            if usage is None and words:
                usage = estimate_usage(request, "".join(words))
            if usage is not None:
                self._add(request, usage, watch, started)

    def _add(
        self, request: ChatRequest, usage: RequestUsage, watch: ChoiceWatch, started: float
    ) -> None:
        profile = watch.profile(self._model.profile)
        self._budget.uses.add(
            ModelUse(
                plugin=CALLER,
                model=profile.name,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                estimated=usage.estimated,
                cost=profile.price.of(usage) + watch.cost_of_failures,
                price_source=profile.price.source,
                chat_key=request.chat,
                started=started,
                seconds=self._budget.wall() - started,
                role=self._role.value,
            )
        )


class BudgetedRoles:
    """Implements `RoleModels` for the bot's own work: each request is counted, and background work
    keeps to its budget."""

    def __init__(self, chains: ModelChains, budget: RoleBudget) -> None:
        self._chains = chains
        self._budget = budget

    def model(self, role: ModelRole) -> ChatModel | None:
        """See `RoleModels.model`."""
        model = self.uncounted(role)
        return None if model is None else CountedModel(model, role, self._budget)

    def names(self, role: ModelRole) -> tuple[str, ...]:
        """Return the names of the models of a role that are in the settings."""
        return self._chains.settings.of(role)

    def uncounted(self, role: ModelRole) -> ChatModel | None:
        """Return the model of a role for a caller that stores the use of the role itself."""
        if self._chains.model(role) is None:
            return None
        return BudgetedModel(role, self._chains, self._budget)

    def max_context(self, role: ModelRole) -> int | None:
        """See `RoleModels.max_context`."""
        return self._chains.max_context(role)

    def price(self, role: ModelRole) -> Price | None:
        """See `RoleModels.price`."""
        return self._chains.price(role)
