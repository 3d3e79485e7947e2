"""Counts, for the owner of a partition, how often records were taken up and not finished.

A record whose hooks, prompt or media end the process would end the process of each next owner too.
So an owner stores a row for each record that it has in hand, until the row of a turn says so
(`nekro_core.store.item_takes`). If three earlier owners ended with a record in hand, the record is
given up. If two did, the record is a suspect: it is handled while no other suspect is. If the
process ends again, that counts against this suspect alone.
"""

from collections import Counter
from collections.abc import Callable, Collection

import anyio
from loguru import logger

from nekro_core.chat import ChatKey
from nekro_core.store import Ownership, StoreError, StoreUnavailable
from nekro_core.store.item_takes import ItemTakeRepository

_MOST_TAKES = 3
"""If so many owners have ended with a record in hand, it is given up."""
_SUSPECT_TAKES = 2
"""If at least so many owners have ended with a record in hand, it is a suspect."""
GIVEN_UP = "ended_workers"
"""The detail of the decision about a record that was given up (`DecisionReason.FAILED`)."""
_RECORD = "record."
_AGAIN_S = 0.5
"""Pause in seconds before a row is stored again that the database has not stored."""
_ALONE_S = 10.0
"""Maximum number of seconds that the other suspects wait for the one that is handled. A suspect
that ends the process does so earlier, and a hook that does no harm may take minutes."""
_RENEW_S = 10.0
"""While a command runs, its row is renewed every so many seconds. So the chat's next owner can see
that the process that runs the command lives."""
_LOOK_S = 0.05
"""Pause in seconds between two looks whether the handling of a suspect is over."""


class RecordTakes:
    """The records that one ownership of a partition has in hand."""

    def __init__(self, takes: ItemTakeRepository, owned: Ownership) -> None:
        self._takes = takes
        self._owned = owned
        self._earlier: Counter[str] = Counter()
        self._open: dict[int, ChatKey] = {}
        self._bringing: set[int] = set()

    async def begin(self, *, since: float) -> None:
        """Read the rows that earlier owners have left. Those from before ``since`` (in seconds
        since 1970) are deleted. Raises `StoreUnavailable`."""
        self._earlier = await self._takes.unfinished(self._owned, since=since)

    def left(self) -> list[int]:
        """Return the numbers of the records that earlier owners had in hand when they ended."""
        return [int(item.removeprefix(_RECORD)) for item in self._earlier]

    async def last_taken(self, seq: int) -> float | None:
        """Return when an earlier owner took a record up, or last renewed that (see `keep_renewed`);
        None if each of them has finished it: an owner that has lost the partition still finishes
        its commands. Raises `StoreUnavailable`."""
        return await self._takes.last_taken(self._owned, _item(seq))

    async def keep_renewed(self, seq: int) -> None:
        """Renew the row of a command that runs. Never returns."""
        while True:
            await anyio.sleep(_RENEW_S)
            try:
                await self._takes.renew(self._owned, _item(seq))
            except StoreError as error:
                logger.warning("command {} is not stored as running: {}", seq, error)

    def earlier(self, seq: int) -> int:
        """Return how many earlier owners ended with this record in hand."""
        return self._earlier[_item(seq)]

    def is_deadly(self, seq: int) -> bool:
        """Return whether so many earlier owners ended with this record in hand that it is given
        up."""
        return self.earlier(seq) >= _MOST_TAKES

    def is_suspect(self, seq: int) -> bool:
        """Return whether this record is a suspect, because earlier owners ended with it in hand.
        A record that `is_deadly` is one too."""
        return self.earlier(seq) >= _SUSPECT_TAKES

    async def take(self, chat_key: ChatKey, seq: int, *, bringing: bool = False) -> None:
        """Store that this owner has a record in hand. Returns when this is committed. With
        ``bringing``, the record is not at its session yet; `handed_over` says when it is. Raises
        `OwnershipLost`."""
        if bringing:
            self._bringing.add(seq)
        if seq in self._open:
            return
        while True:
            try:
                await self._takes.take(self._owned, (_item(seq),))
            except StoreUnavailable as error:
                logger.warning("{}: record {} waits: {}", chat_key, seq, error)
                await anyio.sleep(_AGAIN_S)
            else:
                break
        self._open[seq] = chat_key

    def brings(self, seq: int) -> bool:
        """Return whether a record was taken up and is not at its session yet."""
        return seq in self._bringing

    def handed_over(self, seq: int) -> None:
        """Note that a record is at its session."""
        self._bringing.discard(seq)

    def finish(self, in_hand: Callable[[ChatKey, int], bool]) -> None:
        """Delete the rows of the records that nobody has in hand any more. ``in_hand`` is called
        for each record that is at its session, and returns whether somebody has it in hand."""
        for seq, chat_key in [*self._open.items()]:
            if seq not in self._bringing and not in_hand(chat_key, seq):
                self.finish_one(seq)

    def finish_one(self, seq: int) -> None:
        """Delete the rows of a record, those of earlier owners too."""
        self._bringing.discard(seq)
        self._open.pop(seq, None)
        self._takes.finish(self._owned, _item(seq))

    async def release(self, keep: Collection[int]) -> None:
        """Delete all rows of this ownership, because this process gives the partition up without
        ending. The rows of the records ``keep`` stay: their commands go on. Raises
        `StoreError`."""
        kept = [_item(seq) for seq in keep if seq in self._open]
        self._open.clear()
        self._bringing.clear()
        await self._takes.release(self._owned, kept)


class SuspectGate:
    """Lets one suspect at a time be handled in this process. A suspect is a record that two or more
    earlier owners had in hand when they ended."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._seq = 0
        self._settled: Callable[[], bool] = lambda: True
        self._until = 0.0

    @property
    def free(self) -> bool:
        """Whether no suspect is being handled."""
        return self._settled() or anyio.current_time() >= self._until

    def is_for(self, seq: int) -> bool:
        """Whether this suspect is the one that is being handled."""
        return seq == self._seq and not self.free

    async def enter(self, seq: int, settled: Callable[[], bool]) -> None:
        """Wait until no other suspect is being handled, and note that the suspect ``seq`` is being
        handled now. ``settled`` returns whether its handling is over. A suspect that is being
        handled may enter again, when the next part of its handling begins, and does not wait."""
        if self.is_for(seq):
            self._begin(seq, settled)
            return
        async with self._lock:
            while not self.free:  # noqa: ASYNC110 (that it is settled is no event)
                await anyio.sleep(_LOOK_S)
            self._begin(seq, settled)

    def _begin(self, seq: int, settled: Callable[[], bool]) -> None:
        self._seq, self._settled = seq, settled
        self._until = anyio.current_time() + _ALONE_S


def _item(seq: int) -> str:
    return f"{_RECORD}{seq}"
