"""Limits how much one turn, and each of its runs, may use. All limits of a turn raise
`LimitExceeded`.

A quota of 24 hours also becomes a limit of the turn. The count of this limit begins with the amount
that was used before the turn: see `nekro_core.policy.quotas`.
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
"""Maximum number of runs whose messages are counted at the same time. If there are more, the oldest
count is dropped. Far fewer runs are active at the same time, so the count of an active run is never
dropped."""

DAY = "_day"
"""If a quota of 24 hours sets a limit, the ``kind`` of the limit ends with this text."""


class LimitExceeded(NekroError):
    """A turn reached a limit. ``kind`` names the limit, and ``value`` is the counted amount."""

    def __init__(self, kind: str, value: float, limit: float) -> None:
        super().__init__(f"{kind}: {value:g} of at most {limit:g}")
        self.kind = kind
        self.value = value
        self.limit = limit


class Limit(Protocol):
    """One limit of a turn. It is checked only before each request to the model, so a reply that was
    paid for is always used."""

    def check(self) -> None:
        """Raise `LimitExceeded` if the limit is reached."""

    def spend(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """Count a reply within the turn. ``cost`` is in the operator's currency."""

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """Count a request that a plugin made for the turn. It does not count as a step."""


class Measure(Enum):
    """What a `UsageLimit` counts."""

    STEPS = "steps"
    """Model replies."""
    TURNS = "turns"
    """Turns that began in the 24 hours before this turn. This limit never ends a running turn."""
    TOKENS = "tokens"
    """Prompt and completion tokens together."""
    MONEY = "money"
    """Costs in the operator's currency."""


@dataclass(slots=True)
class UsageLimit:
    """Allows at most ``limit`` of one measure. ``taken`` is the amount used so far. ``kind`` names
    the limit in its error; if it is empty, the measure's name is used."""

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
    """Limits the duration of a turn, in seconds. `Turn.run` also cancels the turn when this time is
    over."""

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
    """Combines several limits into one."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = [*limits]

    def add(self, *limits: Limit) -> None:
        """Add limits to the combination."""
        self._limits += limits

    def check(self) -> None:
        """Raise `LimitExceeded` for the first limit that was reached."""
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

    @property
    def day_share_left(self) -> float:
        """The share of a daily quota that is left, from 0 to 1. Of several quotas of tokens or
        money, it is the smallest share. It is 1 if there is no such quota."""
        shares = [
            1 - each.taken / each.limit
            for each in self._limits
            if isinstance(each, UsageLimit)
            and each.kind.endswith(DAY)
            and each.measure in (Measure.TOKENS, Measure.MONEY)
        ]
        return max(0.0, min(shares, default=1.0))

    def refusal(self) -> str:
        """Return the error text of the first limit that was reached; empty if there is none."""
        try:
            self.check()
        except LimitExceeded as error:
            return str(error)
        return ""


def turn_limits(settings: TurnSettings, clock: Callable[[], float]) -> tuple[Limit, ...]:
    """Return the limits of a turn that begins now. ``clock`` is monotonic."""
    return (
        UsageLimit(Measure.STEPS, settings.max_steps),
        UsageLimit(Measure.TOKENS, settings.max_tokens),
        TimeLimit(settings.max_seconds, clock, clock()),
    )


class RunSendLimit:
    """Limits the number of messages that each run may send."""

    def __init__(self, settings: SendRateSettings) -> None:
        self._settings = settings
        self._sent: OrderedDict[str, int] = OrderedDict()

    def take(self, run_id: str, messages: int) -> str:
        """Count ``messages`` more messages of a run. If they would exceed the limit, none is
        counted.

        Returns an empty text, or why the messages may not be sent, as a sentence for the run's
        code. Messages that no run sends are not counted.
        """
        if not run_id:
            return ""
        sent, limit = self._sent.get(run_id, 0), self._settings.sends_per_run
        if sent + messages > limit:
            return (
                f"this run has sent {sent} of {limit} messages and this would be {messages} "
                "more; nothing of it was sent. Say it in one message, or write a file and send that"
            )
        self._sent[run_id] = sent + messages
        self._sent.move_to_end(run_id)
        if len(self._sent) > _RUNS:
            self._sent.popitem(last=False)
        return ""

    def give_back(self, run_id: str, messages: int) -> None:
        """Take ``messages`` that `take` has counted off the count of a run. Called if nothing of
        them was stored or sent."""
        if run_id in self._sent:
            self._sent[run_id] = max(self._sent[run_id] - messages, 0)
