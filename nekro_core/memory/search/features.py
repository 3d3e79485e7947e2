"""Computes the features of messages, and from them the scores by which a search orders messages.

A feature is a number about a question and a message: for example, how well the question fits the
words of the previous message, or 1 if the question asks for a time and the message contains a time.
The score of a message is the sum of its features, each multiplied by its weight.
``ranking_weights.toml`` has the weights; ``python -m tests.memory.learn_ranking --write`` learns
them from conversations.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from nekro_core.memory.search.answers import MESSAGE_TRAITS, asked_for
from nekro_core.memory.search.dates import Span
from nekro_core.memory.search.neighbourhood import AFTER, BEFORE, Neighbourhood
from nekro_core.memory.search.question import SearchQuestion
from nekro_core.memory.search.ranking import WeightedTerm, saturated
from nekro_core.memory.search.word_hits import Floats, Positions
from nekro_core.store.search_pages import counts
from nekro_core.system.arrays import NDArray, np

_BEFORE = range(-8, -2)
"""The feature `similar_before` is the mean similarity of the messages at these distances from the
message: -8 is the eighth message before it."""
_BEST_AROUND = range(-8, 3)
"""The feature `similar_best` is the highest similarity of the messages at these distances. They
include the distances of all other `similar_` features."""
_COVERED = {
    "words_within_2": range(-2, 2),
    "words_within_8": range(-8, 5),
    "words_within_10": range(-10, 7),
}
"""Features that add the weights of all terms of the question that the message or one of its
neighbours has. For each feature: the distances of these messages from the message."""
_ALL_POWER = 4
"""The feature `words_all` is the share of the question's terms that the message has, to this power:
1 for all terms, and 0.06 for half of them."""
_LEAST_SCORE = 3.0
"""All features of words except `words_all` are divided by the highest `words_near` of all messages,
but at least by this number, which is about the score of a message with one rare term. So if the
words of no message fit well, no message gets a high number."""
_SAID_ABOUT_S = 4 * 86_400.0
"""The feature `time_near` is 1 for a message that was written at most this many seconds before or
after a time that the question names."""

Matrix: TypeAlias = "NDArray[np.float32]"
Cube: TypeAlias = "NDArray[np.float32]"
"""Arrays of numbers: `Matrix` has two dimensions, `Cube` has three."""


class PlacesAround:
    """Gets values of the messages that were written before and after some messages.

    Args:
        found: The data of the messages and of their neighbours.
        places: The positions of the messages in the chat (`nekro_core.store.search_index`).
    """

    def __init__(self, found: Neighbourhood, places: Positions) -> None:
        self._indices = found.around(places)
        self._size = len(found.positions)

    def compared(self) -> NDArray[np.int64]:
        """Return the indices in ``found`` of the messages whose meaning is compared with that of
        the question, because a feature needs their similarity."""
        used = np.zeros(self._size + 1, np.bool_)
        used[self._indices[BEFORE + _BEST_AROUND.start : BEFORE + _BEST_AROUND.stop]] = True
        return np.flatnonzero(used[: self._size])

    def at(self, values: Floats, distance: int) -> Floats:
        """Return, for each of the messages, the value of the message at this distance; 0 where
        there is no such message. ``values`` has a number for each message of ``found``."""
        return np.asarray(self.all(values, range(distance, distance + 1))[0], np.float32)

    def all(self, values: NDArray[np.float32], distances: range) -> NDArray[np.float32]:
        """Return a row for each distance, with the values that `at` returns for it. If ``values``
        has several rows, the result has such rows of distances for each row of ``values``."""
        indices = self._indices[BEFORE + distances.start : BEFORE + distances.stop]
        nowhere = np.zeros((*values.shape[:-1], 1), np.float32)
        return np.asarray(np.concatenate((values, nowhere), axis=-1)[..., indices], np.float32)


def features_of(
    question: SearchQuestion,
    terms: Sequence[WeightedTerm],
    found: Neighbourhood,
    places: Positions,
    around: PlacesAround,
    cosines: tuple[Floats, NDArray[np.bool_]] | None,
    *,
    total: int,
    mean_length: float,
    mean_cosine: float | None = None,
) -> Mapping[str, Floats]:
    """Compute the features of messages.

    Args:
        question: The question.
        terms: Those terms of the question that occur in messages of the chat.
        found: The data of the messages and of their neighbours.
        places: The positions of the messages.
        around: Gets values of the neighbours.
        cosines: The similarity of the question and each message of ``found``, and whether this
            similarity is known; None if the meaning is not compared.
        total: The number of positions of the chat.
        mean_length: The mean number of terms of a message.
        mean_cosine: The mean similarity of the question and the messages of the chat; None if all
            messages of the chat are in ``places``.
    """
    own = found.index_of(places)
    features = _of_words(terms, found, around, found.lengths[own], mean_length)
    if cosines is not None:
        features |= _of_meaning(*cosines, own, around, mean_cosine)
    return features | _of_answers(question, found, places, around, total, mean_length)


def _of_words(
    terms: Sequence[WeightedTerm],
    found: Neighbourhood,
    around: PlacesAround,
    lengths: NDArray[np.uint8],
    mean_length: float,
) -> dict[str, Floats]:
    long = lengths.astype(np.float32)
    asked = [each for each in terms if not (each.of_author or each.related)]
    related = [each for each in terms if each.related]
    authors = [each for each in terms if each.of_author]
    of_asked, of_related = _counts(asked, found, around), _counts(related, found, around)
    of_authors = _weights(authors) * _counts(authors, found, around)[:, BEFORE]
    own, beside = _at(of_asked, 0), _at(of_asked, -1) + _at(of_asked, 1)
    further = _at(of_asked, -2) + _at(of_asked, 2)
    far = _at(of_asked, -4) + _at(of_asked, -3) + further + _at(of_asked, 3) + _at(of_asked, 4)
    related_further = _at(of_related, -2) + _at(of_related, 2)
    related_near = _at(of_related, -1) + _at(of_related, 1) + 0.5 * related_further
    some = {
        "words_own": (asked, own),
        "words_near": (asked, 1.5 * own + 0.5 * beside + 0.2 * far),
        "words_before": (asked, _at(of_asked, -1)),
        "words_long_before": (asked, _at(of_asked, -3) + _at(of_asked, -4)),
        "words_related": (related, _at(of_related, 0)),
        "words_related_near": (related, related_near),
    }
    sums = {
        name: _sum(each, saturated(count, long, mean_length))
        for name, (each, count) in some.items()
    }
    for name, distances in _COVERED.items():
        rows = of_asked[:, BEFORE + distances.start : BEFORE + distances.stop]
        sums[name] = _sum(asked, np.asarray((rows > 0).any(axis=1)))
    best = max(float(sums["words_near"].max(initial=0.0)), _LEAST_SCORE)
    whole = max(sum(each.weight for each in asked), 1e-6)
    return {
        "author_named": of_authors.max(axis=0, initial=0.0),
        "words_all": (_sum(asked, own > 0) / np.float32(whole)) ** _ALL_POWER,
        **{name: each / best for name, each in sums.items()},
    }


def _counts(terms: Sequence[WeightedTerm], found: Neighbourhood, around: PlacesAround) -> Cube:
    """Return how often each term occurs in each message and in its neighbours: for each term, one
    row for each distance from `BEFORE` messages before to `AFTER` messages after the message."""
    often = np.zeros((len(terms), len(found.positions)), np.float32)
    for row, term in enumerate(terms):
        has, postings = term.hits.at(found.positions)
        np.copyto(often[row], counts(postings), where=has)
    return around.all(often, range(-BEFORE, AFTER + 1))


def _at(of_terms: Cube, distance: int) -> Matrix:
    return of_terms[:, BEFORE + distance]


def _weights(terms: Sequence[WeightedTerm]) -> Matrix:
    return np.array([each.weight for each in terms], np.float32)[:, None]


def _sum(terms: Sequence[WeightedTerm], values: NDArray[Any]) -> Floats:
    """Return the sum of the rows, each multiplied by the weight of its term."""
    return np.asarray((_weights(terms) * values).sum(axis=0), np.float32)


def _of_meaning(
    cosines: Floats,
    known: NDArray[np.bool_],
    own: NDArray[np.int64],
    around: PlacesAround,
    mean: float | None,
) -> dict[str, Floats]:
    """Compute the features of meaning. The similarities are scaled: the mean similarity becomes 0,
    and that of the most similar message becomes 1. An unknown similarity counts as the mean."""
    of_own = cosines[own][known[own]]
    if mean is None:
        mean = float(of_own.mean()) if len(of_own) else 0.0
    best = float(of_own.max()) - mean if len(of_own) else 0.0
    above = np.where(known, (cosines - mean) / max(best, 1e-6), 0).astype(np.float32)
    return {
        "similar_own": around.at(above, 0),
        "similar_1_before": around.at(above, -1),
        "similar_2_before": around.at(above, -2),
        "similar_1_after": around.at(above, 1),
        "similar_2_after": around.at(above, 2),
        "similar_before": around.all(above, _BEFORE).mean(axis=0),
        "similar_best": around.all(above, _BEST_AROUND).max(axis=0),
    }


def _of_answers(
    question: SearchQuestion,
    found: Neighbourhood,
    places: Positions,
    around: PlacesAround,
    total: int,
    mean_length: float,
) -> dict[str, Floats]:
    own = found.index_of(places)
    has = {
        name: (found.traits[own] >> bit & 1).astype(np.float32)
        for bit, name in enumerate(MESSAGE_TRAITS)
    }
    number = np.maximum(has["digit"], has["number_word"])
    wants = {name: np.float32(1) for name in asked_for(question.text)}

    def wanted(name: str, what: Floats) -> Floats:
        return wants.get(name, np.float32(0)) * what

    lengths = np.log1p(found.lengths[own].astype(np.float32)) / np.log1p(np.float32(mean_length))
    times = found.times[own]
    age = (places / max(total, 1)).astype(np.float32)
    asks = (found.traits & 1).astype(np.float32)
    return {
        "length": np.minimum(lengths, np.float32(1.5)),
        "asks": has["question"],
        "answers": around.at(asks, -1),
        "digit": has["digit"],
        "time_named": within(times, question.spans).astype(np.float32),
        "time_near": within(times, question.spans, _SAID_ABOUT_S).astype(np.float32),
        "money_for_money": wanted("money", has["money"]),
        "digit_for_money": wanted("money", has["digit"]),
        "number_for_amount": wanted("amount", number),
        "time_for_time": wanted("time", has["time"]),
        "number_for_time": wanted("time", number),
        "place_for_place": wanted("place", has["place"]),
        "name_for_person": np.maximum(wanted("place", has["name"]), wanted("person", has["name"])),
        "reason_for_reason": wanted("reason", has["reason"]),
        "early_for_earlier": wanted("earlier", 1 - age),
        "late_for_later": wanted("later", age),
    }


def within(
    times: NDArray[np.float64], spans: Sequence[Span], more: float = 0.0
) -> NDArray[np.bool_]:
    """Return whether each time is in one of the spans, or at most ``more`` seconds away."""
    found = np.zeros(len(times), np.bool_)
    for since, until in spans:
        found |= (times >= since - more) & (times < until + more)
    return found


def scores_of(features: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
    """Return the scores of the messages."""
    parts = [np.float32(weights[name]) * each for name, each in features.items()]
    return np.asarray(np.sum(parts, axis=0), np.float32)


_IN_LARGE = {"words_": 1.7, "author_": 0.4}
"""In a search with meaning in a large chat, the weights of features whose names begin in this way
are multiplied by these factors. In a large chat, words tell more than meaning, because more
messages are similar to any question by chance. A name is rarer among so many messages than in the
small chats from which the weights were learnt, so its idf, and with it the feature, is higher. The
factors were chosen with the questions of the small chats, asked in a chat of 20,000 messages
(decision 0039)."""


@cache
def ranking_weights(*, meaning: bool, large: bool = False) -> Mapping[str, float]:
    """Return the weight of each feature, for a search with or without meaning, in a small or in a
    large chat."""
    if meaning and large:
        return {
            name: weight
            * next((by for begin, by in _IN_LARGE.items() if name.startswith(begin)), 1.0)
            for name, weight in ranking_weights(meaning=True).items()
        }
    text = (files("nekro_core.memory.search") / "ranking_weights.toml").read_text("utf-8")
    weights: dict[str, float] = tomllib.loads(text)["with_meaning" if meaning else "by_words"]
    return weights
