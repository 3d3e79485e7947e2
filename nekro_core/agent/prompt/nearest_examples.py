"""Finds the worked examples that are most like a question, and the functions that the question can
be about.

A small model continues patterns, so it answers best when the last lines before the question show
the right pattern. Two texts are alike if they share rare words (in Chinese and Japanese: rare
characters and pairs of them). All numbers are treated as the same word. Text in quotation marks or
after a colon is material for the answer, such as the words to translate. It does not show which
function is meant, so it is not compared. Among the examples of the function that is meant, an
example that quotes words of the question is preferred: it may contain the translation of these
words.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nekro_core.agent.prompt.likely_functions import function_scores
from nekro_core.tools.tool import Example

_WORD = re.compile(r"[^\W\d_]+|\d[\d.,]*|[-+*/=%()“:]")
_APOSTROPHE = re.compile(r"(?<=[a-z])['’](?=[a-z])")
"""An apostrophe inside a word. It is removed, because many people write "dont" and "whats"."""
_QUOTED = re.compile(r"(?<!\w)['‘].+?['’](?!\w)|[\"“「『].+?[\"”」』]")
_AFTER_COLON = re.compile(r"(?<=\S{4})\s*[:：](?!\d).+", re.DOTALL)
_LETTERS = re.compile(r"\w+")
_KATAKANA = re.compile("[゠-ヿ]")
"""Characters of the Japanese syllabary katakana. They spell names and foreign words, so a single
one does not show what a question is about. Only pairs of them are compared."""
_SAME_SIGNS = str.maketrans("×÷", "*/")
_DIGITS = re.compile(r"\d+")
_NUMBER = "0"
_MANY_NUMBERS = 3
"""A question with at least this many numbers counts as having one more word, which all such
questions share, because it is usually about a chart or a sum."""
_ROOT = 4
"""Two words that begin with the same letters, this many, count as related, such as talked and
talking, but also summer and summary."""
_LEAST_LIKE = 0.1
"""Examples whose likeness to the question, from 0 to 1, is not greater than this are left out."""
_SURE_LIKE = 0.3
"""If the most similar example is less like the question than this, the question can be about any
function. In the sets of questions that were used for development, the right function was always
among the likely functions if the likeness was greater."""
_SURE_FEATURES = 4
"""If fewer features (words, roots, pairs) of the question than this occur in examples, the question
can be about any function, too."""
_VOTERS = 8
"""Number of the most similar examples that vote for their function."""
_GUESS_SHARE = 0.7
"""Weight of the scores of `function_scores`, which estimate from all words of the question which
functions it can mean. The votes of the similar examples have the weight 1."""
_GUESS_SPREAD = 4.0
"""The scores of `function_scores` are divided by this number. They add up the words as if these
were independent of each other, which neighbouring words are not. So the scores differ more than
they should."""
_SAME_QUOTE = 1.5
"""Maximum number that is added to the likeness of an example that quotes words of the question."""
_SHORT_QUOTE = 5
"""A quote with this number of characters adds half of `_SAME_QUOTE`. A longer quote adds more."""
_MAX_TEXT = 300
"""Maximum number of characters of a question that are compared: what is asked for is at its
beginning or at its end."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The examples that are like a question, and the functions that the question can be about.

    Attributes:
        examples: The examples that are like the question. Examples that call the same function
            stand together. The examples of the most likely function are last, and among the
            examples of a function the most similar one is last.
        functions: The names of the functions that the question can be about; empty if the question
            can be about any function.
    """

    examples: Sequence[Example]
    functions: frozenset[str]


class NearestExamples:
    """The examples of one language, ready to be compared with questions."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples
        self._called = [each.code.partition("(")[0] for each in examples]
        self._numbers = Counter(self._called)
        held: dict[str, list[int]] = {}
        for place, example in enumerate(examples):
            for feature in _features(example.says):
                held.setdefault(feature, []).append(place)
        # For each feature, an array holds the indices of the examples that have it. A dictionary of
        # features for each example would take ten times the memory.
        self._held = {feature: array("I", places) for feature, places in held.items()}
        squares = [0.0] * len(examples)
        for feature, places in held.items():
            square = self._weight(feature) ** 2
            for place in places:
                squares[place] += square
        self._lengths = [math.sqrt(each) for each in squares]

    def of(self, question: str, most: int) -> Nearest:
        """Return at most ``most`` examples that are like the question, and the functions that the
        question can be about."""
        wanted = Counter(each for each in _features(_ends(question)) if each in self._held)
        likeness = self._likeness(wanted)
        if not likeness:
            return Nearest((), frozenset())
        scores = function_scores(
            self._numbers,
            (Counter(self._called[place] for place in {*self._held[each]}) for each in wanted),
        )
        rank = self._rank(likeness, scores)
        likeliest = max(rank, key=lambda name: rank[name])
        asked = _spaced(question)
        alike: dict[int, float] = {}
        for place, like in likeness.items():
            same = self._called[place] == likeliest
            alike[place] = like + (_same_quote(self._examples[place].says, asked) if same else 0)
        best = sorted(
            alike, key=lambda place: (alike[place] * (1 + rank[self._called[place]]), -place)
        )[-most:]
        best.sort(key=lambda place: (rank[self._called[place]], alike[place], -place))
        least = max(scores.values()) - _GUESS_SPREAD
        functions = {self._called[place] for place in best}
        functions |= {name for name, score in scores.items() if score >= least}
        sure = max(likeness.values()) >= _SURE_LIKE and len(wanted) >= _SURE_FEATURES
        return Nearest(
            [self._examples[place] for place in best], frozenset(functions if sure else ())
        )

    def _weight(self, feature: str) -> float:
        return math.log(1 + len(self._examples) / len({*self._held[feature]}))

    def _likeness(self, wanted: Mapping[str, int]) -> dict[int, float]:
        """Return the likeness of examples to the question, from 0 to 1. Examples with a likeness of
        at most `_LEAST_LIKE` are left out. ``wanted`` has the features of the question."""
        shared: dict[int, float] = {}
        square = 0.0
        for feature, number in wanted.items():
            weight = self._weight(feature) ** 2
            square += number * weight
            for place, times in Counter(self._held[feature]).items():
                shared[place] = shared.get(place, 0.0) + min(number, times) * weight
        length = math.sqrt(square)
        likeness = {place: each / (length * self._lengths[place]) for place, each in shared.items()}
        return {place: like for place, like in likeness.items() if like > _LEAST_LIKE}

    def _rank(
        self, likeness: Mapping[int, float], scores: Mapping[str, float]
    ) -> Mapping[str, float]:
        """Return for each function how likely it is that the question means it. The result adds the
        votes of the most similar examples (``likeness``) and the scores from all words of the
        question (``scores``)."""
        voters = sorted(likeness, key=lambda place: likeness[place])[-_VOTERS:]
        whole = sum(likeness[place] for place in voters)
        best = max(scores.values())
        guesses = {name: math.exp((score - best) / _GUESS_SPREAD) for name, score in scores.items()}
        rank = {
            name: _GUESS_SHARE * guess / sum(guesses.values()) for name, guess in guesses.items()
        }
        for place in voters:
            rank[self._called[place]] += likeness[place] / whole
        return rank


