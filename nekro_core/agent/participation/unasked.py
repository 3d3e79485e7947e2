"""Decides whether the bot speaks unasked in a *lively* group, which is a group with the setting
`Participation.LIVELY`. The cheap checks come first. The last check asks a quick model."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from enum import StrEnum
from typing import Protocol

from nekro_core.chat import Author, ChatKey, Record
from nekro_core.policy.participation import ParticipationSettings
from nekro_core.system.rate_window import RateWindow

_HOUR_S = 3600.0
_LONGEST_REST_S = 86_400.0
_MOST_CHATS = 10_000
"""Maximum number of chats whose budgets are remembered. A budget takes a few hundred bytes."""


class QuickJudge(Protocol):
    """A quick, cheap model that says whether the bot has something to say."""

    async def wants_to_speak(self, chat_key: ChatKey, records: Sequence[Record]) -> str:
        """Decide whether the bot should speak, though nobody asked it.

        Args:
            chat_key: The chat.
            records: The newest records of the chat, oldest first. Their content is not trusted.

        Returns:
            Why the bot should speak, in a few words; empty if it should not, or if the model gave
            no usable answer.
        """


class Refusal(StrEnum):
    """A reason why the bot must not speak unasked at the moment."""

    NO_JUDGE = "no_judge"
    QUIET_HOURS = "quiet_hours"
    TOO_TALKATIVE = "too_talkative"
    RESTING = "resting"
    SPOKE_ENOUGH = "spoke_enough"
    JUDGED_ENOUGH = "judged_enough"


@dataclass(slots=True)
class _Budget:
    judged: RateWindow = field(default_factory=RateWindow)
    spoken: RateWindow = field(default_factory=RateWindow)
    spoke_at: float | None = None
    """The time at which the bot last spoke unasked; None if somebody has reacted since."""
    ignored: int = 0
    """How many times in a row nobody reacted."""


class UnaskedSpeech:
    """The budgets of unasked messages of all lively chats. Their hours are measured with a
    monotonic clock, so a change of the system's time does not change the budgets.

    Args:
        clock: A monotonic clock, in seconds.
        local: Returns the present time of day at the bot's place.
    """

    def __init__(self, clock: Callable[[], float], local: Callable[[], datetime]) -> None:
        self._clock = clock
        self._local = local
        self._budgets: OrderedDict[ChatKey, _Budget] = OrderedDict()

    def refusal(
        self, chat_key: ChatKey, settings: ParticipationSettings, records: Sequence[Record]
    ) -> Refusal | None:
        """Return why the bot must not speak unasked at the moment; None if it may.

        Args:
            chat_key: The chat.
            settings: The settings of the chat.
            records: The newest records of the chat.
        """
        if in_quiet_hours(self._local().time(), settings.quiet_from, settings.quiet_until):
            return Refusal.QUIET_HOURS
        if share_of_bot(records, settings.share_of) > settings.share:
            return Refusal.TOO_TALKATIVE
        budget, now = self._budget(chat_key, settings), self._clock()
        if budget.spoke_at is not None:
            rest_s = min(settings.ignored_s * 2**budget.ignored, _LONGEST_REST_S)
            if now - budget.spoke_at < rest_s:
                return Refusal.RESTING
        if not settings.unasked_an_hour or budget.spoken.wait_s(now) > 0:
            return Refusal.SPOKE_ENOUGH
        if not settings.judged_an_hour or budget.judged.wait_s(now) > 0:
            return Refusal.JUDGED_ENOUGH
        return None

    def count_question(self, chat_key: ChatKey, settings: ParticipationSettings) -> None:
        """Count a question to the quick model."""
        self._budget(chat_key, settings).judged.take(self._clock())

    def spoke(self, chat_key: ChatKey, settings: ParticipationSettings) -> None:
        """Count that the bot speaks unasked. Until somebody reacts, the bot then does not speak
        unasked for a while. This while is longer if nobody reacted to earlier messages either."""
        budget, now = self._budget(chat_key, settings), self._clock()
        budget.ignored = budget.ignored + 1 if budget.spoke_at is not None else 0
        budget.spoke_at = now
        budget.spoken.take(now)

    def reacted(self, chat_key: ChatKey) -> None:
        """Note that somebody talks to the bot."""
        if (budget := self._budgets.get(chat_key)) is not None:
            budget.spoke_at, budget.ignored = None, 0

    def _budget(self, chat_key: ChatKey, settings: ParticipationSettings) -> _Budget:
        budget = self._budgets.setdefault(chat_key, _Budget())
        self._budgets.move_to_end(chat_key)
        if len(self._budgets) > _MOST_CHATS:
            self._budgets.popitem(last=False)
        budget.judged.set_bounds((settings.judged_an_hour, _HOUR_S))
        budget.spoken.set_bounds((settings.unasked_an_hour, _HOUR_S))
        return budget


def in_quiet_hours(now: time, begin: str, end: str) -> bool:
    """Return True if a time of day is in the quiet hours. These may begin before midnight and end
    after it. If ``begin`` or ``end`` is empty, there are no quiet hours."""
    if not begin or not end:
        return False
    first, last = time.fromisoformat(begin), time.fromisoformat(end)
    plain = now.replace(tzinfo=None)
    if first <= last:
        return first <= plain < last
    return plain >= first or plain < last


def share_of_bot(records: Sequence[Record], count: int) -> float:
    """Return the share of the bot, from 0 to 1, in the newest ``count`` messages of people and the
    bot."""
    spoken = [each.author for each in records if each.author is not Author.SYSTEM][-count:]
    return spoken.count(Author.BOT) / len(spoken) if spoken else 0.0
