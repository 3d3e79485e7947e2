"""Summarizes the records that are older than those that a chat's prompts show.

A *summary of records* replaces up to `CHUNK` records in prompts. When there are several, the oldest
are *folded*: a model writes them and the previous *summary of summaries* of the chat into a new
summary of summaries. Some records are summarized while prompts still show them. So when the
prompts' *window* (the records that they show) moves on, the summary of the records that leave it
exists already. The records and the folded summaries stay stored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loguru import logger

from nekro_core.chat import Author, ChatKey, Record
from nekro_core.memory.background import (
    AskedTooOften,
    BackOff,
    BoundedModel,
    NoQuickModel,
    WrongAnswer,
)
from nekro_core.memory.scope import MemoryScope
from nekro_core.memory.summaries.texts import summary_of_records, summary_of_summaries
from nekro_core.store import (
    RECORDS_LEVEL,
    SUMMARIES_LEVEL,
    RecordRange,
    Store,
    SummaryRow,
    SummaryState,
)
from nekro_core.system.errors import NekroError

CHUNK = 24
"""Number of records of one summary."""
_AHEAD = 24
"""Maximum number of records at the beginning of the window that are summarized while prompts still
show them."""
_KEPT_OUT = 8
"""Number of the newest records that are not summarized while prompts show them, because the
conversation about them goes on."""
_FIRST = 400
"""If a chat has no summary, or more than this number of records since its last summary, only this
number of records before the window is summarized: 400 records are 17 requests. Earlier records are
found only by search."""
UNFOLDED = 6
"""When a chat has this number of summaries of records, the oldest half of them is folded."""
_FOLDED = 3
_LATEST = 30
"""Maximum number of summaries that are read, the newest. There are more only if a summary of
summaries was deleted because it had words of an erased person."""
_MADE_AGAIN = 4
"""Maximum number of emptied summaries that one call of `Summarizer.work` makes again, the newest
first."""
_MOST_A_PASS = 24
"""Maximum number of summaries that one call of `Summarizer.work` makes, so that other chats do not
wait long."""


@dataclass(frozen=True, slots=True)
class _Work:
    """The records for one summary, and the range that the summary will cover."""

    records: Sequence[Record]
    from_seq: int
    through_seq: int


class Summarizer:
    """Makes the summaries of all chats. ``wall`` returns seconds since 1970."""

    def __init__(
        self,
        store: Store,
        scope: MemoryScope,
        model: BoundedModel,
        back_off: BackOff,
        wall: Callable[[], float],
    ) -> None:
        self._store = store
        self._summaries = store.summaries
        self._scope = scope
        self._model = model
        self._back_off = back_off
        self._wall = wall

    async def work(self, chat_key: ChatKey, before_seq: int, *, ahead: bool = True) -> bool:
        """Make the missing summaries of a chat whose prompts begin at record ``before_seq``. With
        ``ahead``, some records that prompts still show are summarized too. Returns whether all
        summaries are made or given up. Raises `NoQuickModel`, `AskedTooOften` and `StoreError`."""
        await self._summaries.mark_recalled_stale(chat_key)
        # Without this check, each turn would read 400 records although there is no model to
        # summarize them.
        self._model.require()
        goal = await self._goal(chat_key, before_seq) if ahead else before_seq - 1
        for _ in range(_MOST_A_PASS):
            work = await self._next(chat_key, before_seq, goal)
            if work is None:
                break
            if not await self._make(chat_key, work):
                return False
        else:
            return False
        return await self._make_again(chat_key) and await self._fold(chat_key, before_seq)

    async def _goal(self, chat_key: ChatKey, before_seq: int) -> int:
        """Return the number of the last record that may be summarized, if ``ahead`` is set."""
        shown = await self._store.messages.after(chat_key, before_seq - 1, _AHEAD + _KEPT_OUT)
        if len(shown) <= _KEPT_OUT:
            return before_seq - 1
        return shown[min(_AHEAD, len(shown) - _KEPT_OUT) - 1].seq

    async def _next(self, chat_key: ChatKey, before_seq: int, goal: int) -> _Work | None:
        """Return the next records to summarize; None if there are none. Records that prompts still
        show are summarized only when there are `CHUNK` of them."""
        through = await self._summaries.newest_through(chat_key)
        missing = await self._summaries.count_records(
            chat_key, after=through, before=before_seq, limit=_FIRST + 1
        )
        if through and missing <= _FIRST:
            records = await self._store.messages.after(chat_key, through, CHUNK)
        else:
            oldest = await self._store.messages.newest(chat_key, _FIRST, before=before_seq)
            records = oldest[:CHUNK]
            if len(records) < CHUNK and records:
                records = await self._store.messages.after(chat_key, records[0].seq - 1, CHUNK)
        records = [each for each in records if each.seq <= goal]
        resets = [place for place, each in enumerate(records) if _begins_anew(each)]
        begin = resets[-1] + 1 if resets else 0
        if not records or (len(records) < CHUNK and records[0].seq >= before_seq):
            return None
        # Summarize only the records after the last reset. The range of the summary also covers the
        # records before the reset, so that they are not read again.
        return _Work(records[begin:], records[0].seq, records[-1].seq)

    async def _make(self, chat_key: ChatKey, work: _Work) -> bool:
        """Make one summary. Returns True if it was made or given up, False if it must be tried
        again later."""
        key = ("summary", chat_key, work.from_seq)
        if self._back_off.waits(key):
            return False
        seen = [each for each in work.records if self._is_seen(chat_key, each)]
        text, state = "", SummaryState.MADE
        if any(each.author is Author.PERSON for each in seen):
            try:
                text = await summary_of_records(self._model, seen)
            except (NekroError, TimeoutError) as error:
                if not self._given_up(chat_key, key, error):
                    return False
                state = SummaryState.GIVEN_UP
        row = SummaryRow(
            chat_key=chat_key,
            level=RECORDS_LEVEL,
            from_seq=work.from_seq,
            through_seq=work.through_seq,
            records=len(seen),
            recalled=await self._summaries.recalled_between(
                chat_key, work.from_seq, work.through_seq
            ),
            text=text,
            state=state,
            begun=seen[0].time if seen else self._wall(),
            ended=seen[-1].time if seen else self._wall(),
            made=self._wall(),
        )
        read = RecordRange(chat_key=chat_key, seqs=tuple(each.seq for each in seen))
        stored = await self._summaries.put(row, read=read if seen else None)
        if stored:
            self._back_off.done(key)
        return stored

    def _given_up(self, chat_key: ChatKey, key: object, error: Exception) -> bool:
        """Return True if the summary must not be tried again: it has failed at least
        `background.ATTEMPTS` times, and this time the model has given a wrong answer, or none in
        time. After any other error it is tried again. Raises `NoQuickModel` and `AskedTooOften`."""
        if isinstance(error, NoQuickModel | AskedTooOften):
            raise error
        why = str(error) or type(error).__name__
        if not self._back_off.failed(key) or not isinstance(error, WrongAnswer | TimeoutError):
            logger.info("{}: a summary is not made yet: {}", chat_key, why)
            return False
        logger.warning(
            "{}: a summary is given up: {}. The messages are still found by search", chat_key, why
        )
        return True

    def _is_seen(self, chat_key: ChatKey, record: Record) -> bool:
        hidden = record.recalled or self._scope.is_off(chat_key, record.sender.user_id)
        return not hidden and not record.begins_anew

    async def _make_again(self, chat_key: ChatKey) -> bool:
        """Make emptied summaries again, from those of their records that still exist. Returns
        whether there are no further ones to make."""
        rows = await self._summaries.of_chat(chat_key, level=RECORDS_LEVEL, limit=_LATEST)
        stale = [each for each in rows if each.state is SummaryState.STALE]
        for row in stale[::-1][:_MADE_AGAIN]:
            records = await self._store.messages.after(chat_key, row.from_seq - 1, CHUNK)
            left = [each for each in records if each.seq <= row.through_seq]
            if not await self._make(chat_key, _Work(left, row.from_seq, row.through_seq)):
                return False
        return len(stale) <= _MADE_AGAIN

    async def _fold(self, chat_key: ChatKey, before_seq: int) -> bool:
        """Fold the oldest summaries of records into the summary of summaries. Returns False if some
        must be folded later."""
        for _ in range(_LATEST):
            whole = await self.newest_whole(chat_key)
            through = whole.through_seq if whole else 0
            reset = await self.newest_reset(chat_key, whole, before_seq)
            if reset > through:
                whole, through = None, reset
            rows = await self._summaries.of_chat(
                chat_key, level=RECORDS_LEVEL, after=through, limit=_LATEST
            )
            rows = [each for each in rows if each.through_seq < before_seq and each.text]
            if len(rows) < UNFOLDED:
                return True
            if not await self._fold_some(chat_key, whole, rows[:_FOLDED]):
                return False
        return False

    async def _fold_some(
        self, chat_key: ChatKey, whole: SummaryRow | None, rows: Sequence[SummaryRow]
    ) -> bool:
        first = whole or rows[0]
        key = ("fold", chat_key, rows[0].from_seq)
        if self._back_off.waits(key):
            return False
        parts = [each.text for each in ((whole, *rows) if whole else rows)]
        try:
            text = await summary_of_summaries(self._model, parts)
        except (NekroError, TimeoutError) as error:
            if not self._given_up(chat_key, key, error):
                return False
            text = whole.text if whole else rows[0].text
        row = SummaryRow(
            chat_key=chat_key,
            level=SUMMARIES_LEVEL,
            from_seq=first.from_seq,
            through_seq=rows[-1].through_seq,
            records=sum(each.records for each in rows) + (whole.records if whole else 0),
            text=text,
            begun=first.begun,
            ended=rows[-1].ended,
            made=self._wall(),
        )
        folded = [each.summary_id for each in ((whole, *rows) if whole else rows)]
        self._back_off.done(key)
        return await self._summaries.put(row, folded=folded)

    async def newest_whole(self, chat_key: ChatKey) -> SummaryRow | None:
        """Get the newest summary of summaries of a chat; None if there is none."""
        rows = await self._summaries.of_chat(chat_key, level=SUMMARIES_LEVEL, limit=1)
        return rows[-1] if rows else None

    async def newest_reset(
        self, chat_key: ChatKey, whole: SummaryRow | None, before_seq: int
    ) -> int:
        """Get the number of the newest record before ``before_seq`` at which the conversation was
        reset; 0 if there is none. Only records after the range of ``whole`` are searched or, if it
        is None, those from the first summary on."""
        if whole is not None:
            after = whole.through_seq
        else:
            rows = await self._summaries.of_chat(chat_key, level=RECORDS_LEVEL, limit=_LATEST)
            after = rows[0].from_seq - 1 if rows else max(before_seq - 1, 0)
        return await self._summaries.newest_reset(chat_key, after=after, before=before_seq)


def _begins_anew(record: Record) -> bool:
    return record.begins_anew and not record.compacts
