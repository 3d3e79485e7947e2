"""A fixture for the tests of plugins."""

from pathlib import Path

import pytest

from tests.plugins.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
