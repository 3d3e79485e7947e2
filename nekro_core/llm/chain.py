"""Asks the models of a chain one after another until one answers.

If a model fails before the first word or call of its reply, the next model is asked. After the
first word or call, the chain does not change the model: a reply that breaks off raises the same
error as without a chain.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

import anyio
from loguru import logger

from nekro_core.llm.breaker import CircuitBreaker, Passage
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    FunctionCall,
    KeyRejected,
    ModelChoice,
    ModelError,
    ModelNotReady,
    ModelProfile,
    ModelRefused,
    ModelUnreachable,
    NoModelAnswered,
    PassedModel,
    PassReason,
    PriceSource,
    QuotaExceeded,
    ReplyBroken,
    ReplyFinished,
    RequestRejected,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.price_rule import PriceRule
from nekro_core.system.errors import NekroError

_CLOSE_S = 2.0
"""Maximum time in seconds for closing a request whose reply nobody reads any more."""
_LOOK_UP_S = 1.0
"""Maximum time in seconds for looking up the models' prices before the first request. The prices
are in a list on this machine; reading it takes 0.2 s."""
_LASTING = frozenset({PassReason.KEY, PassReason.QUOTA})
"""Reasons for a cool-down that do not pass within a few seconds."""
_REASONS: tuple[tuple[type[ModelError], PassReason], ...] = (
    (KeyRejected, PassReason.KEY),
    (QuotaExceeded, PassReason.QUOTA),
    (ModelNotReady, PassReason.NOT_READY),
    (ModelUnreachable, PassReason.UNREACHABLE),
    (ModelRefused, PassReason.REFUSED),
    (RequestRejected, PassReason.REJECTED),
    (ReplyBroken, PassReason.BROKEN),
)


def reason_of(error: ModelError) -> PassReason:
    """Return the reason that stands for an error of a model."""
    return next((word for kind, word in _REASONS if isinstance(error, kind)), PassReason.REJECTED)


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A model of a chain: the name of its model group (the settings of one model), the model, and
    its breaker, which keeps it from being asked for a while after it failed. All chains with this
    model share the breaker."""

    name: str
    model: ChatModel
    breaker: CircuitBreaker


class _Passed(NekroError):
    """A model failed before its first word."""

    def __init__(self, passed: PassedModel, error: ModelError | None) -> None:
        super().__init__(passed.detail)
        self.passed = passed
        self.error = error


