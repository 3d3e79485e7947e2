"""Guesses from the words of worked examples which function a question is about.

A feature of a question is a word or a pair of neighbouring words. Each feature raises the score of
the functions in whose examples it is frequent, and lowers the score of the other functions. The
share of a function's examples that have the feature decides this, not their number. So a function
with few examples can get a higher score than one with many.
"""

import math
from collections.abc import Iterable, Mapping

_UNKNOWN = 0.1
"""A feature that no example of a function has is counted as if the function had it at this share of
the average rate. Otherwise a single feature would exclude the function."""
_SHRINKS_BY = 3
"""This number is added to a function's number of examples. Otherwise each word of a function's only
example would count as a word of all its examples."""


def function_scores(
    examples: Mapping[str, int], held: Iterable[Mapping[str, int]]
) -> dict[str, float]:
    """Return for each function how well a question fits it, as a logarithm. Only differences
    between the numbers have a meaning.

    ``examples`` has the number of examples of each function. For each feature of the question,
    ``held`` has the number of examples of each function that have this feature.
    """
    scores = dict.fromkeys(examples, 0.0)
    for having in held:
        rates = {
            name: having.get(name, 0) / (number + _SHRINKS_BY) for name, number in examples.items()
        }
        usual = sum(rates.values()) / len(rates)
        for name, rate in rates.items():
            scores[name] += math.log((1 - _UNKNOWN) * rate / usual + _UNKNOWN)
    return scores
