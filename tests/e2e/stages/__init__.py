"""Platforms as stages: on each of them the same conversation is played, `test_one_conversation.py`.

A stage has the platform's other side (a peer, a server), what a person there does and what that
person sees. What it needs of the machine and cannot have skips its tests with the reason.
"""

from tests.e2e.stages.stage import Medium, Opener, Seen, Stage, WireLine

__all__ = ["Medium", "Opener", "Seen", "Stage", "WireLine"]
