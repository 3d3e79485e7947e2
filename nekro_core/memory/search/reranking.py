"""Takes the messages whose words fit a question best, and orders them by all their features. One
feature is how similar their meaning is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nekro_core.chat import ChatKey
from nekro_core.memory.search.features import (
    PlacesAround,
    features_of,
    ranking_weights,
    scores_of,
)
from nekro_core.memory.search.indexer import terms_in
from nekro_core.memory.search.meaning import MessageVectors, cosines_of, encoded_text
from nekro_core.memory.search.neighbourhood import Neighbourhood, neighbourhood_of, put_signs
from nekro_core.memory.search.question import SearchQuestion
from nekro_core.memory.search.ranking import MEDIUM, Ranked, WeightedTerm
from nekro_core.memory.search.similar import similar_messages
from nekro_core.memory.search.word_hits import ChatView, Floats, Positions
from nekro_core.store import Store
from nekro_core.system.arrays import NDArray, np

_COMPARED = 1000
_COMPARED_IN_MEDIUM = 300
_COMPARED_IN_LARGE = 100
"""How many messages a search orders by all their features: those whose words fit the question best,
up to `_COMPARED` in chats with up to `_SMALL` messages, `_COMPARED_IN_MEDIUM` in chats with up to
`MEDIUM` messages, and `_COMPARED_IN_LARGE` in larger chats."""
_SMALL = 5000
"""In a chat with at most this many messages, a search lets the sentence encoder encode messages
that are not encoded yet. In a larger chat, only the background task encodes messages."""
_SIMILAR = 300
"""In a chat with more than `_SMALL` and up to `MEDIUM` messages, this many of the messages that are
most similar to the question are ordered too, besides those whose words fit best. Without them, in a
test chat of 20,000 messages, a third of the messages that hold the answers were not ordered at all
(decision 0039)."""
_ENCODED_AT_ONCE = 32
_ENCODE_S = 1.0
"""Seconds after which a search does not let the encoder encode more messages. On an idle machine,
this is enough for 400 messages."""
_MEANS_THE_SAME = 0.25
"""If no message has a word of the question, the search finds something only if the most similar
message has at least this similarity. Once one message fits, by a word or by its similarity, the
result has all ordered messages, best first, even those that do not fit themselves: in trials, such
a message was often the answer."""


@dataclass(frozen=True, slots=True)
class MessageFeatures:
    """Messages and their features.

    Attributes:
        positions: The positions of the messages in the chat.
        seqs: Their sequence numbers in the store.
        fits: Whether each message belongs to the result. The others were only compared.
        features: The features by name (`features.features_of`).
        similarity: The similarity of the question and the most similar of these messages; None if
            the meaning was not compared.
    """

    positions: Positions
    seqs: NDArray[np.int64]
    fits: NDArray[np.bool_]
    features: Mapping[str, Floats]
    similarity: float | None


@dataclass(frozen=True, slots=True)
class OrderedMessages:
    """The result of a search.

    Attributes:
        seqs: The sequence numbers of the messages, best first.
        similarity: See `MessageFeatures`.
    """

    seqs: NDArray[np.int64]
    similarity: float | None = None


class Reranking:
    """Orders messages.

    Args:
        store: The store.
        vectors: Encodes texts; None to compare words alone.
        clock: A monotonic clock.
    """

    def __init__(
        self,
        store: Store,
        vectors: MessageVectors | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._clock = clock
        self._with_vectors: set[ChatKey] = set()

    def compares(self, chat_key: ChatKey) -> bool:
        """Return True if the chat has more than `_SMALL` messages and an earlier search found
        vectors in it."""
        return chat_key in self._with_vectors

    async def order(
        self,
        view: ChatView,
        question: SearchQuestion,
        terms: Sequence[WeightedTerm],
        best: Ranked,
        allowed: NDArray[np.bool_] | None = None,
    ) -> OrderedMessages:
        """Return the messages that fit the question, best first.

        Args:
            view: The chat.
            question: The question.
            terms: Those terms of the question that occur in messages of the chat.
            best: The messages whose words fit the question best, the best first.
            allowed: For each position, whether the asker's filters let the message through; None
                for all.
        """
        ranked = await self.features(view, question, terms, best, allowed)
        if ranked is None:
            return OrderedMessages(np.zeros(0, np.int64))
        meaning = ranked.similarity is not None
        weights = ranking_weights(meaning=meaning, large=view.total > _SMALL)
        scores = scores_of(ranked.features, weights)
        order = np.argsort(-scores, kind="stable")
        return OrderedMessages(ranked.seqs[order[ranked.fits[order]]], ranked.similarity)

    async def features(
        self,
        view: ChatView,
        question: SearchQuestion,
        terms: Sequence[WeightedTerm],
        best: Ranked,
        allowed: NDArray[np.bool_] | None = None,
    ) -> MessageFeatures | None:
        """Compute the features of messages; None if there are none. For the arguments see
        `order`."""
        most = _most_compared(view.total)
        places, fits = best.positions[:most], best.scores[:most] > 0
        if self._vectors is not None and _SMALL < view.total <= MEDIUM:
            similar = await self._similar(view, question, allowed)
            more = similar[~np.isin(similar, places)]
            places = np.concatenate((places, more))
            fits = np.concatenate((fits, np.zeros(len(more), np.bool_)))
        if not len(places):
            return None
        found = await neighbourhood_of(self._store, view, places, self._vectors)
        around = PlacesAround(found, places)
        query = await self._query(view, question, found, places)
        cosines: tuple[Floats, NDArray[np.bool_]] | None = None
        mean_cosine: float | None = None
        if query is not None:
            cosines = _cosines(query, found, around.compared())
            if fits.any() or float(cosines[0].max()) >= _MEANS_THE_SAME:
                fits = np.ones_like(fits)
            if view.total > _SMALL:
                mean_cosine = _mean_cosine(query, found)
        features = features_of(
            question,
            terms,
            found,
            places,
            around,
            cosines,
            total=view.total,
            mean_length=view.mean_length,
            mean_cosine=mean_cosine,
        )
        own = found.index_of(places)
        similarity = None if cosines is None else float(cosines[0][own].max())
        return MessageFeatures(places, found.seqs[own], fits, features, similarity)

    async def _similar(
        self, view: ChatView, question: SearchQuestion, allowed: NDArray[np.bool_] | None
    ) -> Positions:
        """Return the messages that are most similar to the question; none if the encoder cannot be
        used."""
        assert self._vectors is not None
        query = await self._vectors.query(question.text) if question.text.strip() else None
        if query is None:
            return np.zeros(0, np.int64)
        return await similar_messages(self._store, view, self._vectors, query, allowed, _SIMILAR)

    async def _query(
        self, view: ChatView, question: SearchQuestion, found: Neighbourhood, places: Positions
    ) -> NDArray[np.float32] | None:
        """Return the vector of the question; None if no message has a vector, or if the encoder
        cannot be used."""
        if self._vectors is None or not question.text.strip():
            return None
        own = found.index_of(places)
        if view.total <= _SMALL:
            missing = [index for index in own.tolist() if not found.signs[index].any()]
            return await self._encode(view, question, found, missing)
        if found.signs[own].any():
            self._with_vectors.add(view.chat_key)
            return await self._vectors.query(question.text)
        return None

    async def _encode(
        self, view: ChatView, question: SearchQuestion, found: Neighbourhood, missing: Sequence[int]
    ) -> NDArray[np.float32] | None:
        """Compute the vector of the question, and the vectors of messages until `_ENCODE_S` have
        passed. Return the vector of the question; None if the encoder cannot be used."""
        assert self._vectors is not None
        texts = await self._texts(view, found, missing)
        until = self._clock() + _ENCODE_S
        query: NDArray[np.float32] | None = None
        for begin in range(0, max(len(texts), 1), _ENCODED_AT_ONCE):
            some = texts[begin : begin + _ENCODED_AT_ONCE]
            encoded = await self._vectors.encode(question.text, [text for _, text in some])
            if encoded is None:
                return query
            query, signs = encoded
            put_signs(found, [index for index, _ in some], signs)
            if self._clock() >= until:
                break
        return query

    async def _texts(
        self, view: ChatView, found: Neighbourhood, indices: Sequence[int]
    ) -> list[tuple[int, str]]:
        """Return the texts of messages, with their indices. Messages without words are left out."""
        texts: dict[int, str] = {
            each.seq: encoded_text(each.name, each.found.text) for each in view.loose
        }
        seqs = {index: int(found.seqs[index]) for index in indices}
        stored = [seq for seq in seqs.values() if seq not in texts]
        for row in await self._store.messages.rows_numbered(stored):
            texts[row["seq"]] = encoded_text(row["user_name"], terms_in(row).text)
        return [(index, texts[seq]) for index, seq in seqs.items() if texts.get(seq)]


def _most_compared(total: int) -> int:
    if total <= _SMALL:
        return _COMPARED
    return _COMPARED_IN_MEDIUM if total <= MEDIUM else _COMPARED_IN_LARGE


def _cosines(
    query: NDArray[np.float32], found: Neighbourhood, compared: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the similarity of each message and the question, and whether it is known. It is 0 for
    messages that are not compared."""
    signs = found.signs[compared]
    known = np.zeros(len(found.positions), np.bool_)
    known[compared] = signs.any(axis=1)
    cosines = np.zeros(len(known), np.float32)
    cosines[compared] = np.where(known[compared], cosines_of(query, signs), np.float32(0))
    return cosines, known


def _mean_cosine(query: NDArray[np.float32], found: Neighbourhood) -> float | None:
    """Estimate the mean similarity of the question and all messages of a chat, from messages most
    of which are not ordered (`Neighbourhood.others`). The ordered messages would give too high a
    mean, because they were chosen for fitting the question. Return None if none of these messages
    has a vector."""
    known = found.others[found.others.any(axis=1)]
    return float(cosines_of(query, known).mean()) if len(known) else None
