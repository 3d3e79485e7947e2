"""Functions for sums, counts, dates and units, which the code of small models can call.

The code of a small model is one call with an expression in its text:
``send_channel_message(f"{days_until('Christmas')} days")``. Such a model copies a word from the
question more reliably than it computes. `guest_lazy_calculations` makes the functions builtins, and
imports this module at the first call of one.
"""

from __future__ import annotations

import sys
from datetime import datetime

import guest_lazy_calculations
from guest_dates import Calendar
from guest_units import convert, tidy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST_FACTORIAL = 1000


def percent_of(share: float, whole: float) -> int | float:
    """So many percent of a number: ``percent_of(15, 80)`` is 12."""
    return tidy(whole * share / 100)


def average_of(*numbers: float) -> int | float:
    """The mean of some numbers."""
    if not numbers:
        raise ValueError("average_of() got no numbers: give at least one")
    return tidy(sum(numbers) / len(numbers))


def sqrt(number: float) -> int | float:
    """The square root of a number."""
    if number < 0:
        raise ValueError(f"sqrt({number}): a negative number has no real square root")
    return tidy(number**0.5)


def factorial(number: int) -> int:
    """The product of the numbers from 1 to a number."""
    if not 0 <= number <= _MOST_FACTORIAL:
        raise ValueError(f"factorial({number}): expected 0 to {_MOST_FACTORIAL}")
    product = 1
    for factor in range(2, number + 1):
        product *= factor
    return product


def count_in(what: str, text: str) -> int:
    """How often a letter or a word occurs in a text, without regard to case. ``vowels`` counts the
    vowels."""
    found, within = what.strip().lower(), text.lower()
    if found in ("vowel", "vowels", "元音", "母音"):
        return sum(letter in "aeiou" for letter in within)
    if found in ("consonant", "consonants", "辅音", "子音"):
        return sum("a" <= letter <= "z" and letter not in "aeiou" for letter in within)
    if len(found) > 1 and found.isascii() and " " in within:
        return [each.strip(".,;:!?\"'()") for each in within.split()].count(found)
    return within.count(found) if found else 0


def letters_in(text: str) -> int:
    """How many letters, characters of Chinese or Japanese, and digits a text has."""
    return sum(map(str.isalnum, text))


def words_in(text: str) -> int:
    """How many words a text has, divided by spaces."""
    return len(text.split())


def reverse_text(text: str) -> str:
    """The text from its end to its beginning."""
    return text[::-1]


def functions(now: Callable[[], datetime] | None = None) -> dict[str, Callable[..., Any]]:
    """Return all functions by name. ``now`` gives the local time; without it, the machine does."""
    dates = Calendar(now or _local_time)
    own = (
        *(convert, percent_of, average_of, sqrt, factorial),
        *(count_in, letters_in, words_in, reverse_text),
    )
    found: dict[str, Callable[..., Any]] = {each.__name__: each for each in own}
    return found | {name: getattr(dates, name) for name in guest_lazy_calculations.DATES}


def _local_time() -> datetime:
    """The time in the zone that the host named; without one, in the machine's zone."""
    name = vars(sys.modules["__main__"]).get("__time_zone__", "")
    if not name:
        return datetime.now()  # noqa: DTZ005 - the machine's zone
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return datetime.now(ZoneInfo(name)).replace(tzinfo=None)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a machine without the list of zones
        return datetime.now()  # noqa: DTZ005 - as above
