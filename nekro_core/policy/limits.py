"""Limits on what one turn, and one run of it, may use. All raise the same error.

A quota of 24 hours bounds a turn as a limit that counts what was used before it: see
`nekro_core.policy.quotas`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, assert_never

from nekro_core.llm.model import RequestUsage
from nekro_core.policy.settings import SendRateSettings, TurnSettings
from nekro_core.system.errors import NekroError

_RUNS = 4096
"""Runs whose messages are counted. Far fewer run at once, so no count begins anew during a run."""


class LimitExceeded(NekroError):
    """A turn reached a limit: ``kind`` names it, ``value`` is what was counted."""

    def __init__(self, kind: str, value: float, limit: float) -> None:
        super().__init__(f"{kind}: {value:g} of at most {limit:g}")
        self.kind = kind
        self.value = value
        self.limit = limit


class Limit(Protocol):
    """One limit. A turn checks it before each request, so it uses every reply that was paid for."""

    def check(self) -> None:
        """Raises `LimitExceeded` if the limit is reached."""

    def spend(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """Count a reply of the turn; ``cost`` is in the operator's currency."""

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """Count a request that a plugin made for the turn. It is no step of the turn."""


class Measure(Enum):
    """What a `UsageLimit` counts."""

    STEPS = "steps"
    """Model replies."""
    TURNS = "turns"
    """Turns of a day before this one. A turn that has begun is finished."""
    TOKENS = "tokens"
    """Prompt and completion tokens together."""
    MONEY = "money"
    """Costs in the operator's currency."""


@dataclass(slots=True)
class UsageLimit:
    """At most ``limit`` of one measure, of which so much was ``taken`` already. ``kind`` names the
    limit in its error; without it the measure does."""

    measure: Measure
    limit: float
    taken: float = 0
    kind: str = ""

    def check(self) -> None:
        """See `Limit.check`."""
        if self.taken >= self.limit:
            raise LimitExceeded(self.kind or self.measure.value, self.taken, self.limit)

    def spend(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """See `Limit.spend`."""
        if self.measure is Measure.STEPS:
            self.taken += 1
        self.spend_extra(usage, cost)

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """See `Limit.spend_extra`."""
        match self.measure:
            case Measure.TOKENS:
                self.taken += usage.tokens
            case Measure.MONEY:
                self.taken += cost
            case Measure.STEPS | Measure.TURNS:
                pass
            case _:
                assert_never(self.measure)


@dataclass(slots=True)
class TimeLimit:
    """Seconds since the turn began. `Turn.run` also cancels the turn at that moment."""

    limit: float
    clock: Callable[[], float]
    began: float

    def check(self) -> None:
        """See `Limit.check`."""
        passed = self.clock() - self.began
        if passed >= self.limit:
            raise LimitExceeded("seconds", passed, self.limit)

    def spend(self, _usage: RequestUsage, _cost: float = 0.0) -> None:
        """Do nothing: the clock counts the time."""

    def spend_extra(self, _usage: RequestUsage, _cost: float = 0.0) -> None:
        """Do nothing."""


class Limits:
    """Several limits as one."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = [*limits]

    def add(self, *limits: Limit) -> None:
        """Check and count these as well."""
        self._limits += limits

    def check(self) -> None:
        """Raises `LimitExceeded` for the first limit that is reached."""
        for limit in self._limits:
            limit.check()

    def spend(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """See `Limit.spend`."""
        for limit in self._limits:
            limit.spend(usage, cost)

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """See `Limit.spend_extra`."""
        for limit in self._limits:
            limit.spend_extra(usage, cost)

    def refusal(self) -> str:
        """The first limit that is reached, in words; empty if none is."""
        try:
            self.check()
        except LimitExceeded as error:
            return str(error)
        return ""


def turn_limits(settings: TurnSettings, clock: Callable[[], float]) -> tuple[Limit, ...]:
    """The limits of a turn that begins now. ``clock`` is monotonic."""
    return (
        UsageLimit(Measure.STEPS, settings.max_steps),
        UsageLimit(Measure.TOKENS, settings.max_tokens),
        TimeLimit(settings.max_seconds, clock, clock()),
    )


class RunSendLimit:
    """How many messages each run may send."""

    def __init__(self, settings: SendRateSettings) -> None:
        self._limit = settings.sends_per_run
        self._sent: OrderedDict[str, int] = OrderedDict()

    def take(self, run_id: str, messages: int) -> str:
        """Count so many more messages of a run, all of them or none.

        Returns why they may not be sent, as a sentence for the run, or an empty text. A send
        without a run is not counted.
        """
        if not run_id:
            return ""
        sent = self._sent.get(run_id, 0)
        if sent + messages > self._limit:
            return (
                f"this run has sent {sent} of {self._limit} messages and this would be {messages} "
                "more; nothing of it was sent. Say it in one message, or write a file and send that"
            )
        self._sent[run_id] = sent + messages
        self._sent.move_to_end(run_id)
        if len(self._sent) > _RUNS:
            self._sent.popitem(last=False)
        return ""
