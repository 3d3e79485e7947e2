"""Two bots that answer each other do so for ever. Here is where one of them stops.

Nothing on a wire tells a foreign bot from a quick person, so the bound is one that people hardly
reach: turns that one sender wakes in one chat, whose threads count as one: whoever answers a mail
with a new one begins another thread each time. Whoever reaches it is told once, and is answered
again after having been silent for a while. A person is; a bot that only answers has nothing left to
answer, so a loop has ended: after ``burst_turns`` turns if it was quick, ``hour_turns`` if slow.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from nekro_core.chat import ChatKey
from nekro_core.policy import without_thread
from nekro_core.policy.settings import TriggerSettings

HOUR_S = 3600.0
_MOST_KNOWN = 20_000


class CooldownState(Enum):
    """Whether a sender is answered."""

    NO = "no"
    """Yes."""
    BEGINS = "begins"
    """Not any more, from now on."""
    LASTS = "lasts"
    """Still not."""


@dataclass(slots=True)
class _Sender:
    turns: deque[float] = field(default_factory=deque)
    rests_until: float = 0.0


class Cooldown:
    """Counts turns by chat (with its threads) and sender. ``clock`` is monotonic. A bound of 0 is
    none."""

    def __init__(self, settings: TriggerSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._senders: OrderedDict[tuple[ChatKey, str], _Sender] = OrderedDict()

    def note(self, chat_key: ChatKey, user_id: str) -> None:
        """A turn begins that this sender woke."""
        if not user_id:
            return
        sender = self._senders.setdefault(_place(chat_key, user_id), _Sender())
        self._senders.move_to_end(_place(chat_key, user_id))
        if len(self._senders) > _MOST_KNOWN:
            self._senders.popitem(last=False)
        sender.turns.append(self._clock())

    def state(self, chat_key: ChatKey, user_id: str) -> CooldownState:
        """Whether what this sender asks now is answered. Asking while resting prolongs the rest."""
        sender = self._senders.get(_place(chat_key, user_id))
        if sender is None:
            return CooldownState.NO
        now = self._clock()
        if sender.rests_until:
            if now >= sender.rests_until:
                del self._senders[_place(chat_key, user_id)]
                return CooldownState.NO
            sender.rests_until = now + self._settings.rest_s
            return CooldownState.LASTS
        while sender.turns and sender.turns[0] <= now - HOUR_S:
            sender.turns.popleft()
        if self._is_met(sender, now):
            sender.rests_until = now + self._settings.rest_s
            return CooldownState.BEGINS
        return CooldownState.NO

    def _is_met(self, sender: _Sender, now: float) -> bool:
        settings, turns = self._settings, sender.turns
        if settings.hour_turns and len(turns) >= settings.hour_turns:
            return True
        burst = settings.burst_turns
        return bool(burst) and len(turns) >= burst and turns[-burst] > now - settings.burst_s


def _place(chat_key: ChatKey, user_id: str) -> tuple[ChatKey, str]:
    return without_thread(chat_key), user_id
