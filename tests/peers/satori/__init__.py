"""A Satori implementation: satori-python-server as a process of the test's own."""

from tests.peers.satori.peer import PLATFORM, SELF, TOKEN, Call, SatoriPeer, missing

__all__ = ["PLATFORM", "SELF", "TOKEN", "Call", "SatoriPeer", "missing"]
