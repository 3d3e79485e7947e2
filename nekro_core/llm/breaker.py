"""Decides when a model that failed is asked again (a circuit breaker).

A model that fails gets no requests while it cools down. Then one request tries it. If that request
gets an answer, all requests may ask the model again. If not, the model cools down again, twice as
long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from nekro_core.llm.model import PassReason

_SOFT_FAILURES = 3
"""Number of consecutive failures that begin a cool-down, for failures that the request may have
caused: a refusal, a rejected request, an empty reply, a reply that broke off in the middle."""
_SOFT = frozenset({PassReason.REFUSED, PassReason.REJECTED, PassReason.EMPTY, PassReason.BROKEN})
_LONGEST_ASKED_S = 3600.0
"""Maximum cool-down in seconds that a provider can ask for. Without this bound, a wrong header
could switch a model off for a month."""


class CooldownSettings(Protocol):
    """How long a model cools down (`nekro_core.llm.role_settings.RoleSettings`)."""

    @property
    def cooldown_s(self) -> float:
        """The first cool-down in seconds."""

    @property
    def longest_cooldown_s(self) -> float:
        """The longest cool-down in seconds."""


class BreakerState(StrEnum):
    """Whether a model is asked."""

    CLOSED = "closed"
    """Every request may ask the model."""
    OPEN = "open"
    """The model cools down: no request may ask it."""
    HALF_OPEN = "half_open"
    """The cool-down is over. One request may try the model, or is trying it."""


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """The permission of one request to ask the model. ``period`` is the number of cool-downs that
    had begun when this request began. If another cool-down has begun since then, a failure of this
    request does not begin a further one. ``probe`` says whether the request tries a model that has
    cooled down."""

    period: int
    probe: bool = False


class CircuitBreaker:
    """The breaker of one model. Each `enter` must be followed by `leave`, also after an error.

    Args:
        settings: Say how long a cool-down takes. They are read each time a cool-down begins.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, settings: CooldownSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._open_until: float | None = None
        self._cooldown_s = 0.0
        self._soft = 0
        self._probe: Passage | None = None
        self.cooldowns = 0
        """How many cool-downs have begun so far."""
        self.reason: PassReason | None = None
        """Why the model cools down; None if it does not cool down."""
        self.detail = ""
        """The error that began the cool-down."""
        self.worked = False
        """Whether the model has answered a request since this object was made."""

    @property
    def state(self) -> BreakerState:
        """The present state of the breaker."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if self.remaining_s <= 0 else BreakerState.OPEN

    @property
    def remaining_s(self) -> float:
        """Seconds until a request may try the model; 0 if a request may try it now."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self._clock())

    @property
    def admits(self) -> bool:
        """True if `enter` would return a passage now."""
        return self.state is BreakerState.CLOSED or (
            self.state is BreakerState.HALF_OPEN and self._probe is None
        )

    def enter(self, *, forced: bool = False) -> Passage | None:
        """Begin a request. Returns its permission, or None if the model must not be asked.

        Args:
            forced: Ask the model even if it cools down, because there is no other model.
        """
        if not self.admits and not forced:
            return None
        passage = Passage(self.cooldowns, probe=self._open_until is not None)
        if passage.probe and self._probe is None:
            self._probe = passage
        return passage

    def works(self, passage: Passage) -> None:
        """Note that the model has begun to answer: all requests may ask it again."""
        self.worked = True
        if passage.period == self.cooldowns:
            self._open_until, self._cooldown_s = None, 0.0
            self.reason, self.detail = None, ""
        self._release(passage)

    def finished(self) -> None:
        """Note that a reply was received to its end."""
        self._soft = 0

    def fails(
        self,
        passage: Passage,
        reason: PassReason,
        detail: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        """Note that a request failed. This may begin a cool-down.

        Args:
            passage: What `enter` returned.
            reason: Why the request failed.
            detail: The error, for an operator.
            retry_after_s: Seconds after which the provider allows the next request.
        """
        self._release(passage)
        if reason is PassReason.NOT_READY or passage.period != self.cooldowns:
            return
        if reason in _SOFT and not passage.probe:
            self._soft += 1
            if self._soft < _SOFT_FAILURES:
                return
        self._cooldown_s = self._next_cooldown(reason)
        wait = self._cooldown_s
        if retry_after_s is not None:
            wait = min(max(retry_after_s, 1.0), _LONGEST_ASKED_S)
        self._open_until = self._clock() + wait
        self.cooldowns += 1
        self._soft = 0
        self._probe = None
        self.reason, self.detail = reason, detail

    def leave(self, passage: Passage) -> None:
        """End a request, with any outcome. If a probe was cancelled before it had an outcome, the
        next request becomes the probe."""
        self._release(passage)

    def _release(self, passage: Passage) -> None:
        if self._probe is passage:
            self._probe = None

    def _next_cooldown(self, reason: PassReason) -> float:
        shortest, longest = self._settings.cooldown_s, self._settings.longest_cooldown_s
        if reason is PassReason.KEY:
            return max(shortest, longest)  # a wrong key stays wrong until somebody changes it
        return min(max(shortest, self._cooldown_s * 2), max(shortest, longest))
