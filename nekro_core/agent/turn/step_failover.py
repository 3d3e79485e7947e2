"""Gives a chain of models the options for one step's request, and notes which model answers."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from nekro_core.agent.shown.watch import StepWatch
from nekro_core.llm.metered_model import ChoiceWatch
from nekro_core.llm.model import (
    ChatRequest,
    FailoverOptions,
    ModelChoice,
    ModelProfile,
    RequestUsage,
)


class StepFailover:
    """The choice of a model for one step.

    Args:
        watch: Notes the choice for the trace.
        rewrite: Writes the step's prompt for a model with another profile.
    """

    def __init__(
        self, watch: StepWatch, rewrite: Callable[[ModelProfile], Awaitable[ChatRequest]]
    ) -> None:
        self._watch = watch
        self._rewrite = rewrite
        self._choice = ChoiceWatch()

    def of(self, request: ChatRequest, *, may_be_empty: bool) -> ChatRequest:
        """Return the request with the options for a chain of models. ``may_be_empty`` says whether
        an empty reply is acceptable, because people have got an answer."""
        written_for = request.failover.written_for
        options = FailoverOptions(
            written_for=written_for,
            rewrite=self._rewrite,
            on_choice=self._chosen,
            may_be_empty=may_be_empty,
        )
        return self._choice.of(replace(request, failover=options))

    def _chosen(self, choice: ModelChoice) -> None:
        self._watch.chosen(choice.name, choice.passed)

    def profile(self, otherwise: ModelProfile) -> ModelProfile:
        """Return the profile of the model that answers."""
        return self._choice.profile(otherwise)

    def usage(self, usage: RequestUsage) -> RequestUsage:
        """Return the sum of this usage of the reply and the usage of the models that failed
        before."""
        for each in self._choice.choice.passed if self._choice.choice else ():
            if each.usage is not None:
                usage = replace(
                    usage,
                    prompt_tokens=usage.prompt_tokens + each.usage.prompt_tokens,
                    completion_tokens=usage.completion_tokens + each.usage.completion_tokens,
                    cached_tokens=usage.cached_tokens + each.usage.cached_tokens,
                    estimated=usage.estimated or each.usage.estimated,
                )
        return usage

    def money(self, profile: ModelProfile, usage: RequestUsage) -> float:
        """Return the cost of the reply and of the models that failed before. ``usage`` is the usage
        of the reply alone."""
        return profile.price.of(usage) + self._choice.cost_of_failures
