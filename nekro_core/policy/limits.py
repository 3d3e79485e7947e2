"""What bounds a turn. Each limit counts one thing; all raise the same error."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from nekro_core.llm.model import RequestUsage
from nekro_core.policy.settings import TurnSettings
from nekro_core.store import Usage as StoredUsage
from nekro_core.system.errors import NekroError

DAY_S = 86_400.0
"""What a limit of a day looks back on, in seconds."""


class LimitExceeded(NekroError):
    """A turn reached a bound: ``kind`` names it, ``value`` is what was counted."""

    def __init__(self, kind: str, value: float, limit: float) -> None:
        super().__init__(f"{kind}: {value:g} of at most {limit:g}")
        self.kind = kind
        self.value = value
        self.limit = limit


class Limit(Protocol):
    """One bound. It is looked at before each reply is asked for, so what was paid for is used."""

    def check(self) -> None:
        """Raises `LimitExceeded` where another step would pass the bound."""

    def spend(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """A reply was paid for; ``cost`` is in the operator's currency."""


@dataclass(slots=True)
class StepLimit:
    """Model replies."""

    limit: int
    taken: int = 0

    def check(self) -> None:
        """See `Limit.check`."""
        if self.taken >= self.limit:
            raise LimitExceeded("steps", self.taken, self.limit)

    def spend(self, _usage: RequestUsage, _cost: float = 0.0) -> None:
        """See `Limit.spend`."""
        self.taken += 1


@dataclass(slots=True)
class TurnsLimit:
    """Turns of a day, those before this one: the turn that is under way is brought to its end."""

    limit: int
    taken: int
    kind: str

    def check(self) -> None:
        """See `Limit.check`."""
        if self.taken >= self.limit:
            raise LimitExceeded(self.kind, self.taken, self.limit)

    def spend(self, _usage: RequestUsage, _cost: float = 0.0) -> None:
        """A turn's replies are no further turns."""


@dataclass(slots=True)
class MoneyLimit:
    """What a day's replies cost, in the operator's currency."""

    limit: float
    taken: float
    kind: str

    def check(self) -> None:
        """See `Limit.check`."""
        if self.taken >= self.limit:
            raise LimitExceeded(self.kind, self.taken, self.limit)

    def spend(self, _usage: RequestUsage, cost: float = 0.0) -> None:
        """See `Limit.spend`."""
        self.taken += cost


@dataclass(slots=True)
class TokenLimit:
    """Prompt and completion tokens together: of a turn, or with those ``taken`` before of a day."""

    limit: int
    taken: int = 0
    kind: str = "tokens"

    def check(self) -> None:
        """See `Limit.check`."""
        if self.taken >= self.limit:
            raise LimitExceeded(self.kind, self.taken, self.limit)

    def spend(self, usage: RequestUsage, _cost: float = 0.0) -> None:
        """See `Limit.spend`."""
        self.taken += usage.prompt_tokens + usage.completion_tokens


@dataclass(slots=True)
class TimeLimit:
    """Seconds since the turn began. The turn is also cut at that moment; see `Turn.run`."""

    limit: float
    clock: Callable[[], float]
    began: float

    def check(self) -> None:
        """See `Limit.check`."""
        passed = self.clock() - self.began
        if passed >= self.limit:
            raise LimitExceeded("seconds", passed, self.limit)

    def spend(self, _usage: RequestUsage, _cost: float = 0.0) -> None:
        """Time passes by itself."""


class Limits:
    """Several limits as one."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = [*limits]

    def add(self, *limits: Limit) -> None:
        """Bound by these as well."""
        self._limits += limits

    def check(self) -> None:
        """Raises `LimitExceeded` for the first that is reached."""
        for limit in self._limits:
            limit.check()

    def spend(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """Tell each of them."""
        for limit in self._limits:
            limit.spend(usage, cost)

    def refusal(self) -> str:
        """The first that is reached, in words; empty where none is."""
        try:
            self.check()
        except LimitExceeded as error:
            return str(error)
        return ""

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """A plugin asked a model on the turn's behalf: no step, but tokens and money."""
        for limit in self._limits:
            if isinstance(limit, TokenLimit | MoneyLimit):
                limit.spend(usage, cost)


def turn_limits(settings: TurnSettings, clock: Callable[[], float]) -> tuple[Limit, ...]:
    """The limits of a turn that begins now. ``clock`` is monotonic."""
    return (
        StepLimit(settings.max_steps),
        TokenLimit(settings.max_tokens),
        TimeLimit(settings.max_seconds, clock, clock()),
    )


def total(usage: StoredUsage) -> int:
    """All tokens of what the store counted."""
    return usage.prompt_tokens + usage.completion_tokens
