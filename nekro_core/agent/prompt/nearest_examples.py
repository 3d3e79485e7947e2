"""Finds the worked examples that are most like a question.

A small model continues patterns, so it answers best when the last lines before the question show
the right pattern. Two texts are alike if they share rare words (in Chinese and Japanese: rare
characters and pairs of them). A number is like any other number. What is quoted, or follows a
colon, is what the answer is about and not what is asked for, so it does not count.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nekro_core.tools.tool import Example

_WORD = re.compile(r"[^\W\d_]+(?:['’][a-z]+)?|\d[\d.,]*|[-+*/×÷=%()“:]")
_QUOTED = re.compile(r"(?<!\w)['‘].+?['’](?!\w)|[\"“「『].+?[\"”」』]")
_AFTER_COLON = re.compile(r"(?<=\S{4})\s*[:：](?!\d).+", re.DOTALL)
_NUMBER = "0"
_ROOT = 4
"""Number of first letters that words of one root share: talk and talked, summer and summary."""
_LEAST_LIKE = 0.1
"""An example that is less like the question, from 0 to 1, is left out."""
_MAX_TEXT = 300
"""Maximum number of characters of a question that are compared: what is asked for is at its
beginning or at its end."""


class NearestExamples:
    """The examples of one language, ready to be compared with questions."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples
        self._called = [each.code.partition("(")[0] for each in examples]
        self._features = [Counter(_features(each.says)) for each in examples]
        held = Counter(feature for each in self._features for feature in each)
        self._weights = {
            feature: math.log(1 + len(examples) / number) for feature, number in held.items()
        }
        self._lengths = [self._length(each) for each in self._features]

    def of(self, question: str, most: int) -> list[Example]:
        """Return the examples that are like the question, at most ``most``. Those that call the
        same function stand together, the function with the greatest likeness of all last; of each
        function, the most similar one is last."""
        wanted = Counter(_features(_ends(question)))
        length = self._length(wanted)
        if not length:
            return []
        scored = []
        for place, features in enumerate(self._features):
            shared = sum(
                min(number, wanted[feature]) * self._weights[feature] ** 2
                for feature, number in features.items()
                if feature in wanted
            )
            if shared and (like := shared / (length * self._lengths[place])) > _LEAST_LIKE:
                scored.append((like, -place))
        best = sorted(scored, reverse=True)[:most]
        likeness: dict[str, float] = {}
        for like, place in best:
            name = self._called[-place]
            likeness[name] = likeness.get(name, 0.0) + like
        in_order = sorted(best, key=lambda each: (likeness[self._called[-each[1]]], each))
        return [self._examples[-place] for _, place in in_order]

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
    asked = _AFTER_COLON.sub(" : ", _QUOTED.sub(" “ ", text.casefold()))
    for word in _WORD.findall(asked):
        if word[0].isdecimal():
            parts = [_NUMBER]
        elif word[0].isascii():
            parts = [word]
            if len(word) > _ROOT:
                yield f"{word[:_ROOT]}-"
        else:
            parts = list(word)
        for part in parts:
            yield part
            yield f"{before} {part}"
            before = part
