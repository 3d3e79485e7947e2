"""Plays the 71 scenarios with the stored replies. No scenario may fail, and few may need more model
calls than necessary."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.package_fetch import PackagesUnavailable
from nekro_core.sandbox.settings import SandboxSettings
from tests.e2e.scenarios.played import StoredReplies, play, told
from tests.e2e.scenarios.replies import read_replies
from tests.e2e.scenarios.scenario import WORDINGS, Subject
from tests.e2e.scenarios.scene import Outcome
from tests.e2e.scenarios.subjects import SUBJECTS

SCENARIOS = 71
COULD = 0.9
"""At least this share of the scenarios must end with the smallest possible number of model calls,
`Outcome.could`."""

pytestmark = [pytest.mark.jail, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
async def packages(anyio_backend: str) -> None:
    """Download the packages of boxes, as a bot does at its first start. Prompts name the
    packages."""
    async with anyio.create_task_group() as tasks:
        jail = JailBackend(SandboxSettings(packages=True), tasks)
        await jail.images()
        assert jail.packages is not None
        try:
            await jail.packages.fetch()
        except PackagesUnavailable as error:
            pytest.skip(str(error))
        finally:
            await jail.aclose()
            tasks.cancel_scope.cancel()


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """A list that all tests of this module share. The test of each subject adds its outcomes."""
    return []


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda each: each.name)
async def test_no_scenario_fails(
    packages: None, tmp_path: Path, subject: Subject, outcomes: list[Outcome]
) -> None:
    replies = StoredReplies(read_replies(subject.name))
    played = await play(tmp_path, subject.conversations, WORDINGS, replies)
    outcomes += played
    assert not told(played), told(played)


def test_nine_of_ten_scenarios_need_only_the_necessary_calls(outcomes: list[Outcome]) -> None:
    numbers = {each.number for each in outcomes}
    if len(numbers) < SCENARIOS:
        pytest.skip(f"{len(numbers)} of {SCENARIOS} scenarios were played")
    more = _more_calls(outcomes)
    assert len(more) <= SCENARIOS * (1 - COULD), f"more calls than needed: {sorted(more)}"


def test_every_number_has_exactly_one_scenario() -> None:
    numbers = [n for s in SUBJECTS for each in s.conversations for n in each.numbers]
    assert sorted(numbers) == list(range(1, SCENARIOS + 1))


def _more_calls(outcomes: Sequence[Outcome]) -> set[int]:
    return {each.number for each in outcomes if each.calls > each.could}
