"""The cooldown of senders that wake too many turns: it ends loops of two bots.

Two bots that answer each other never stop by themselves. Nothing in a message tells a bot from a
quick person, so the bound is one that people hardly reach: a count of turns that one sender wakes
in one chat. The threads of a chat count as one, since each answered mail may begin another thread.
A sender that reaches the bound is told so once, and gets answers again after a while of silence.
A person does keep silent; a bot that only answers then has nothing to answer. So a quick loop ends
after ``burst_turns`` turns and a slow one after ``hour_turns``.
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
    """Whether a sender is in its cooldown."""

    NO = "no"
    """It gets an answer."""
    BEGINS = "begins"
    """It gets no answer from now on, and is told so."""
    LASTS = "lasts"
    """It still gets no answer."""


@dataclass(slots=True)
class _Sender:
    turns: RateWindow
    silent_until: float = 0.0


class Cooldown:
    """Counts turns by chat, with its threads, and sender.

    Args:
        settings: The bounds; one of 0 is no bound.
        clock: A monotonic clock.
    """

    def __init__(self, settings: TriggerSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._senders: OrderedDict[tuple[ChatKey, str], _Sender] = OrderedDict()

    def note(self, chat_key: ChatKey, user_id: str) -> None:
        """Count a turn that this sender woke; one without a sender is not counted."""
        if not user_id:
            return
        key, settings = _key(chat_key, user_id), self._settings
        if key not in self._senders:
            burst, hour = (settings.burst_turns, settings.burst_s), (settings.hour_turns, HOUR_S)
            self._senders[key] = _Sender(RateWindow(burst, hour))
        self._senders.move_to_end(key)
        if len(self._senders) > _MOST_SENDERS:
            self._senders.popitem(last=False)
        self._senders[key].turns.take(self._clock())

    def state(self, chat_key: ChatKey, user_id: str) -> CooldownState:
        """Whether a message that this sender writes now gets an answer. A message during the
        cooldown prolongs it."""
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
