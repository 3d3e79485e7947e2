"""Policies are tried on whole bots, as the agent's tests have them."""

from tests.agent.conftest import boxes, folder

__all__ = ["boxes", "folder"]
