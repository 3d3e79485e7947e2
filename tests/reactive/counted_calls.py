"""Defines a slow computation that records each start and each cancellation."""

from typing import Any

import anyio

from nekro_core.api.reactive import (
    AsyncCell,
    Resources,
)

NOTHING = Resources()


class CountedCalls:
    """Cooks dishes, each in 10 ms. ``started`` and ``cancelled`` list the calls. A dish with
    "burnt" in its name raises an error."""

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
    """Return whether a cell is pending, its result, and the text of its error."""
    state = output.state
    return (state.pending, state.result, str(state.error or ""))
