"""Finds messages of a chat by their words, their meaning, their authors and their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

import anyio

from nekro_core.chat import ChatKey, Record, Reply
from nekro_core.memory.search.dates import BadDate, Span, parse_date
from nekro_core.memory.search.fit import fits_well
from nekro_core.memory.search.meaning import MessageVectors
from nekro_core.memory.search.message import (
    BOT,
    KINDS,
    RESET,
    full_name_term,
    kind_term,
    person_term,
)
from nekro_core.memory.search.question import (
    SearchQuestion,
    read_question,
    searched_terms,
    weighted_terms,
)
from nekro_core.memory.search.ranking import MEDIUM, Ranked, Scratch, rank
from nekro_core.memory.search.reranking import Reranking
from nekro_core.memory.search.word_hits import (
    ChatView,
    Positions,
    TermHits,
    hits_of,
    view_of,
)
from nekro_core.store import Store
from nekro_core.store.search_blocks import BLOCK
from nekro_core.system.arrays import NDArray, np
from nekro_core.system.errors import NekroError

MOST_FOUND = 50
"""Maximum number of messages that a search returns: about 3,000 tokens."""
_LATEST = 1e11
"""A time in seconds since 1970 that is later than any message: the inbox does not accept later
times."""
_ACROSS = 500
"""The index keeps the times of messages in blocks of consecutive messages. If a block has messages
from inside and from outside of a time span, a search reads the time of each of its messages. This
is the maximum number of such blocks of a search. There are only two if the messages of the chat are
in the order of their times. If there are more than the maximum, only the newest blocks are read,
which have 2.6 MB."""
_MOST_READ = 1000
"""Maximum number of messages that a search reads to find those that still exist. An index can
contain many messages in a row that were recalled."""
_READ_AT_ONCE = 100
_NEAREST = 3
"""Maximum number of messages that a search returns if no message fits well. If one of the returned
messages is the answer all the same, it is usually the first."""
_NAMES = 12
"""Maximum number of people whom an error message names."""


class BadSearch(NekroError, ValueError):
    """A search has an argument that cannot be used. The text of the error says which argument, and
    what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """The arguments of a search.

    Attributes:
        words: A question or words, in any language. If empty, all messages that fit the other
            arguments are found, newest first.
        who: The id or the name of a person of the chat, or ``you`` for the bot's own messages.
        since: A date, such as ``2025-03-08`` or ``2025-03-08T21:14``, in the bot's time zone.
        until: A date in the same form. Without a time it means the end of that day.
        kind: One of ``image``, ``voice``, ``video``, ``file``, ``link``, ``forward``.
        limit: The maximum number of messages, 1 to 50.
    """

    words: str = ""
    who: str = ""
    since: str = ""
    until: str = ""
    kind: str = ""
    limit: int = 10


@dataclass(frozen=True, slots=True)
class MessagesFound:
    """What a search found.

    Attributes:
        records: The messages, best first; newest first if the search had no words.
        incomplete: Whether some older messages were not searched, because they are not indexed yet,
            or because too many newer ones were recalled.
        weak: Whether no message fits the words well. If so, the records are those that fit best all
            the same, at most `_NEAREST`.
    """

    records: tuple[Record, ...]
    incomplete: bool = False
    weak: bool = False


