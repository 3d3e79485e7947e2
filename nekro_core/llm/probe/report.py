"""Defines what a probe of an endpoint returns."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from nekro_core.llm.probe.texts import ADVICE, TEXTS, Values


class ProbeStep(StrEnum):
    """The steps of a probe, in their order."""

    NAME = "name"
    CONNECTION = "connection"
    TLS = "tls"
    HTTP = "http"
    KEY = "key"
    MODEL = "model"
    SPEED = "speed"
    PICTURES = "pictures"
    FUNCTIONS = "functions"
    CONTEXT = "context"


class ProbeVerdict(StrEnum):
    """The outcome of a step. ``ok``: the tested thing works. ``failed``: with these settings, the
    endpoint cannot be used. ``absent``: the endpoint works, but does not have this ability.
    ``differs``: the ability works, but a setting says something else. ``unknown``: the step gave no
    clear result, or was not tried because an earlier step failed."""

    OK = "ok"
    FAILED = "failed"
    ABSENT = "absent"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The result of one step.

    Attributes:
        step: The step.
        verdict: The outcome of the step.
        reason: A stable word for a program, such as ``refused`` or ``certificate_expired``.
        text: What was found, as a sentence for people. It contains no secret.
        advice: What to do; empty if nothing is to be done.
        seconds: How long the step took.
        code: The key of the text in `TEXTS`; empty for a server's own words.
        advice_code: The key of the advice in `ADVICE`; empty if there is none.
        values: The values that are filled into the text and the advice.
    """

    step: ProbeStep
    verdict: ProbeVerdict
    reason: str
    text: str
    advice: str = ""
    seconds: float = 0.0
    code: str = ""
    advice_code: str = ""
    values: Values = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        step: ProbeStep,
        verdict: ProbeVerdict,
        reason: str,
        code: str = "",
        advice: str = "",
        *,
        seconds: float = 0.0,
        text: str = "",
        **values: str | float,
    ) -> Self:
        """Make a result from the codes of its texts.

        Args:
            step: The step.
            verdict: The outcome of the step.
            reason: A stable word for a program.
            code: The key of the text in `TEXTS`; empty if ``text`` is a server's own words.
            advice: The key of the advice in `ADVICE`; empty if there is none.
            seconds: How long the step took.
            text: A server's own words.
            **values: The values that are filled into the text and the advice.

        Returns:
            The result.
        """
        return cls(
            step=step,
            verdict=verdict,
            reason=reason,
            text=TEXTS[code].format(**values) if code else text,
            advice=ADVICE[advice].format(**values) if advice else "",
            seconds=seconds,
            code=code,
            advice_code=advice,
            values=values,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport:
    """The result of a probe. A value that was not found out is None.

    Attributes:
        steps: One result for each step, in their order.
        models: The names of the models that the endpoint offers, at most 2000; empty if it has no
            such list.
        first_token_s: Seconds from the request to the first token.
        tokens_per_s: Tokens per second, after the first token.
        vision: Whether the model read a number in a picture.
        functions: Whether the model called a function.
        context_tokens: The largest number of tokens of prompt and reply together.
        spent_tokens: The tokens of all requests of this probe.
    """

    steps: tuple[ProbeResult, ...]
    models: tuple[str, ...] = ()
    first_token_s: float | None = None
    tokens_per_s: float | None = None
    vision: bool | None = None
    functions: bool | None = None
    context_tokens: int | None = None
    spent_tokens: int = 0

    @property
    def usable(self) -> bool:
        """True if the model answered."""
        return self.result(ProbeStep.SPEED).verdict is ProbeVerdict.OK

    def result(self, step: ProbeStep) -> ProbeResult:
        """Return the result of a step."""
        return next(each for each in self.steps if each.step is step)
