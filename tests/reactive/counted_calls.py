"""Something to compute, whose every attempt is written down."""

from typing import Any

import anyio

from nekro_core.api.reactive import (
    AsyncCell,
    Resources,
)

NOTHING = Resources()


class Kitchen:
    """Cooks dishes: each takes a second, and the list shows what was begun and what was thrown
    away. Burnt toast is an error."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.thrown_away: list[str] = []

    async def cook(self, dish: str, times: int = 1) -> str:
        self.begun.append(dish)
        try:
            await anyio.sleep(0.01)
        except BaseException:
            self.thrown_away.append(dish)
            raise
        if "burnt" in dish:
            raise ValueError(f"{dish}!")
        return f"hot {dish}" * times


def of(meal: AsyncCell[Any]) -> tuple[bool, Any, str]:
    """All of a cell, at once."""
    state = meal.state
    return (state.pending, state.result, str(state.error or ""))
