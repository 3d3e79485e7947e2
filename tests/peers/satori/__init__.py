"""A real Satori implementation: satori-python-server, started by the test as a process."""

from tests.peers.satori.peer import PLATFORM, SELF, TOKEN, Call, SatoriPeer, missing

__all__ = ["PLATFORM", "SELF", "TOKEN", "Call", "SatoriPeer", "missing"]
