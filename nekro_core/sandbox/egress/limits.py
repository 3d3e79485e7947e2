"""What bounds the way out of boxes."""

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """Of one box, but ``bytes_per_hour``: of all boxes of one owner."""

    connections: int = 32
    """At once. pip opens ten."""
    bytes_per_hour: int = 1024 * _MIB
    """Both ways together. A large scientific stack is half of it."""
    request_s: float = 10.0
    """For the head of a request to arrive."""
    idle_s: float = 120.0
    """Without a byte either way."""
    connection_s: float = 3600.0
    """From the first byte to the last."""
