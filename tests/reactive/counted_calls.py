"""Something to compute, whose every attempt is written down."""

from typing import Any

import anyio

from nekro_core.api.reactive import (
    AsyncCell,
    Resources,
)

NOTHING = Resources()


class CountedCalls:
    """Cooks dishes: each takes a second, and the list shows what was started and what was thrown
    away. Burnt toast is an error."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []

    async def run(self, item: str, times: int = 1) -> str:
        self.started.append(item)
        try:
            await anyio.sleep(0.01)
        except BaseException:
            self.cancelled.append(item)
            raise
        if "burnt" in item:
            raise ValueError(f"{item}!")
        return f"hot {item}" * times


def of(output: AsyncCell[Any]) -> tuple[bool, Any, str]:
    """All of a cell, at once."""
    state = output.state
    return (state.pending, state.result, str(state.error or ""))
