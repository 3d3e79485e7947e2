"""Guesses from the words of worked examples which function a question is about.

Each feature of a question (a word, a pair of words) speaks for the functions in whose examples it
is frequent, and against the others. What counts is its share of a function's examples, so a
function with few examples can win against one with many.
"""

import math
from collections.abc import Iterable, Mapping

_UNKNOWN = 0.1
"""Share of a feature's usual rate that each function gets, so that one feature that is missing in
the examples of a function does not exclude this function."""
_SHRINKS_BY = 3
"""A function's number of examples counts as larger by this number. Otherwise a function with a
single example would have each word of it in all its examples."""


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
