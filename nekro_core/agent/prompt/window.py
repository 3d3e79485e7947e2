"""Chooses which records of a chat a prompt shows: the newest that fit into a number of tokens.

The beginning of the window stays where it is until the window is full. Then it moves in one jump,
so that about half of the window is free again. Providers cache the unchanged beginning of a prompt:
a window that moved with every message would have nothing unchanged.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from nekro_core.chat import ChatKey

_KEPT = 0.5
"""The share of a full window that stays after a jump. With a smaller share, the prompt would show
too little of the conversation after a jump. With a larger share, jumps would come more often, and
after each jump the provider must read the whole window anew."""
_CHATS = 4096
"""Maximum number of chats whose windows are remembered. For any other chat, the next prompt begins
a new window, as after a restart."""


def window_begin(
    seqs: Sequence[int], costs: Sequence[int], *, begin: int, most_tokens: int, most: int
) -> int:
    """Return the number of the oldest record that the window shows.

    Args:
        seqs: The numbers of the newest records, oldest first.
        costs: The tokens of each of them.
        begin: The beginning of the window in the previous prompt; 0 if there is none.
        most_tokens: The size of the window.
        most: The maximum number of records in it.

    Returns:
        ``begin``, or the number of a later record if the window is full; 0 if there are no records.
    """
    if not seqs:
        return 0
    if begin > seqs[-1]:  # the records of the previous window were erased
        begin = 0
    inside = [cost for seq, cost in zip(seqs, costs, strict=True) if seq >= begin]
    cut_off = begin and seqs[0] > begin and len(seqs) >= most
    if sum(inside) <= most_tokens and len(inside) <= most and not cut_off:
        return begin or seqs[0]
    left, count = most_tokens * _KEPT, max(int(most * _KEPT), 1)
    first = len(seqs)
    while first > 0 and count > 0 and (left >= costs[first - 1] or first == len(seqs)):
        first -= 1
        left -= costs[first]
        count -= 1
    return seqs[first]


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a chat's previous prompt.

    Attributes:
        begin: The number of its oldest record; 0 if there was no prompt.
        moved: The number of the newest record when the window last moved.
    """

    begin: int = 0
    moved: int = 0


class HistoryWindows:
    """Remembers the window of each chat, in memory only."""

    def __init__(self) -> None:
        self._windows: OrderedDict[ChatKey, Window] = OrderedDict()

    def of(self, chat_key: ChatKey) -> Window:
        """Return the window of the chat's previous prompt."""
        return self._windows.get(chat_key, Window())

    def note(self, chat_key: ChatKey, window: Window) -> None:
        """Remember the window of the chat's newest prompt."""
        self._windows.pop(chat_key, None)
        self._windows[chat_key] = window
        while len(self._windows) > _CHATS:
            self._windows.popitem(last=False)
