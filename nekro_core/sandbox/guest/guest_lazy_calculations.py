"""Makes the functions of `guest_calculations` builtins, in the runs of small models. Their modules
are imported at the first call, because most of these runs call none of them.

As builtins they give way to a tool or a variable of the same name.
"""

from __future__ import annotations

import builtins

TYPE_CHECKING = False  # not imported from `typing`, whose import takes 4 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DATES = (
    "today",
    "clock",
    "weekday",
    "days_until",
    "days_since",
    "days_between",
    "date_after",
    "years_since",
    "days_in",
    "time_after",
    "minutes_between",
)
NUMBERS = (
    "convert",
    "percent_of",
    "average_of",
    "sqrt",
    "factorial",
    "count_in",
    "letters_in",
    "words_in",
    "reverse_text",
)


def install() -> None:
    """Make the functions builtins."""
    for name in (*DATES, *NUMBERS):
        setattr(builtins, name, _deferred(name))


def _deferred(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        import guest_calculations

        return guest_calculations.functions()[name](*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call
