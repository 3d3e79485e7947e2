"""Finds the worked examples that are most like a question.

A small model continues patterns, so it answers best when the last lines before the question show
the right pattern. Two texts are alike if they share rare words (in Chinese and Japanese: rare
characters and pairs of them). A number is like any other number.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nekro_core.tools.tool import Example

_WORD = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
_NUMBER = "0"
_MAX_TEXT = 300
"""Maximum number of characters of a question that are compared: what is asked for is at its
beginning or at its end."""


class NearestExamples:
    """The examples of one language, ready to be compared with questions."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples
        self._features = [Counter(_features(each.says)) for each in examples]
        held = Counter(feature for each in self._features for feature in each)
        self._weights = {
            feature: math.log(1 + len(examples) / number) for feature, number in held.items()
        }
        self._lengths = [self._length(each) for each in self._features]

    def of(self, question: str, most: int, *, without: Sequence[Example] = ()) -> list[Example]:
        """Return the examples that are like the question, at most ``most``, the most similar one
        last. Those in ``without`` are left out, and those that share nothing with the question."""
        wanted = Counter(_features(_ends(question)))
        length = self._length(wanted)
        if not length:
            return []
        left_out = {each.says for each in without}
        scored = []
        for place, features in enumerate(self._features):
            shared = sum(
                min(number, wanted[feature]) * self._weights[feature] ** 2
                for feature, number in features.items()
                if feature in wanted
            )
            if shared and self._examples[place].says not in left_out:
                scored.append((shared / (length * self._lengths[place]), -place))
        best = sorted(scored, reverse=True)[:most]
        return [self._examples[-place] for _, place in reversed(best)]

    def _length(self, features: Mapping[str, int]) -> float:
        return math.sqrt(
            sum(
                number * self._weights.get(feature, 0.0) ** 2
                for feature, number in features.items()
            )
        )


def _ends(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[: _MAX_TEXT // 2]} {text[-_MAX_TEXT // 2 :]}"


def _features(text: str) -> Iterator[str]:
    before = "^"
    for word in _WORD.findall(text.casefold()):
        if word[0].isdecimal():
            parts = [_NUMBER]
        elif word.isascii():
            parts = [word]
        else:
            parts = list(word)
        for part in parts:
            yield part
            yield f"{before} {part}"
            before = part
    yield f"{before} $"
