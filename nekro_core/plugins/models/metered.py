"""Counts plugins' requests to models, by turn, chat and person."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    ModelProfile,
    QuotaExceeded,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.role_budget import ChoiceWatch
from nekro_core.llm.tokens import estimate_usage
from nekro_core.plugins.authoring.binding import current_owner
from nekro_core.plugins.authoring.current import current_call
from nekro_core.store import ModelUse


class ModelUseWriter(Protocol):
    """Stores model uses (`nekro_core.store.Store.model_uses`)."""

    def add(self, use: ModelUse) -> object:
        """Queue a use, to be written later. Does not block."""


class UsageLedger:
    """Checks limits before a request, and counts the request after it. ``wall`` returns seconds
    since 1970."""

    def __init__(self, book: ModelUseWriter, wall: Callable[[], float]) -> None:
        self._book = book
        self._wall = wall

    def check(self) -> None:
        """Raise `QuotaExceeded` if the turn of the current call may make no further request."""
        call = current_call()
        if call is not None and call.meter is not None and (why := call.meter.refusal()):
            raise QuotaExceeded(f"this turn may make no further request to a model: {why}")

    def count(
        self,
        usage: RequestUsage,
        profile: ModelProfile,
        started: float,
        *,
        role: str = "",
        extra_cost: float = 0.0,
    ) -> None:
        """Count a request. ``started`` is the result of `now` when the request began.
        ``extra_cost`` is the cost of the models that failed before another model answered."""
        call, owner = current_call(), current_owner()
        cost = profile.price.of(usage) + extra_cost
        if call is not None and call.meter is not None:
            call.meter.spend_extra(usage, cost)
        self._book.add(
            ModelUse(
                plugin=(call.owner if call else "") or (owner.item if owner else ""),
                model=profile.name,
                cost=cost,
                price_source=profile.price.source,
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                completion_tokens=usage.completion_tokens,
                estimated=usage.estimated,
                chat_key=call.chat_key if call else "",
                user_id=call.from_user_id if call else "",
                run_id=call.run_id if call else "",
                started=started,
                seconds=self._wall() - started,
                role=role,
            )
        )

    def now(self) -> float:
        """Get the time in seconds since 1970."""
        return self._wall()


class MeteredModel:
    """A `ChatModel` whose requests are counted in a ledger. `aclose` does not close the inner
    model. ``role`` is the role for which the model is asked; empty if there is none."""

    def __init__(self, model: ChatModel, ledger: UsageLedger, *, role: str = "") -> None:
        self._model = model
        self._ledger = ledger
        self._role = role

    @property
    def profile(self) -> ModelProfile:
        """The profile of the inner model."""
        return self._model.profile

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel.prepare`."""
        await self._model.prepare(likely)

    async def aclose(self) -> None:
        """Do nothing: the owner of the inner model closes it."""

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """See `ChatModel.stream`. Also raises `QuotaExceeded` if a limit is reached."""
        self._ledger.check()
        watch = ChoiceWatch()
        async with (
            self._model.stream(watch.of(request)) as deltas,
            aclosing(self._counted(request, deltas, watch)) as counted,
        ):
            yield counted

    async def _counted(
        self, request: ChatRequest, deltas: AsyncIterator[Delta], watch: ChoiceWatch
    ) -> AsyncGenerator[Delta, None]:
        started, words, usage = self._ledger.now(), list[str](), None
        try:
            async for delta in deltas:
                if isinstance(delta, TextDelta):
                    words.append(delta.text)
                elif isinstance(delta, RequestUsage):
                    usage = delta
                yield delta
        finally:
            # If the caller stops early, the received part is counted.
            if usage is None and words:
                usage = estimate_usage(request, "".join(words))
            if usage is not None:
                self._ledger.count(
                    usage,
                    watch.profile(self.profile),
                    started,
                    role=self._role,
                    extra_cost=watch.cost_of_failures,
                )
