"""What is kept of a run's calls."""

import json
from typing import Any

import pytest

from nekro_core.agent.run_calls import RunCalls
from nekro_core.sandbox.box import GuestCall, Raise
from nekro_core.tools.names import ToolSet
from tests.agent.test_native_parts import context

LARGE = "a" * 1_000_000


@pytest.mark.parametrize(
    ("args", "kwargs", "kept"),
    [
        ((1, "two"), {"three": None}, '{"args": [1, "two"], "three": null}'),
        ((b"\0" * 1_000_000,), {}, '{"args": ["<bytes of 1000000 bytes>"]}'),
        ((LARGE,), {}, None),
        (([[LARGE, {"deep": [LARGE] * 9}]],), {}, None),
        ((), {LARGE: LARGE}, None),
        (([0] * 1_000_000,), {}, None),
        (({str(number): number for number in range(100_000)},), {}, None),
        (([["a" * 1999] * 100] * 100,), {}, None),
    ],
)
async def test_of_arguments_only_so_much_as_people_read(
    args: tuple[Any, ...], kwargs: dict[str, Any], kept: str | None
) -> None:
    """The guest chooses them: 1,000 calls of 16 MB were 17 GB of the host's memory."""
    calls = RunCalls(ToolSet(()), context(), note=None, clock=float, wall=float)  # type: ignore[arg-type]
    answer = await calls.answer(GuestCall(name="nothing", args=args, kwargs=kwargs))
    assert isinstance(answer, Raise)
    (made,) = calls.made
    assert len(made.arguments) < 16_384
    if kept is not None:
        assert made.arguments == kept
        json.loads(made.arguments)
