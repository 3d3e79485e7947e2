"""Counts what the roles of models use, and bounds what background work may use in 24 hours. A role
is a kind of work for models: ``chat`` answers people, ``quick`` is background work."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from nekro_core.llm.chains import ModelChains
from nekro_core.llm.metered_model import MeteredModel
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    ModelProfile,
    NoModelAnswered,
    Price,
    QuotaExceeded,
    RequestUsage,
)
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.roles import ModelRole
from nekro_core.store import ModelUse, Usage

_DAY_S = 86_400.0
CALLER = "nekro-core"
"""The name under which the bot's own requests are counted, in the place of a plugin's key."""


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
    """A `ChatModel` of a role that keeps to the budget of this role. When little of the budget is
    left, the ``saving`` models answer. This class does not count the requests; `MeteredModel`
    does."""

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


class OwnRequests:
    """The ledger of the bot's own requests. They are stored as uses by `CALLER`, and their budget
    is checked by `BudgetedModel`."""

    def __init__(self, uses: UsesOfRoles, wall: Callable[[], float]) -> None:
        self._uses = uses
        self._wall = wall

    def check(self) -> None:
        """Do nothing: `BudgetedModel` checks the budget."""

    def now(self) -> float:
        """See `RequestLedger.now`."""
        return self._wall()

    def count(
        self,
        usage: RequestUsage,
        profile: ModelProfile,
        started: float,
        *,
        role: str = "",
        chat: str = "",
        extra_cost: float = 0.0,
    ) -> None:
        """See `RequestLedger.count`."""
        self._uses.add(
            ModelUse(
                plugin=CALLER,
                model=profile.name,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                estimated=usage.estimated,
                cost=profile.price.of(usage) + extra_cost,
                price_source=profile.price.source,
                chat_key=chat,
                started=started,
                seconds=self._wall() - started,
                role=role,
            )
        )


class BudgetedRoles:
    """Implements `RoleModels` for the bot's own work: each request is counted, and background work
    keeps to its budget. ``chains`` has the models of the roles."""

    def __init__(self, chains: ModelChains, budget: RoleBudget) -> None:
        self._chains = chains
        self.budget = budget
        """The budget of background work."""

    def model(self, role: ModelRole) -> ChatModel | None:
        """See `RoleModels.model`."""
        model = self.uncounted(role)
        if model is None:
            return None
        ledger = OwnRequests(self.budget.uses, self.budget.wall)
        return MeteredModel(model, ledger, role=role.value)

    def names(self, role: ModelRole) -> tuple[str, ...]:
        """Return the names of the models of a role, as the settings have them."""
        return self._chains.settings.of(role)

    def uncounted(self, role: ModelRole) -> ChatModel | None:
        """Return the model of a role without a count of its requests, for a caller that counts them
        itself under the name of the role."""
        if self._chains.model(role) is None:
            return None
        return BudgetedModel(role, self._chains, self.budget)

    def max_context(self, role: ModelRole) -> int | None:
        """See `RoleModels.max_context`."""
        return self._chains.max_context(role)

    def price(self, role: ModelRole) -> Price | None:
        """See `RoleModels.price`."""
        return self._chains.price(role)
