"""Fixtures: the boxes and the folder of the agent's tests."""

from tests.agent.conftest import boxes, folder

__all__ = ["boxes", "folder"]
