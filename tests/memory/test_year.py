"""Runs a short form of ``make year``: a group of 12 people talks for three weeks, with restarts."""

from pathlib import Path

import pytest

from nekro_core.memory.settings import MemorySettings
from tests.memory.year import live


@pytest.mark.long
@pytest.mark.slow
async def test_notes_and_summaries_stay_within_their_budgets(tmp_path: Path) -> None:
    figures = await live(tmp_path, messages=1_200, turns=24, restarts=2)
    settings = MemorySettings()
    assert (figures.messages, figures.turns, figures.restarts) == (1_200, 24, 2)
    assert 200 < figures.summary_tokens <= settings.summary_tokens * 1.05
    assert 100 < figures.notes_tokens <= settings.notes_tokens * 1.05
    assert figures.summaries >= 40
    assert figures.whole == 1
    assert figures.notes >= 20
