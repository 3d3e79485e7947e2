"""The model that makes summaries and notes in the background, and how often it is asked."""

import math
from collections.abc import Callable
from typing import Protocol

import anyio

from nekro_core.memory.settings import MemorySettings
from nekro_core.system.errors import NekroError
from nekro_core.system.rate_window import RateWindow

_DAY_S = 86_400.0
ANSWER_S = 120.0
"""Maximum number of seconds for an answer. A small model on a machine without a graphics card
writes about 10 tokens a second, and an answer has at most 700 tokens."""
_FIRST_WAIT_S = 60.0
"""Seconds until a failed request is repeated for the first time. The wait doubles with each
failure."""
_LONGEST_WAIT_S = 6 * 3600.0
ATTEMPTS = 5
"""Number of times that a request is tried. The waits between the tries add up to 15 minutes, so a
request survives a provider that does not answer for some minutes."""
_MOST_ASIDE = 10_000
"""Maximum number of requests whose failures are remembered."""


class BackgroundModel(Protocol):
    """The model of the role ``quick``."""

    def require(self) -> None:
        """Raise `NoQuickModel` if no model of the role ``quick`` is configured."""

    async def ask(self, instructions: str, text: str, *, max_tokens: int) -> str:
        """Get the model's answer to a text. Raises `NoQuickModel` if no model of the role ``quick``
        is configured, and other `NekroError` if the model does not answer."""


class NoQuickModel(NekroError):
    """No model of the role ``quick`` is configured."""


class AskedTooOften(NekroError):
    """The requests of the last 24 hours have reached their maximum."""


class WrongAnswer(NekroError):
    """The model's answer cannot be used. The text says why."""


class NoModel:
    """Stands in for the model of the role ``quick`` if none is configured."""

    def require(self) -> None:
        """Raise `NoQuickModel`."""
        raise NoQuickModel("no model of the role quick is configured")

    async def ask(self, instructions: str, text: str, *, max_tokens: int) -> str:  # noqa: ARG002
        """Raise `NoQuickModel`."""
        raise NoQuickModel("no model of the role quick is configured")


class BoundedModel:
    """Asks the model, within `ANSWER_S` and within the maximum number of requests in 24 hours.
    Requests that were refused do not count; those that took too long do. An answer that is too long
    is cut. ``clock`` is monotonic."""

    def __init__(
        self, model: BackgroundModel, settings: MemorySettings, clock: Callable[[], float]
    ) -> None:
        self._model = model
        self._settings = settings
        self._clock = clock
        self._day = RateWindow()

    def replace(self, model: BackgroundModel) -> None:
        """Use this model for all later requests."""
        self._model = model

    def require(self) -> None:
        """See `BackgroundModel.require`."""
        self._model.require()

    async def ask(self, instructions: str, text: str, *, max_tokens: int, max_chars: int) -> str:
        """Get an answer of at most ``max_chars`` characters. Raises `NekroError` and
        `TimeoutError`."""
        self._day.set_bounds((self._settings.asks_a_day, _DAY_S))
        if self._day.wait_s(self._clock()):
            raise AskedTooOften(
                f"the memory has made {self._settings.asks_a_day} requests in 24 hours "
                "(NEKRO_MEMORY__ASKS_A_DAY)"
            )
        try:
            with anyio.fail_after(ANSWER_S):
                answer = await self._model.ask(instructions, text, max_tokens=max_tokens)
        except TimeoutError:
            # The provider charges for what the model has written in this time.
            self._day.take(self._clock())
            raise
        self._day.take(self._clock())
        return answer[:max_chars]


class BackOff:
    """Remembers which requests failed and when each may be repeated. ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: dict[object, tuple[int, float]] = {}

    def waits(self, key: object) -> bool:
        """Return True if the wait after the last failure of this request is not over."""
        return self._clock() < self._failed.get(key, (0, -math.inf))[1]

    def failed(self, key: object) -> bool:
        """Note a failure. Returns whether the request has failed `ATTEMPTS` times."""
        times = self._failed.pop(key, (0, 0.0))[0] + 1
        wait_s = min(_FIRST_WAIT_S * 2.0 ** min(times - 1, 20), _LONGEST_WAIT_S)
        self._failed[key] = (times, self._clock() + wait_s)
        if len(self._failed) > _MOST_ASIDE:
            del self._failed[next(iter(self._failed))]
        return times >= ATTEMPTS

    def done(self, key: object) -> None:
        """Note that a request has succeeded."""
        self._failed.pop(key, None)