class MessageFinder:
    """Searches the messages of chats.

    Args:
        store: The store.
        vectors: Encodes texts; None to search by words alone.
        searched: Called with the key of each chat that is searched, so that the encoder then
            computes the vectors of its messages.
        zone: The time zone of dates; None for the machine's.
        wall: Returns the present time, in seconds since 1970.
        clock: A monotonic clock.
    """

    def __init__(
        self,
        store: Store,
        vectors: MessageVectors | None = None,
        *,
        searched: Callable[[ChatKey], None] = lambda _: None,
        zone: tzinfo | None = None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._searched = searched
        self._reranking = Reranking(store, vectors, clock=clock)
        self._scratch = Scratch()
        self._zone = zone
        self._wall = wall

    async def find(self, chat_key: ChatKey, query: MessageQuery) -> MessagesFound:
        """Find messages of a chat, back to the last reset of its conversation. Recalled, hidden and
        erased messages are never found.

        Args:
            chat_key: The chat.
            query: What to find.

        Raises:
            BadSearch: An argument of the query cannot be used.
            StoreUnavailable: The database does not answer.
        """
        if query.kind and query.kind not in KINDS:
            raise BadSearch(f"kind={query.kind[:40]!r}: expected one of {', '.join(KINDS)}")
        question = read_question(query.words, self._wall(), self._zone)
        if self._vectors is None or not question.terms or not self._reranking.compares(chat_key):
            return await self._find(chat_key, query, question)
        # The meaning will be compared. Let the encoder, which runs in another process, compute the
        # vector of the question while the index is read.
        found: MessagesFound | NekroError
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._vectors.query, question.text)
            try:
                found = await self._find(chat_key, query, question)
            except NekroError as error:
                # Raise the error outside of the task group, which would wrap it in an exception
                # group.
                found = error
        if isinstance(found, NekroError):
            raise found
        return found

    async def _find(
        self, chat_key: ChatKey, query: MessageQuery, question: SearchQuestion
    ) -> MessagesFound:
        view = await view_of(self._store, chat_key)
        if view.total > MEDIUM:
            # Related terms are many and common: in a chat of a million messages they would take
            # most of the time.
            question = replace(question, related={})
        authors = _author_terms(query.who)
        wanted = [*searched_terms(question), *authors, RESET]
        if query.kind:
            wanted.append(kind_term(query.kind))
        hits = await hits_of(self._store, view, wanted)
        allowed = await self._allowed(view, query, authors, hits, _span(query, self._zone))
        terms = weighted_terms(question, hits, view.total)
        limit = max(1, min(query.limit, MOST_FOUND))
        if not terms and (question.spans or not question.terms):
            places = await self._listed(view, allowed, question.spans)
            listed = await self._records_at(view, places, limit)
            unread = len(listed) < limit and len(places) > _MOST_READ
            return MessagesFound(tuple(listed), view.unread or unread)
        if terms:
            best = rank(terms, view.total, view.mean_length, allowed, self._scratch)
        else:
            best = _newest(view, allowed)
        ordered = await self._reranking.order(view, question, terms, best, allowed)
        self._searched(chat_key)
        weak = not fits_well(question, hits, view.total, ordered.similarity)
        if weak:
            limit = min(limit, _NEAREST)
        records = tuple(await self._records(view, ordered.seqs, limit))
        return MessagesFound(records, view.unread, weak and bool(records))

    def local_time(self, seconds: float) -> datetime:
        """Return a time in the time zone of the bot.

        Args:
            seconds: Seconds since 1970.
        """
        return datetime.fromtimestamp(seconds, self._zone).astimezone(self._zone)

    async def answered_by(self, record: Record) -> int:
        """Return the number of the message to which this message replies; 0 if this message is not
        a reply, or if the other message was recalled or is not stored.

        Raises:
            StoreUnavailable: The database does not answer.
        """
        for segment in record.segments:
            if isinstance(segment, Reply) and segment.message_id:
                answered = await self._store.messages.by_message_id(
                    record.chat_key, segment.message_id
                )
                return answered.seq if answered and not answered.recalled else 0
        return 0

    async def count_before(self, chat_key: ChatKey, seq: int) -> int:
        """Count the messages of a chat before a record, for `unseen_line`. Recalled ones count too.

        Args:
            chat_key: The chat.
            seq: The number of the oldest record that is shown.

        Raises:
            StoreUnavailable: The database does not answer.
        """
        return await self._store.search_index.count_before(chat_key, seq)

    async def _allowed(
        self,
        view: ChatView,
        query: MessageQuery,
        authors: Sequence[str],
        hits: dict[str, TermHits],
        span: Span | None,
    ) -> NDArray[np.bool_] | None:
        """Return for each position whether the message fits the filters of the query (person, kind
        and times); None if all messages fit."""
        begun = int(hits[RESET].positions.max()) if RESET in hits else -1
        if not (query.who or query.kind or span or begun >= 0):
            return None
        allowed = np.ones(view.total, np.bool_)
        allowed[: begun + 1] = False
        if query.who:
            places = [hits[each].positions for each in authors if each in hits]
            if not places:
                raise BadSearch(await self._unknown(view, query.who))
            allowed &= _mask(view.total, np.concatenate(places))
        if query.kind:
            kind = kind_term(query.kind)
            places = [hits[kind].positions] if kind in hits else []
            allowed &= _mask(view.total, *places)
        if span:
            allowed &= await self._of_span(view, span)
        return allowed

    async def _of_span(self, view: ChatView, span: Span) -> NDArray[np.bool_]:
        """Return for each position whether the message is from this time span."""
        mask = np.zeros(view.total, np.bool_)
        index = self._store.search_index
        for first, last in await index.ranges_within(view.chat_key, *span):
            mask[first * BLOCK : (last + 1) * BLOCK] = True
        numbers = await index.blocks_across(view.chat_key, *span, _ACROSS)
        table = await index.block_table(view.chat_key, numbers)
        places = (table.numbers[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
        inside = (table.times >= span[0]) & (table.times < span[1]) & (places < view.indexed)
        mask[places[inside]] = True
        for position, message in enumerate(view.loose, view.indexed):
            mask[position] = span[0] <= message.time < span[1]
        return mask

    async def _unknown(self, view: ChatView, who: str) -> str:
        newest = await self._store.messages.newest(view.chat_key, 500)
        names = dict.fromkeys(
            f"{each.sender.name} ({each.sender.user_id})"
            for each in reversed(newest)
            if each.sender.user_id and not each.recalled
        )
        known = ", ".join(list(names)[:_NAMES])
        return (
            f"who={who[:60]!r}: nobody of this chat has that id or name; "
            f"those who wrote last: {known or 'nobody'}; 'you' for your own messages"
        )

    async def _listed(
        self, view: ChatView, allowed: NDArray[np.bool_] | None, spans: Sequence[Span]
    ) -> Positions:
        """Return the positions of the messages that fit the filters and the times of the question,
        newest first."""
        if spans:
            named = np.zeros(view.total, np.bool_)
            for span in spans:
                named |= await self._of_span(view, span)
            allowed = named if allowed is None else allowed & named
        places = np.arange(view.total) if allowed is None else np.flatnonzero(allowed)
        return places[::-1]

    async def _records_at(self, view: ChatView, places: Positions, limit: int) -> list[Record]:
        """Read the records at these positions, in this order, at most ``limit``. Deleted and
        recalled records are left out, as in `_records`."""
        loose = {view.indexed + at: each.seq for at, each in enumerate(view.loose)}
        found: list[Record] = []
        begin, end = 0, limit
        while begin < min(len(places), _MOST_READ) and len(found) < limit:
            some = places[begin:end].tolist()
            begin, end = end, end + _READ_AT_ONCE
            numbers = {place // BLOCK for place in some if place < view.indexed}
            blocks = await self._store.search_index.blocks(view.chat_key, numbers)
            seqs = [
                loose[place] if place in loose else int(blocks[place // BLOCK].seqs[place % BLOCK])
                for place in some
                if place in loose or place // BLOCK in blocks
            ]
            found += await self._existing(view, seqs)
        return found[:limit]

    async def _records(self, view: ChatView, seqs: NDArray[np.int64], limit: int) -> list[Record]:
        """Read the records with these numbers, in this order, at most ``limit``. Records that were
        deleted or recalled are left out, even if the index still contains them."""
        found: list[Record] = []
        begin, end = 0, limit
        while begin < len(seqs) and len(found) < limit:
            found += await self._existing(view, seqs[begin:end].tolist())
            begin, end = end, end + _READ_AT_ONCE
        return found[:limit]

    async def _existing(self, view: ChatView, seqs: Sequence[int]) -> list[Record]:
        records = {each.seq: each for each in await self._store.messages.numbered(seqs)}
        wanted = (records[seq] for seq in seqs if seq in records)
        return [each for each in wanted if not each.recalled and each.chat_key == view.chat_key]


def _newest(view: ChatView, allowed: NDArray[np.bool_] | None) -> Ranked:
    """Return the messages that fit the filters, newest first. If no message of the chat has a word
    of the question, the search begins with this order and then compares the meaning."""
    places = np.arange(view.total) if allowed is None else np.flatnonzero(allowed)
    return Ranked(places[::-1], np.zeros(len(places), np.float32))


def _span(query: MessageQuery, zone: tzinfo | None) -> Span | None:
    if not (query.since or query.until):
        return None
    try:
        since = parse_date(query.since, zone, end=False) if query.since else 0.0
    except BadDate as error:
        raise BadSearch(f"since={error}") from None
    try:
        until = parse_date(query.until, zone, end=True) if query.until else _LATEST
    except BadDate as error:
        raise BadSearch(f"until={error}") from None
    if since >= until:
        raise BadSearch(
            f"since={query.since!r} is not before until={query.until!r}: exchange the two"
        )
    return since, until


def _author_terms(who: str) -> list[str]:
    if who.strip().lower() in ("you", "bot", "me", "myself", "assistant"):
        return [BOT]
    plain = who.strip().removeprefix("@")
    return [person_term(plain), full_name_term(plain)] if plain else []


def _mask(total: int, *places: Positions) -> NDArray[np.bool_]:
    mask = np.zeros(total, np.bool_)
    for each in places:
        mask[each] = True
    return mask


def unseen_line(count: int) -> str:
    """Return the sentence with which a prompt says that it does not show all messages.

    Args:
        count: How many earlier messages of the chat are stored and not shown.

    Returns:
        The sentence, without a line end; empty if ``count`` is 0.
    """
    if count <= 0:
        return ""
    messages = "1 earlier message is" if count == 1 else f"{count:,} earlier messages are"
    return f"{messages} not shown: find_messages finds them."
