"""Runs the bot without recording what the model was shown. `bench.console_recording` uses it as the
baseline and starts it like ``bot.py``."""

import sys
from collections.abc import Awaitable, Collection, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from nekro_core.agent.shown.watch import StepWatch
from nekro_core.app.server import run
from nekro_core.store.database import SqlStatement
from nekro_core.store.prompts import PromptPart, PromptRepository, PromptRow


def _describe(*_: object) -> tuple[str, list[PromptPart]]:
    return "", []


def _add(
    self: PromptRepository,
    row: PromptRow,  # noqa: ARG001
    parts: Collection[PromptPart],  # noqa: ARG001
    *,
    beside: Sequence[SqlStatement] = (),
) -> Awaitable[object]:
    return self._database.write(*beside)


if __name__ == "__main__":
    StepWatch.describe = _describe  # type: ignore[method-assign, assignment]
    PromptRepository.add = _add  # type: ignore[method-assign]
    sys.exit(run())
