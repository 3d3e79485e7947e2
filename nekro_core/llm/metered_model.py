"""Counts the requests to a model in a ledger, also those that break off or that their caller ends
early. A request of which no part of a reply arrived is counted only if it cost something."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Protocol

from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    ModelChoice,
    ModelProfile,
    NoModelAnswered,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.tokens import estimate_usage


class RequestLedger(Protocol):
    """Checks limits before a request, and stores the request after it."""

    def check(self) -> None:
        """Raise `QuotaExceeded` if no further request may be made."""

    def now(self) -> float:
        """Get the time in seconds since 1970."""

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
        """Count a request. Does not block.

        Args:
            usage: Its tokens.
            profile: The model that answered.
            started: The time from `now` at which the request began.
            role: The role for which the model was asked; empty if it has none.
            chat: The chat for which the request was made; empty if it names none.
            extra_cost: The cost of models that failed before the one that answered, or of all
                models if none answered. Then ``usage`` has no tokens.
        """


class ChoiceWatch:
    """Notes which model of a chain answers a request, and what the others cost."""

    def __init__(self) -> None:
        self.choice: ModelChoice | None = None

    def of(self, request: ChatRequest) -> ChatRequest:
        """Return a copy of the request. The copy tells this object which model is chosen."""
        earlier = request.failover.on_choice

        def chosen(choice: ModelChoice) -> None:
            self.choice = choice
            if earlier is not None:
                earlier(choice)

        return replace(request, failover=replace(request.failover, on_choice=chosen))

    def profile(self, otherwise: ModelProfile) -> ModelProfile:
        """Return the profile of the model that answers."""
        return self.choice.profile if self.choice else otherwise

    @property
    def cost_of_failures(self) -> float:
        """The cost of the models that failed before the one that answers."""
        return sum(each.cost for each in self.choice.passed) if self.choice else 0.0


class MeteredModel:
    """A `ChatModel` whose requests are counted in a ledger. The owner of the inner model closes
    it. ``role`` is the role for which the model is asked; empty if it has none."""

    def __init__(self, model: ChatModel, ledger: RequestLedger, *, role: str = "") -> None:
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
        failed_cost = 0.0
        try:
            async for delta in deltas:
                if isinstance(delta, TextDelta):
                    words.append(delta.text)
                elif isinstance(delta, RequestUsage):
                    usage = delta
                yield delta
        except NoModelAnswered as error:
            failed_cost = sum(each.cost for each in error.passed)
            raise
        finally:
            # If the caller stops early, the received part is counted.
            if usage is None and words:
                usage = estimate_usage(request, "".join(words))
            elif usage is None and failed_cost:
                usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
            if usage is not None:
                self._ledger.count(
                    usage,
                    watch.profile(self.profile),
                    started,
                    role=self._role,
                    chat=request.chat,
                    extra_cost=watch.cost_of_failures + failed_cost,
                )
