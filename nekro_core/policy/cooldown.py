"""Silences senders that wake too many turns. This ends endless loops between two bots.

Two bots that answer each other never stop by themselves. A message does not show whether its sender
is a bot or a person who writes fast. So the number of turns that one sender can wake in one chat is
limited. The limit is so high that people hardly ever reach it. All threads of a chat count as one
chat, since each answered mail may begin another thread.

A sender that reaches the limit gets one notice. Then the sender gets no answers until it has been
silent for a while. A person can stop writing. A bot that only answers also becomes silent, because
it gets no messages to answer. So a quick loop ends after ``burst_turns`` turns and a slow loop
after ``hour_turns``.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from nekro_core.chat import ChatKey
from nekro_core.policy import without_thread
from nekro_core.policy.settings import TriggerSettings
from nekro_core.system.rate_window import RateWindow

HOUR_S = 3600.0
_MOST_SENDERS = 20_000


class CooldownState(Enum):
    """Whether a sender is in a cooldown."""

    NO = "no"
    """There is no cooldown: the sender gets an answer."""
    BEGINS = "begins"
    """A cooldown begins with this message: the sender gets a notice, and then no more answers."""
    LASTS = "lasts"
    """The cooldown began with an earlier message: the sender gets no answer."""


@dataclass(slots=True)
class _Sender:
    turns: RateWindow
    silent_until: float = 0.0


class Cooldown:
    """Counts turns by sender and chat. A chat and its threads count as one chat.

    Args:
        settings: The limits; 0 means no limit.
        clock: A monotonic clock.
    """

    def __init__(self, settings: TriggerSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._senders: OrderedDict[tuple[ChatKey, str], _Sender] = OrderedDict()

    def note(self, chat_key: ChatKey, user_id: str) -> None:
        """Count a turn that this sender woke. A turn without a sender is not counted."""
        if not user_id:
            return
        key, settings = _key(chat_key, user_id), self._settings
        burst, hour = (settings.burst_turns, settings.burst_s), (settings.hour_turns, HOUR_S)
        if key not in self._senders:
            self._senders[key] = _Sender(RateWindow(burst, hour))
        self._senders[key].turns.set_bounds(burst, hour)
        self._senders.move_to_end(key)
        if len(self._senders) > _MOST_SENDERS:
            self._senders.popitem(last=False)
        self._senders[key].turns.take(self._clock())

    def counts(self, chat_key: ChatKey, user_id: str) -> bool:
        """Return whether turns of this sender are counted. If not, there is no cooldown."""
        return _key(chat_key, user_id) in self._senders

    def state(self, chat_key: ChatKey, user_id: str) -> CooldownState:
        """Return whether a message that this sender writes now gets an answer. A message during the
        cooldown prolongs the cooldown."""
        key = _key(chat_key, user_id)
        sender = self._senders.get(key)
        if sender is None:
            return CooldownState.NO
        now = self._clock()
        if sender.silent_until:
            if now >= sender.silent_until:
                del self._senders[key]
                return CooldownState.NO
            sender.silent_until = now + self._settings.rest_s
            return CooldownState.LASTS
        if sender.turns.wait_s(now):
            sender.silent_until = now + self._settings.rest_s
            return CooldownState.BEGINS
        return CooldownState.NO


def _key(chat_key: ChatKey, user_id: str) -> tuple[ChatKey, str]:
    return without_thread(chat_key), user_id