def _same_quote(says: str, asked: str) -> float:
    """Return the number to add to the likeness of an example. It is 0 if the example quotes no
    words of the question, and greater for a longer quote."""
    for quote in _QUOTED.findall(says):
        words = _spaced(quote)
        length = len(words.strip())
        if length and (words if words.isascii() else words.strip()) in asked:
            return _SAME_QUOTE * length / (length + _SHORT_QUOTE)
    return 0.0


def _spaced(text: str) -> str:
    """Return the words of a text with one space before and after each."""
    return f" {' '.join(_LETTERS.findall(text.casefold()))} "


def _ends(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT // 2]} {text[-_MAX_TEXT // 2 :]}"


def _features(text: str) -> Iterator[str]:
    if len(_DIGITS.findall(text)) >= _MANY_NUMBERS:
        yield _NUMBER * _MANY_NUMBERS
    before = "^"
    asked = _AFTER_COLON.sub(" : ", _QUOTED.sub(" “ ", text.casefold().translate(_SAME_SIGNS)))
    for word in _WORD.findall(_APOSTROPHE.sub("", asked)):
        if word[0].isdecimal():
            parts = [_NUMBER]
        elif word[0].isascii():
            parts = [word]
            if len(word) > _ROOT:
                yield f"{word[:_ROOT]}-"
        else:
            parts = list(word)
        for part in parts:
            if not _KATAKANA.match(part):
                yield part
            yield f"{before} {part}"
            before = part
