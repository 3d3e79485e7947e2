"""A thousand questions, a cut connection and a kill -9: nothing lost, nothing twice."""

from pathlib import Path

import pytest

from tests.e2e.crash import Load, crash


@pytest.mark.timeout(300)
async def test_a_killed_bot_answers_everything_once(tmp_path: Path) -> None:
    outcome = await crash(Load(messages=1000, chats=50, per_second=100, drops=1, kills=1), tmp_path)
    print(outcome)
    assert not outcome.faults, "\n".join([*outcome.faults[:5], outcome.faults[-1]])
    assert outcome.asked == 1000
