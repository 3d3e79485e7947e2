"""What the tests of existing plugins share."""

from pathlib import Path

import pytest

from tests.plugin.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