class ModelChain:
    """A `ChatModel` that asks several models.

    All models except the last are asked without retries, so that the next model is asked at once. A
    chain of one model raises the model's own error, a longer chain raises `NoModelAnswered`. The
    owner of the models closes them, not the chain.

    Args:
        links: The models in the order in which they are asked. At least one.
        rule: What a model may cost; None if a later model may not cost more than the first.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        links: Sequence[ChainLink],
        rule: PriceRule | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not links:
            raise ValueError("a chain without models: name at least one")
        self.links = tuple(links)
        self._rule = rule or PriceRule()
        self._clock = clock
        self._prices_known = len(self.links) == 1

    @property
    def profile(self) -> ModelProfile:
        """Return the profile of the model that would be asked first now."""
        if len(self.links) == 1:
            return self.links[0].model.profile
        first = next((each for each in self.links if self._may_ask(each)), self.links[0])
        return first.model.profile

    @property
    def max_context(self) -> int:
        """Return the largest number of tokens of prompt and reply that every model of the chain
        accepts."""
        return min(each.model.profile.context_tokens for each in self.links)

    def objection(self, link: ChainLink) -> str:
        """Return why a model must not be asked because of its price; empty if it may be asked."""
        first = self.links[0].model.profile.price
        return self._rule.objection(link.model.profile.price, first)

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """Prepare all models. ``likely`` is passed to the first model. Raises the error of the
        first model; errors of the other models are logged."""
        self._prices_known = True
        async with anyio.create_task_group() as tasks:
            for link in self.links[1:]:
                tasks.start_soon(_prepare, link)
            error: ModelError | None = None
            try:
                await self.links[0].model.prepare(likely)
            except ModelError as failed:
                error = failed
        if error is not None:
            raise error

    async def aclose(self) -> None:
        """Do nothing: the owner of the models closes them."""

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """See `ChatModel.stream`."""
        deltas = self._deltas(request)
        try:
            yield deltas
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await deltas.aclose()

    async def _deltas(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        await self._look_up_prices()
        passed = self._passed_over(request)
        order = self._order(passed)
        error: ModelError | None = None
        for position, (link, forced) in enumerate(order):
            passage = link.breaker.enter(forced=forced)
            if passage is None:  # Another request has begun to try this model meanwhile.
                passed[link.name] = _cooling(link)
                continue
            passed.pop(link.name, None)
            last = position == len(order) - 1
            try:
                attempt = self._ask(link, passage, request, self._sorted(passed), last=last)
                async with aclosing(attempt) as deltas:
                    async for delta in deltas:
                        yield delta
            except _Passed as failed:
                passed[link.name], error = failed.passed, failed.error
                logger.warning("the model {} did not answer: {}", link.name, failed.passed.detail)
            else:
                return
        if len(passed) == 1 and error is not None:
            raise error
        raise NoModelAnswered(self._sorted(passed))

    async def _look_up_prices(self) -> None:
        """Let the models look up their published prices, once. The prices decide which models may
        be asked. A free model is left out: it has no published price, and preparing it may start a
        download."""
        if self._prices_known:
            return
        self._prices_known = True
        with anyio.move_on_after(_LOOK_UP_S):
            async with anyio.create_task_group() as tasks:
                for link in self.links:
                    if link.model.profile.price.source is PriceSource.UNKNOWN:
                        tasks.start_soon(_prepare, link)

    def _passed_over(self, request: ChatRequest) -> dict[str, PassedModel]:
        """Return the models that must not be asked now, with the reasons."""
        some_call = any(each.model.profile.functions for each in self.links)
        passed: dict[str, PassedModel] = {}
        for link in self.links:
            if request.functions and some_call and not link.model.profile.functions:
                passed[link.name] = PassedModel(
                    name=link.name, reason=PassReason.UNFIT, detail="it calls no functions"
                )
            elif why := self.objection(link):
                passed[link.name] = PassedModel(
                    name=link.name, reason=PassReason.DEARER, detail=why
                )
            elif not link.breaker.admits:
                passed[link.name] = _cooling(link)
        return passed

    def _order(self, passed: Mapping[str, PassedModel]) -> list[tuple[ChainLink, bool]]:
        """Return the models to ask in order, and whether each is asked although it cools down.

        First come the models that may be asked. Then come models that cool down for a reason that
        may have passed. A model that cools down because of its key or quota is asked only if no
        other model can be asked.
        """
        order = [(each, False) for each in self.links if each.name not in passed]
        cooling = [
            each
            for each in self.links
            if each.name in passed and passed[each.name].reason is PassReason.COOLING
        ]
        may_work = [each for each in cooling if each.breaker.reason not in _LASTING]
        if not order and not may_work:
            may_work = sorted(cooling, key=lambda each: each.breaker.remaining_s)[:1]
        return [*order, *((each, True) for each in may_work)]

    def _sorted(self, passed: Mapping[str, PassedModel]) -> tuple[PassedModel, ...]:
        return tuple(passed[each.name] for each in self.links if each.name in passed)

    async def _ask(
        self,
        link: ChainLink,
        passage: Passage,
        request: ChatRequest,
        passed: tuple[PassedModel, ...],
        *,
        last: bool,
    ) -> AsyncGenerator[Delta, None]:
        """Ask one model. Raises `_Passed` if the model fails before its first word. An error after
        the first word is raised unchanged."""
        began, held, begun = self._clock(), list[Delta](), False
        try:
            fitting = await self._fitting(link, request)
            async with link.model.stream(
                fitting if last else replace(fitting, retries=0)
            ) as deltas:
                async for delta in deltas:
                    if begun:
                        yield delta
                        continue
                    held.append(delta)
                    if begun := _is_beginning(delta, request):
                        self._choose(link, passage, request, passed)
                        for each in held:
                            yield each
            if not begun:
                if not (last and not passed and _has_ended(held)):
                    raise ReplyBroken("the stream ended without a reply")
                # The chain's only model has ended its reply without a word. Pass this empty reply
                # on: the agent asks the model again.
                self._choose(link, passage, request, passed)
                for each in held:
                    yield each
            link.breaker.finished()
        except ModelError as error:
            reason, detail = reason_of(error), str(error)
            if not begun and _has_ended(held):
                reason, detail = PassReason.EMPTY, "the reply had no word"
            asked = getattr(error, "retry_after_s", None)
            link.breaker.fails(passage, reason, detail, asked)
            if begun:
                raise
            usage = next((each for each in held if isinstance(each, RequestUsage)), None)
            raise _Passed(
                PassedModel(
                    name=link.name,
                    reason=reason,
                    detail=detail,
                    seconds=self._clock() - began,
                    usage=usage,
                    price=link.model.profile.price,
                ),
                error,
            ) from error
        finally:
            link.breaker.leave(passage)

    def _choose(
        self,
        link: ChainLink,
        passage: Passage,
        request: ChatRequest,
        passed: tuple[PassedModel, ...],
    ) -> None:
        link.breaker.works(passage)
        if request.failover.on_choice is not None:
            choice = ModelChoice(name=link.name, profile=link.model.profile, passed=passed)
            request.failover.on_choice(choice)

    async def _fitting(self, link: ChainLink, request: ChatRequest) -> ChatRequest:
        """Return the request, with a prompt that is written for the model."""
        options, profile = request.failover, link.model.profile
        if options.written_for is None or options.rewrite is None:
            return request
        if not _needs_another_prompt(options.written_for, profile):
            return request
        rewritten = await options.rewrite(profile)
        return replace(rewritten, failover=options, on_sent=request.on_sent)

    def _may_ask(self, link: ChainLink) -> bool:
        return link.breaker.admits and not self.objection(link)


def _cooling(link: ChainLink) -> PassedModel:
    breaker = link.breaker
    why = f"{breaker.reason}: {breaker.detail}" if breaker.reason else "another request tries it"
    return PassedModel(name=link.name, reason=PassReason.COOLING, detail=why)


def _has_ended(deltas: Sequence[Delta]) -> bool:
    """Return True if a reply has its proper end."""
    return any(isinstance(each, ReplyFinished) for each in deltas)


def _is_beginning(delta: Delta, request: ChatRequest) -> bool:
    """Return True if a delta begins the reply: a word, a call, or the end of a reply that may have
    no words. The end of a reply that reached its limit of tokens before its first word counts too:
    the provider did not fail, and the turn handles such a reply."""
    match delta:
        case TextDelta(text):
            return bool(text.strip())
        case FunctionCall():
            return True
        case ReplyFinished(reason):
            return reason == "length" or request.failover.may_be_empty
    return False


def _needs_another_prompt(written: ModelProfile, other: ModelProfile) -> bool:
    """Return True if a prompt that was written for one model does not suit the other model."""
    return (
        written.prefers_examples != other.prefers_examples
        or written.grammar != other.grammar
        or (written.vision and not other.vision)
        or other.context_tokens < written.context_tokens
    )


async def _prepare(link: ChainLink) -> None:
    try:
        await link.model.prepare()
    except ModelError as error:
        logger.warning("the model {} cannot be prepared: {}", link.name, error)
