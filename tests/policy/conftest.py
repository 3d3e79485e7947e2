"""The policy tests use the same whole bots as the tests of the agent."""

from tests.agent.conftest import boxes, folder

__all__ = ["boxes", "folder"]
