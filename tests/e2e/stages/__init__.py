"""One stage for each platform: `test_one_conversation.py` plays the same conversation on each.

A stage runs the platform (a peer or a server), and does there what a person does. If this machine
lacks what a stage needs, its tests are skipped with a reason.
"""

from tests.e2e.stages.stage import Medium, Opener, Seen, Stage, WireLine

__all__ = ["Medium", "Opener", "Seen", "Stage", "WireLine"]
