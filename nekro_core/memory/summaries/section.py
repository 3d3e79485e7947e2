"""Writes the section of a prompt about the records before its window: a summary of them, or their
number."""

from datetime import tzinfo

from nekro_core.chat import ChatKey
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.memory.quoted import day
from nekro_core.memory.summaries.summarizer import UNFOLDED, Summarizer
from nekro_core.store import RECORDS_LEVEL, Store, SummaryRow

_COUNTED = 1000
"""The records before the window are counted only up to this number, which takes a millisecond."""
_SHOWN = 2 * UNFOLDED
"""Maximum number of summaries of records in a prompt."""


class SummarySection:
    """Writes the section of a chat's prompt."""

    def __init__(self, store: Store, summarizer: Summarizer) -> None:
        self._store = store
        self._summarizer = summarizer

    async def text(
        self, chat_key: ChatKey, before_seq: int, *, tokens: int, zone: tzinfo | None
    ) -> str:
        """Write the section, in about ``tokens`` tokens; empty if there are no older records since
        the last reset of the conversation. As long as ``before_seq`` is the same, the text seldom
        changes. Raises `StoreError`."""
        summaries = self._store.summaries
        shows_all = self._store.messages.begins_at(chat_key, before_seq)
        if shows_all and not await summaries.may_exist():
            return ""
        if not await summaries.has_older(chat_key, before_seq):
            return ""
        whole = await self._summarizer.newest_whole(chat_key)
        reset = await self._summarizer.newest_reset(chat_key, whole, before_seq)
        rows = await summaries.of_chat(
            chat_key,
            level=RECORDS_LEVEL,
            after=max(whole.through_seq if whole else 0, reset),
            limit=2 * _SHOWN,
        )
        rows = [each for each in rows if each.from_seq < before_seq and each.text][-_SHOWN:]
        if whole is not None and whole.through_seq <= reset:
            whole = None
        if not rows and whole is None:
            return await self._only_count(chat_key, before_seq, reset)
        older = await summaries.count_records(
            chat_key, after=reset, before=before_seq, limit=_COUNTED + 1
        )
        return _written(whole, rows, older, tokens, zone)

    async def _only_count(self, chat_key: ChatKey, before_seq: int, reset: int) -> str:
        summaries = self._store.summaries
        if not reset:
            recent = await self._store.messages.newest(chat_key, 1, before=before_seq)
            if not recent:
                return ""
            # The summaries show no reset, so look for one in the records that will be counted.
            reset = await summaries.newest_reset(
                chat_key, after=max(before_seq - _COUNTED, 0), before=before_seq
            )
        older = await summaries.count_records(
            chat_key, after=reset, before=before_seq, limit=_COUNTED + 1
        )
        if not older:
            return ""
        return f"{_number(older)} older messages are not shown: find_messages finds them."


def _written(
    whole: SummaryRow | None,
    rows: list[SummaryRow],
    older: int,
    tokens: int,
    zone: tzinfo | None,
) -> str:
    begun = (whole or rows[0]).begun
    head = (
        f"{_number(older)} older messages since {day(begun, zone)}, summarized by a program; "
        "find_messages finds the messages themselves."
    )
    left = tokens - estimate_tokens(head)
    first: list[str] = []
    if whole is not None:
        span = f"{day(whole.begun, zone)} to {day(whole.ended, zone)}"
        first.append(f"{span}: {whole.text}")
    left -= sum(map(estimate_tokens, first))
    newest: list[str] = []
    for row in reversed(rows):
        text = f"{day(row.ended, zone)}: {row.text}"
        left -= estimate_tokens(text)
        if left < 0 and (newest or first):
            break
        newest.insert(0, text)
    return "\n".join([head, *first, *newest])


def _number(older: int) -> str:
    return f"more than {_COUNTED}" if older > _COUNTED else str(older)
