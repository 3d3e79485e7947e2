"""This version opens data folders of older versions."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.bot_process import ROOT
from tests.e2e.upgrade import upgrade
from tests.peers.postgres import PostgresServer

pytestmark = pytest.mark.long

FIRST_PROMPTS = "ec1cceb1"
"""The first commit of the main branch that stores what the model was shown."""
NO_PROMPTS = "c26168bb"
"""The commit before `FIRST_PROMPTS`."""


def known(commit: str) -> str:
    """Return the commit if this checkout has it, else skip the test: a checkout of a release has no
    history."""
    asked = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    if subprocess.run(asked, cwd=ROOT, check=False, capture_output=True).returncode:
        pytest.skip(f"this checkout has no commit {commit}")
    return commit


@pytest.mark.parametrize(
    "commit",
    [
        pytest.param(NO_PROMPTS, id="without", marks=pytest.mark.slow),
        pytest.param(FIRST_PROMPTS, id="with", marks=pytest.mark.slow),
    ],
)
async def test_old_prompts_are_shown_byte_for_byte_or_the_bot_says_that_they_were_not_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], commit: str
) -> None:
    await upgrade(known(commit), tmp_path)
    said = capsys.readouterr().out
    assert ("prompts of the old bot are shown byte for byte" in said) == (commit == FIRST_PROMPTS)
    assert ("the old bot kept no prompts" in said) == (commit == NO_PROMPTS)


async def test_old_prompts_on_a_database_server_are_shown_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], postgres: PostgresServer
) -> None:
    await upgrade(known(FIRST_PROMPTS), tmp_path, await postgres.empty_database())
    assert "prompts of the old bot are shown byte for byte" in capsys.readouterr().out
