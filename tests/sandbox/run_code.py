"""Runs code in a box with one call, and records the calls of its tools."""

import textwrap
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nekro_core.sandbox.box import (
    Answer,
    Box,
    CallReturn,
    GuestCall,
    GuestFunction,
    GuestValue,
    RunLimits,
    RunResult,
)

QUICK = RunLimits(seconds=30)


@dataclass
class Tools:
    """Host functions by name. A plain value is the answer itself; a function computes the
    answer."""

    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[GuestCall] = field(default_factory=list)

    async def handle(self, call: GuestCall) -> Answer:
        self.calls.append(call)
        answer = self.answers[call.name]
        if callable(answer):
            answer = answer(call)
        if isinstance(answer, Awaitable):
            answer = await answer
        return answer if isinstance(answer, Answer) else CallReturn(answer)

    @property
    def functions(self) -> list[GuestFunction]:
        return [GuestFunction(names=(name,)) for name in self.answers]

    @property
    def asked(self) -> list[tuple[Any, ...]]:
        """The positional arguments of every call."""
        return [call.args for call in self.calls]


async def play(
    box: Box,
    code: str,
    limits: RunLimits = QUICK,
    tools: Tools | None = None,
    values: Sequence[GuestValue] = (),
    **answers: Any,
) -> RunResult:
    """Run dedented code to its end."""
    tools = tools or Tools(answers)
    run = await box.start_run([*tools.functions, *values], tools.handle, limits)
    await run.feed(textwrap.dedent(code), 1)
    return await run.finish()
