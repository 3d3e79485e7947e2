"""Counts what the bot does, for the monitoring. The numbers are in the memory of the process."""

import time
from collections.abc import Callable, Hashable

from nekro_core.system.telemetry import names
from nekro_core.system.telemetry.recorders import Counter, Histogram


class BotMetrics:
    """The counters and histograms of one bot. All methods are called on the event loop and never
    wait. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.messages = Counter(names.MESSAGES)
        self.turns = Counter(names.TURNS)
        self.steps = Counter(names.STEPS)
        self.tool_calls = Counter(names.TOOL_CALLS)
        self.model_requests = Counter(names.MODEL_REQUESTS)
        self.tokens = Counter(names.TOKENS)
        self.money = Counter(names.MONEY)
        self.first_words = Histogram(names.FIRST_WORDS)
        self.turn_seconds = Histogram(names.TURN_SECONDS)
        self.model_first_token = Histogram(names.MODEL_FIRST_TOKEN)
        self.model_seconds = Histogram(names.MODEL_SECONDS)
        self.box_start = Histogram(names.BOX_START)
        self.platform_call = Histogram(names.PLATFORM_CALL)
        self.loop_lag = Histogram(names.LOOP_LAG)
        self._clock = clock
        self._began: dict[Hashable, float] = {}
        """When the running turn of each chat began, by ``clock``. A chat has at most one turn at a
        time."""
        self._silent: dict[Hashable, float] = {}
        """The same times, only for turns that have not sent a message yet."""

    @property
    def counters(self) -> tuple[Counter, ...]:
        """All counters."""
        return (
            self.messages,
            self.turns,
            self.steps,
            self.tool_calls,
            self.model_requests,
            self.tokens,
            self.money,
        )

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """All histograms."""
        return (
            self.first_words,
            self.turn_seconds,
            self.model_first_token,
            self.model_seconds,
            self.box_start,
            self.platform_call,
            self.loop_lag,
        )

    def turn_began(self, chat: Hashable) -> None:
        """Note that a turn of a chat began."""
        self._began[chat] = self._silent[chat] = self._clock()

    def words_sent(self, chat: Hashable) -> None:
        """Note that a platform has accepted a message of a chat's turn. For the first message of a
        turn, record how long the turn took to send it. Later messages change nothing."""
        began = self._silent.pop(chat, None)
        if began is not None:
            self.first_words.observe(self._clock() - began)

    def turn_ended(self, chat: Hashable, end: str) -> None:
        """Count the end of a chat's turn and record how long the turn took. ``end`` says why it
        ended."""
        began = self._began.pop(chat, None)
        if began is not None:
            self.turns.add(end)
            self.turn_seconds.observe(self._clock() - began)

    def turn_left(self, chat: Hashable) -> None:
        """Forget the running turn of a chat without counting it. If the turn has not ended, a later
        call of `turn_began` begins it again."""
        self._began.pop(chat, None)
        self._silent.pop(chat, None)
